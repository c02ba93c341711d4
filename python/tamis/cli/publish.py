"""``tamis publish``: messages into a broker, each confirmed by it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.messages import BadLines, Message, MessageForm
from tamis.cli.places import DEFAULT_URL, JsonOption, UnixOption, UrlOption
from tamis.errors import ConfigError

if TYPE_CHECKING:
    from tamis.cli.amqp_message import Outgoing
    from tamis.cli.publisher import Published

BODY_BYTES_MAX = 512 * 1024 * 1024
"""The largest body that is read from stdin; a broker may take less."""


def publish(
    body: Annotated[
        str | None, typer.Argument(help="The body; `-`: all of stdin. Without it stdin has JSON lines.")
    ] = None,
    exchange: Annotated[str, typer.Option("--exchange", "-e", help="Default: the one that knows queues by name.")] = "",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The routing key; default: each line's topic.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property of AMQP, as in content_type=text/plain."),
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header, as in price=12 or region=EU.")
    ] = None,
    transient: Annotated[bool, typer.Option("--transient", help="Messages need not survive a restart.")] = False,
    topic_field: Annotated[str, typer.Option(help="The field with the routing key.")] = "topic",
    body_field: Annotated[str, typer.Option(help="The field with the text.")] = "body",
    url: UrlOption = DEFAULT_URL,
    unix: UnixOption = None,
    as_json: JsonOption = False,
) -> int:
    """Publish one message, or one for each JSON line of stdin, and wait until the broker has confirmed them all.

    A line is an object as `tamis match` reads it and `tamis consume` prints it: topic, body; fields called like a
    property of AMQP are that property, the others are headers. A --header that is JSON has its type: price=12 is a
    number.

    Exit code: 0 when all were confirmed and had a queue to go to, 1 when some had none, 2 on an error, also when only
    some lines could not be read.
    """
    from tamis.cli.amqp import Target
    from tamis.cli.amqp_message import header_option, property_option
    from tamis.cli.progress import progress_count
    from tamis.cli.publisher import Publisher

    if body is None and sys.stdin.isatty():
        output.note('reading messages from stdin, as in {"topic": "a.b", "price": 12, "body": "..."}; Ctrl-D ends')
    bad = BadLines("-")
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
        publisher = Publisher(Target(url, unix, "publish"), exchange, messages, confirmed)
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
    """The message that the command line names.

    Raises:
        ConfigError: no text, or too much of it.
    """
    from tamis.cli.amqp_message import outgoing

    whole = sys.stdin.buffer.read(BODY_BYTES_MAX + 1) if body == "-" else body.encode("utf-8", "surrogateescape")
    if len(whole) > BODY_BYTES_MAX:
        raise ConfigError(f"stdin: expected a body of at most {BODY_BYTES_MAX:,} bytes")
    try:
        made = outgoing(Message({}, "", None, {}), **given)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return type(made)(made.key, made.properties, whole)


def _lines(form: MessageForm, bad: BadLines, given: dict[str, Any]) -> Iterator[Outgoing]:
    """One message for each line of stdin that holds one; `bad` has the others."""
    from tamis.cli.amqp_message import outgoing

    # A reader of its own: this runs in a thread, and an interrupted process could not close sys.stdin under it.
    with open(sys.stdin.fileno(), "rb", closefd=False) as stdin:
        for number, line in enumerate(stdin, start=1):
            if line.isspace():
                continue
            try:
                yield outgoing(form.read(line), **given)
            except ValueError as error:
                bad.add(number, error)


def _summarise(counts: Published, bad: int, seconds: float, as_json: bool) -> None:
    """The last line for people, or for machines on stdout."""
    if as_json:
        output.data_json({**vars(counts), "bad": bad, "seconds": round(seconds, 6)})
        return
    parts = [f"{counts.confirmed:,} of {counts.published:,} messages confirmed"]
    parts += [f"{counts.unroutable:,} had no queue to go to"] if counts.unroutable else []
    parts += [f"{counts.refused:,} refused"] if counts.refused else []
    parts += [f"{bad:,} lines could not be read"] if bad else []
    rate = f" ({counts.confirmed / seconds:,.0f} a second)" if counts.confirmed > 1 and seconds else ""
    output.note(f"{', '.join(parts)} in {seconds:.2f} s{rate}")
