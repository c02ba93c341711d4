"""The command `tamis consume`, which prints the messages of a queue as JSON lines."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated

import typer

from tamis.cli import output
from tamis.cli.options import DEFAULT_URL, UnixOption, UrlOption

LOOK_COUNT_MAX = 10_000
"""Maximum number of messages with ``--no-ack``: the broker has to remember each until the end."""
EMPTY_S = 0.5
"""Time without a message after which a queue counts as empty."""

CountOption = Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this number of messages.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="SECONDS", help="Stop after this time without a message; 0: when there is no more now."
    ),
]
DetailsOption = Annotated[
    bool, typer.Option("--details", help='Add "delivery": the exchange, and whether it was delivered before.')
]
SummaryOption = Annotated[bool, typer.Option("--json", help="The summary as JSON too.")]


def consume(
    queue: Annotated[str, typer.Argument(help="The queue.")],
    count: CountOption = None,
    ack: Annotated[
        bool, typer.Option("--ack/--no-ack", help="Take the messages, or only show them: they go back.")
    ] = True,
    timeout: TimeoutOption = None,
    details: DetailsOption = False,
    as_json: SummaryOption = False,
    url: UrlOption = DEFAULT_URL,
    unix: UnixOption = None,
) -> int:
    """Take messages from a queue and print them, one JSON object per line, until Ctrl-C.

    A line has the form that `tamis match` reads and `tamis publish` publishes: topic (the routing key), headers and
    AMQP properties under their names, body; a body that is not text is in body_base64. A message is acknowledged after
    it has been written. With --no-ack messages stay, marked as delivered before, and at most 10,000 are shown.

    Exit code: 0 when a message came, 1 when none did (also after Ctrl-C), 2 on an error, 130 when Ctrl-C came before
    --count messages.
    """
    from tamis.cli.amqp.connection import BrokerAddress, connect, explained
    from tamis.cli.amqp.printing_consumer import PrintingConsumer, closing, until_interrupted

    count_max = count if ack else min(count or LOOK_COUNT_MAX, LOOK_COUNT_MAX)
    address = BrokerAddress(url, unix, "consume")
    began = perf_counter()
    with until_interrupted() as is_stopped, explained(address), closing(connect(address)) as connection:
        consumer = PrintingConsumer(
            connection.channel(), queue, acknowledges=ack, count_max=count_max, with_delivery=details
        )
        consumer.run(wait_s(timeout), is_stopped)
    summarise("taken" if ack else "shown", consumer.count, perf_counter() - began, as_json)
    return consumer.exit_code(count, is_stopped())


def wait_s(timeout: float | None) -> float | None:
    """Return the time to wait for a message; with 0, the moment that waiting messages take to arrive."""
    return EMPTY_S if timeout == 0 else timeout


def summarise(verb: str, count: int, seconds: float, as_json: bool) -> None:
    """Print the summary on stderr."""
    if as_json:
        output.note(output.to_json({verb: count, "seconds": round(seconds, 6)}))
    else:
        output.note(f"{count:,} {'message' if count == 1 else 'messages'} {verb} in {seconds:.1f} s")
