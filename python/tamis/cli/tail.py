"""``tamis tail``: what goes through an exchange or stands in a stream, as it comes: all, or what satisfies a query.

The query is compiled here before anything is sent, so that a mistake has its caret, and sent as the selector text that
every query has. Bodies that are JSON are seen by it as properties under ``body.``."""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.consume import CountOption, DetailsOption, SummaryOption, TimeoutOption, summarise, wait_s
from tamis.cli.places import DEFAULT_URL, UnixOption, UrlOption
from tamis.errors import ConfigError

if TYPE_CHECKING:
    from tamis.cli.taking import Delivery

BEHIND_COUNT_MAX = 100_000
"""Messages of an exchange wait for us in the broker, up to so many; then the oldest are dropped."""
ALL_KEYS = "#"
NOT_FOUND = 404


def tail(
    source: Annotated[str, typer.Argument(help="An exchange, or a stream.", metavar="EXCHANGE|STREAM")],
    query: Annotated[str | None, typer.Option(help="Only messages that satisfy it, as in: price > 10.")] = None,
    language: Annotated[str, typer.Option(help="The query's language.")] = "selector",
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The binding key; default: #, all of a topic exchange.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="In a stream: next (default), first, last, an offset or a time."),
    ] = None,
    count: CountOption = None,
    timeout: TimeoutOption = None,
    details: DetailsOption = False,
    as_json: SummaryOption = False,
    url: UrlOption = DEFAULT_URL,
    unix: UnixOption = None,
) -> int:
    """Print messages as they come, one JSON object a line, until Ctrl-C. Nobody else misses one of them for it.

    An exchange is read through a queue that lasts as long as this: who falls 100,000 messages behind misses the oldest.
    A stream is read from --from on and keeps everything. Lines are those of `tamis consume`.

    Exit code: 0 when a message came, 1 when none did, 2 on an error, 130 when stopped before there were --count.
    """
    place = _place(start)
    filters = _filters(query, language)
    from tamis.cli.amqp import Target, connect, explained
    from tamis.cli.taking import Taking, closing, until_interrupted

    target = Target(url, unix, "tail")
    began = perf_counter()
    with until_interrupted() as is_stopped, explained(target), closing(connect(target)) as connection:
        is_exchange = _is_exchange(connection, source, as_stream=place is not None)
        if is_exchange and place is not None:
            raise ConfigError(f"--from goes with a stream, and '{source}' is an exchange: it keeps nothing")
        if is_exchange:
            queue = _bound_queue(connection, source, ALL_KEYS if key is None else key, filters)
            taking = Taking(connection.channel(), queue, count_max=count, with_delivery=details)
        elif key is not None:
            raise ConfigError(f"--key goes with an exchange, and '{source}' is read as a stream")
        else:
            arguments = {**filters, "x-stream-offset": "next" if place is None else place}
            taking = Taking(
                connection.channel(),
                source,
                arguments=arguments,
                count_max=count,
                with_delivery=details,
                check=lambda delivery: _check_is_of_stream(delivery, source),
            )
        output.note(f"waiting for messages of '{source}'{_about(filters)} ... (Ctrl-C ends)")
        taking.run(wait_s(timeout), is_stopped)
    summarise("seen", taking.count, perf_counter() - began, as_json)
    return taking.exit_code(count, is_stopped())


def _place(text: str | None) -> str | int | datetime | None:
    """What x-stream-offset is given.

    Raises:
        ConfigError: nothing that names a place in a stream.
    """
    if text is None or text in ("next", "first", "last"):
        return text
    if text.isascii() and text.isdigit() and int(text) < 2**63:
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--from: expected next, first, last, an offset or a time, not '{text}'\n"
            "  as in --from 120 or --from 2026-01-31T12:00"
        ) from None
    return when.astimezone(UTC)


def _filters(query: str | None, language: str) -> dict[str, Any]:
    """The arguments of a binding or consumer that hold the query.

    Raises:
        QueryError: it cannot be read.
        ConfigError: an unknown language.
    """
    if query is None:
        return {}
    from tamis.query import compile_query

    return {"x-query": str(compile_query(query, language)), "x-query-body": "json"}


def _about(filters: dict[str, Any]) -> str:
    return f" where {filters['x-query']}" if filters else ""


def _is_exchange(connection: Any, name: str, *, as_stream: bool) -> bool:
    """Whether it is an exchange; else it has to be a queue. A name may be both: `as_stream` says what is meant.

    Raises:
        ConfigError: it is neither.
    """
    if as_stream and not _is_missing(connection, lambda channel: channel.queue_declare(name, passive=True)):
        return False
    if not _is_missing(connection, lambda channel: channel.exchange_declare(name, passive=True)):
        return True
    if as_stream or _is_missing(connection, lambda channel: channel.queue_declare(name, passive=True)):
        raise ConfigError(f"there is no exchange and no stream '{name}'")
    return False


def _is_missing(connection: Any, ask: Any) -> bool:
    """Whether the broker says 404, on a channel of its own: it is closed by that."""
    import pika

    channel = connection.channel()
    try:
        ask(channel)
    except pika.exceptions.ChannelClosedByBroker as error:
        if error.reply_code != NOT_FOUND:
            raise
        return True
    channel.close()
    return False


def _bound_queue(connection: Any, exchange: str, key: str, filters: dict[str, Any]) -> str:
    """A queue of ours that gets what we want of an exchange; its name."""
    channel = connection.channel()
    made = channel.queue_declare("", exclusive=True, auto_delete=True, arguments={"x-max-length": BEHIND_COUNT_MAX})
    name: str = made.method.queue
    channel.queue_bind(name, exchange, key, arguments=filters or None)
    return name


def _check_is_of_stream(delivery: Delivery, name: str) -> None:
    """A queue's messages are not ours to take: they go back when the connection is closed."""
    if "x-stream-offset" not in (delivery.properties.headers or {}):
        raise ConfigError(
            f"'{name}' is a queue, and whoever reads one takes its messages away\n"
            f"  tamis consume {name} --no-ack shows them, tamis consume {name} takes them"
        )
