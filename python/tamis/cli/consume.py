"""``tamis consume``: the messages of a queue as JSON lines."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated

import typer

from tamis.cli import output
from tamis.cli.places import DEFAULT_URL, UnixOption, UrlOption

LOOK_COUNT_MAX = 10_000
"""With ``--no-ack`` so many messages are shown: the broker has to remember each until the end."""
EMPTY_S = 0.5
"""A queue is taken for empty when nothing has come for so long."""

CountOption = Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many messages.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="End when nothing has come for so long; 0: when there is no more now."),
]
DetailsOption = Annotated[
    bool, typer.Option("--details", help='Add "delivery": the exchange, and whether it was delivered before.')
]
SummaryOption = Annotated[bool, typer.Option("--json", help="The summary as JSON too.")]


def consume(
    queue: Annotated[str, typer.Argument(help="The queue.")],
    count: CountOption = None,
    ack: Annotated[bool, typer.Option("--ack/--no-ack", help="Take messages, or only look: they go back.")] = True,
    timeout: TimeoutOption = None,
    details: DetailsOption = False,
    as_json: SummaryOption = False,
    url: UrlOption = DEFAULT_URL,
    unix: UnixOption = None,
) -> int:
    """Take messages from a queue and print them, one JSON object a line, until Ctrl-C.

    A line has the form that `tamis match` reads and `tamis publish` publishes: topic (the routing key), headers and
    properties of AMQP under their names, body; a body that is no text is in body_base64. A message is acknowledged when
    it has been written. With --no-ack messages stay, marked as delivered before, and 10,000 are shown at most.

    Exit code: 0 when a message came, 1 when none did, 2 on an error, 130 when stopped before there were --count.
    """
    from tamis.cli.amqp import Target, connect, explained
    from tamis.cli.taking import Taking, closing, until_interrupted

    count_max = count if ack else min(count or LOOK_COUNT_MAX, LOOK_COUNT_MAX)
    target = Target(url, unix, "consume")
    began = perf_counter()
    with until_interrupted() as is_stopped, explained(target), closing(connect(target)) as connection:
        taking = Taking(connection.channel(), queue, takes=ack, count_max=count_max, with_delivery=details)
        taking.run(wait_s(timeout), is_stopped)
    summarise("taken" if ack else "shown", taking.count, perf_counter() - began, as_json)
    return taking.exit_code(count, is_stopped())


def wait_s(timeout: float | None) -> float | None:
    """How long to wait for a message: 0 asks for what is there, which takes a moment to come."""
    return EMPTY_S if timeout == 0 else timeout


def summarise(verb: str, count: int, seconds: float, as_json: bool) -> None:
    """The last line, on stderr."""
    if as_json:
        output.note(output.to_json({verb: count, "seconds": round(seconds, 6)}))
    else:
        output.note(f"{count:,} {'message' if count == 1 else 'messages'} {verb} in {seconds:.1f} s")
