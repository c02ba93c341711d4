"""The command `tamis publish`, which publishes messages and waits until the broker has confirmed them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.json_messages import BadMessages, JsonMessage, MessageForm
from tamis.cli.options import DEFAULT_URL, JsonOption, UnixOption, UrlOption
from tamis.errors import ConfigError

if TYPE_CHECKING:
    from tamis.cli.amqp.json_lines import Outgoing
    from tamis.cli.amqp.publisher import Published

BODY_BYTES_MAX = 512 * 1024 * 1024
"""Maximum size of a body from stdin; a broker may accept less."""


def publish(
    body: Annotated[
        str | None, typer.Argument(help="The body; `-`: all of stdin. Without it, JSON lines are read from stdin.")
    ] = None,
    exchange: Annotated[
        str, typer.Option("--exchange", "-e", help="Default: the default exchange, whose keys are names of queues.")
    ] = "",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The routing key; default: each line's topic.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="An AMQP property, for example content_type=text/plain."),
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header, for example price=12 or region=EU."),
    ] = None,
    transient: Annotated[bool, typer.Option("--transient", help="Messages need not survive a restart.")] = False,
    topic_field: Annotated[str, typer.Option(help="The field with the routing key.")] = "topic",
    body_field: Annotated[str, typer.Option(help="The field with the text.")] = "body",
    url: UrlOption = DEFAULT_URL,
    unix: UnixOption = None,
    as_json: JsonOption = False,
) -> int:
    """Publish one message, or one for each JSON line of stdin, and wait until the broker has confirmed them all.

    A line is an object as `tamis match` reads it and `tamis consume` prints it: topic, body; a field with the name of
    an AMQP property is that property, any other is a header. A --header that is JSON has its JSON type: price=12 is a
    number.

    Exit code: 0 when all were confirmed and reached a queue, 1 when some reached none, 2 on an error, also when only
    some lines could not be read.
    """
    from tamis.cli.amqp.connection import BrokerAddress
    from tamis.cli.amqp.json_lines import header_option, property_option
    from tamis.cli.amqp.publisher import Publisher
    from tamis.cli.progress_bar import progress_count

    if body is None and sys.stdin.isatty():
        output.note(
            'reading messages from stdin, for example {"topic": "a.b", "price": 12, "body": "..."}; Ctrl-D ends'
        )
    bad = BadMessages()
    given = {
        "key": key,
        "properties": dict(map(property_option, properties or [])),
        "headers": dict(map(header_option, headers or [])),
        "persistent": not transient,
    }
    form = MessageForm(topic_field=topic_field, body_field=body_field)
    messages = _lines(form, bad, given) if body is None else iter([_one(body, given)])
    began = perf_counter()
    with progress_count("publishing" if body is None else "") as confirmed:
        publisher = Publisher(BrokerAddress(url, unix, "publish"), exchange, messages, confirmed)
        try:
            publisher.run()
        finally:
            if publisher.counts.published or bad.count:
                _summarise(publisher.counts, bad.count, perf_counter() - began, as_json)
    counts = publisher.counts
    if bad.count or counts.refused:
        return 2
    return 1 if counts.unroutable else 0


def _one(body: str, given: dict[str, Any]) -> Outgoing:
    """Return the message of the command line.

    Raises:
        ConfigError: the body is too large, or AMQP cannot carry the message.
    """
    from tamis.cli.amqp.json_lines import outgoing

    whole = sys.stdin.buffer.read(BODY_BYTES_MAX + 1) if body == "-" else body.encode("utf-8", "surrogateescape")
    if len(whole) > BODY_BYTES_MAX:
        raise ConfigError(f"stdin: expected a body of at most {BODY_BYTES_MAX:,} bytes")
    try:
        made = outgoing(JsonMessage({}, "", None, {}), **given)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return type(made)(made.key, made.properties, whole)


def _lines(form: MessageForm, bad: BadMessages, given: dict[str, Any]) -> Iterator[Outgoing]:
    """Yield the message of each line of stdin; `bad` gets lines that cannot be read."""
    from tamis.cli.amqp.json_lines import outgoing

    # Not sys.stdin: this runs in a thread, and an interrupted process could not close sys.stdin while it is read.
    with open(sys.stdin.fileno(), "rb", closefd=False) as stdin:
        for number, line in enumerate(stdin, start=1):
            if line.isspace():
                continue
            try:
                yield outgoing(form.read(line), **given)
            except ValueError as error:
                bad.add(f"stdin, line {number}", error)


def _summarise(counts: Published, bad: int, seconds: float, as_json: bool) -> None:
    """Print the summary: for people on stderr, or as JSON on stdout."""
    if as_json:
        output.data_json({**vars(counts), "bad": bad, "seconds": round(seconds, 6)})
        return
    parts = [f"{counts.confirmed:,} of {counts.published:,} messages confirmed"]
    parts += [f"{counts.unroutable:,} reached no queue"] if counts.unroutable else []
    parts += [f"{counts.refused:,} refused"] if counts.refused else []
    parts += [f"{output.counted(bad, 'line', 'lines')} could not be read"] if bad else []
    rate = f" ({counts.confirmed / seconds:,.0f} a second)" if counts.confirmed > 1 and seconds else ""
    output.note(f"{', '.join(parts)} in {seconds:.2f} s{rate}")
