"""The command `tamis tail`, which prints the messages of an exchange or a stream as they come.

The query is compiled here first, so that an error shows a caret, and then sent as selector text, which every query has.
The fields of a JSON body are properties under ``body.``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.amqp.consume import CountOption, DetailsOption, SummaryOption, TimeoutOption, summarise, wait_s
from tamis.cli.options import DEFAULT_URL, UnixOption, UrlOption
from tamis.errors import ConfigError

if TYPE_CHECKING:
    from tamis import Query
    from tamis.cli.amqp.printing_consumer import Delivery

BEHIND_COUNT_MAX = 100_000
"""Maximum number of messages of an exchange that wait in the broker; then the oldest ones are dropped."""
ALL_KEYS = "#"
NOT_FOUND = 404
AGE = re.compile(r"[0-9]{1,9}[YMDhms]")
"""Years, months, days, hours, minutes or seconds, as the broker reads them."""
_KEY_GIVEN = "a topic exchange reads * and # in the key, a direct exchange compares it; others ignore it"
_ALL_KEYS_ASKED = "this shows all of a topic or fanout exchange; of a direct exchange only what --key names"


def tail(
    source: Annotated[str, typer.Argument(help="An exchange, or a stream.", metavar="EXCHANGE|STREAM")],
    query: Annotated[
        str | None, typer.Option(help="Only messages that satisfy this query, for example: price > 10.")
    ] = None,
    language: Annotated[str, typer.Option(help="The query's language.")] = "selector",
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The binding key; default: #, all of a topic exchange.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="START",
            help="In a stream: next (default), first, last, an offset, a time, or an age: 90m.",
        ),
    ] = None,
    count: CountOption = None,
    timeout: TimeoutOption = None,
    details: DetailsOption = False,
    as_json: SummaryOption = False,
    url: UrlOption = DEFAULT_URL,
    unix: UnixOption = None,
) -> int:
    """Print messages as they come, one JSON object per line, until Ctrl-C. Other consumers still get every message.

    An exchange is read through a temporary queue, which drops the oldest messages when 100,000 wait. A stream is read
    from --from on, and keeps all messages. Lines have the form of `tamis consume`; where --query reads fields of a JSON
    body, the body is JSON in them, so that `tamis match` gives the same answer.

    Exit code: 0 when a message came, 1 when none did (also after Ctrl-C), 2 on an error, 130 when Ctrl-C came before
    --count messages.
    """
    offset = _stream_offset(start)
    compiled = None if query is None else _compiled(query, language)
    filters = {} if compiled is None else {"x-query": str(compiled), "x-query-body": "json"}
    from tamis.cli.amqp.connection import BrokerAddress, connect, explained
    from tamis.cli.amqp.json_lines import AnswersKept
    from tamis.cli.amqp.printing_consumer import PrintingConsumer, closing, until_interrupted

    printing: dict[str, Any] = {"count_max": count, "with_delivery": details}
    if compiled is not None:
        printing["prepare"] = AnswersKept(compiled)
    address = BrokerAddress(url, unix, "tail")
    began = perf_counter()
    with until_interrupted() as is_stopped, explained(address), closing(connect(address)) as connection:
        is_exchange = _is_exchange(connection, source, as_stream=offset is not None)
        if is_exchange and offset is not None:
            raise ConfigError(f"--from needs a stream, and '{source}' is an exchange, which keeps no messages")
        if is_exchange:
            queue = _bound_queue(connection, source, ALL_KEYS if key is None else key, filters)
            consumer = PrintingConsumer(connection.channel(), queue, **printing)
        elif key is not None:
            raise ConfigError(f"--key needs an exchange, and '{source}' is read as a stream")
        else:
            arguments = {**filters, "x-stream-offset": "next" if offset is None else offset}
            consumer = PrintingConsumer(
                connection.channel(),
                source,
                arguments=arguments,
                **printing,
                check=lambda delivery: _check_is_of_stream(delivery, source),
            )
        with_key = f" with the key '{key}'" if key is not None else ""
        output.note(f"waiting for messages of '{source}'{with_key}{_about(filters)} ... (Ctrl-C ends)")
        if is_exchange:
            output.hint(_KEY_GIVEN if key is not None else _ALL_KEYS_ASKED)
        consumer.run(wait_s(timeout), is_stopped)
    summarise("shown", consumer.count, perf_counter() - began, as_json)
    return consumer.exit_code(count, is_stopped())


def _stream_offset(text: str | None) -> str | int | datetime | None:
    """Return the value of x-stream-offset.

    Raises:
        ConfigError: the text names no offset or time.
    """
    if text is None or text in ("next", "first", "last"):
        return text
    if text.isascii() and text.isdigit() and int(text) < 2**63:
        return int(text)
    if AGE.fullmatch(text):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--from: expected next, first, last, an offset, a time or an age, not '{text}'\n"
            "  for example --from 120, --from 2026-01-31T12:00 or --from 90m"
        ) from None
    return when.astimezone(UTC)


def _compiled(query: str, language: str) -> Query:
    """Return the query.

    Raises:
        QueryError: the query cannot be parsed.
        ConfigError: the language is unknown.
    """
    from tamis.query import compile_query

    return compile_query(query, language)


def _about(filters: dict[str, Any]) -> str:
    return f" where {filters['x-query']}" if filters else ""


def _is_exchange(connection: Any, name: str, *, as_stream: bool) -> bool:
    """Return whether `name` is an exchange; otherwise it is a queue. If it is both, `as_stream` decides.

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
    """Return whether the broker answers 404, on a separate channel, which that closes."""
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
    """Declare and bind a temporary queue; return its name."""
    channel = connection.channel()
    made = channel.queue_declare("", exclusive=True, auto_delete=True, arguments={"x-max-length": BEHIND_COUNT_MAX})
    name: str = made.method.queue
    channel.queue_bind(name, exchange, key, arguments=filters or None)
    return name


def _check_is_of_stream(delivery: Delivery, name: str) -> None:
    """Refuse to read a queue: its messages belong to its consumers, and return when the connection is closed."""
    if "x-stream-offset" not in (delivery.properties.headers or {}):
        raise ConfigError(
            f"'{name}' is a queue, and reading it takes its messages away\n"
            f"  tamis consume {name} --no-ack shows them, tamis consume {name} takes them"
        )
