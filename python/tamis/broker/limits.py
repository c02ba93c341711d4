"""Lists every limit of the broker: what it bounds, its default, its setting, and the answer beyond it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from tamis._core import broker_limits
from tamis.broker.limit import Limit


@dataclass(frozen=True)
class LimitRow:
    """One limit with its value.

    Attributes:
        limit: what is limited, and what happens.
        value: the maximum by default; None: no limit; a text where it depends on the machine.
        setting: the key in tamis.toml; None: the limit is fixed.
    """

    limit: Limit
    value: float | str | None
    setting: str | None = None


_FIXED = {
    "table_depth": Limit("levels of a table in headers or arguments", "the channel is closed with 406"),
    "table_bytes": Limit("a table in headers or arguments", "the channel is closed with 406", "bytes"),
    "consumers": Limit("consumers of a channel", "the connection is closed with 530"),
    "output_bytes": Limit(
        "what a client does not read",
        "its consumers wait; others are not affected. While many do not read, one that takes nothing for a minute is "
        "disconnected",
        "bytes",
    ),
    "transaction_bytes": Limit("messages of one transaction", "the connection is closed with 506", "bytes"),
    "further_keys": Limit("further keys of a message in `CC` and `BCC`", "the channel is closed with 406"),
    "letters": Limit("dead letters that wait", "publishers wait, without being told, until half of them are published"),
    "letters_held": Limit(
        "dead letters that a queue with `at-least-once` keeps because no queue takes them",
        "the queue delivers nothing and lets nothing expire until some of them are published",
    ),
    "refused": Limit(
        "messages of a channel that are refused while an earlier one waits for the disk",
        "the channel is closed with 406",
    ),
    "exchanges": Limit("exchanges", "the connection is closed with 506"),
    "queues": Limit("queues", "the connection is closed with 506"),
    "bindings": Limit("bindings", "the connection is closed with 506"),
    "stream_pending_bytes": Limit(
        "what all streams together have to write",
        "publishers are not read until the disk has taken half of it",
        "bytes",
    ),
    "stream_tail_bytes": Limit(
        "what live readers of all streams have yet to get", "they read the log, and others do not notice", "bytes"
    ),
    "stream_partly_read_bytes": Limit(
        "messages of streams of which a part is read from the disk, together", "other readers of such wait", "bytes"
    ),
    "stream_readers": Limit("named readers of a stream", "refused with 406"),
    "stream_reader_files": Limit(
        "files that readers of streams have open, one for all readers of a segment",
        "each further reader closes its file after its turn, and is slower",
    ),
    "time_to_live_ms": Limit("a time to live", "the channel is closed with 406", "ms"),
}
"""The limits of the core that no setting changes, by their names there."""


def fixed_rows() -> Iterator[LimitRow]:
    """Yield the limits that no setting changes."""
    from tamis.broker import log
    from tamis.broker.login import backoff, handshake, password_queue
    from tamis.broker.server import connections

    values = broker_limits()
    yield from (LimitRow(limit, values[name]) for name, limit in _FIXED.items())
    yield LimitRow(
        Limit("a frame before login", "the connection is closed with 501", "bytes"), handshake.BUFFER_BYTES_MAX
    )
    yield LimitRow(
        Limit("the time that a client has to close its socket after the last byte", "the socket is closed", "s"),
        connections.LINGER_S,
    )
    yield LimitRow(
        Limit(
            "logins that wait to be verified: from addresses with a wrong one in the last minute, and from others",
            "further ones are refused",
        ),
        password_queue.WAITING_MAX,
    )
    yield LimitRow(
        Limit("logins of an address that wait to be verified", "further ones are refused"),
        password_queue.WAITING_PER_ADDRESS_MAX,
    )
    yield LimitRow(
        Limit("wrong logins of an address that wait for their answer", "further ones are refused"), backoff.WAITING_MAX
    )
    yield LimitRow(
        Limit("lines of the log that stderr does not take", "further ones are dropped and counted"), log.WAITING_MAX
    )


def setting_rows(config: type[Any], table: str) -> Iterator[LimitRow]:
    """Yield the limits that stand in the annotations of a settings class, in the order of its fields.

    Args:
        config: a dataclass whose annotations hold a `Limit`.
        table: its table in tamis.toml.
    """
    hints = get_type_hints(config, include_extras=True)
    for field in dataclasses.fields(config):
        limit = _limit_of(hints[field.name])
        if limit is not None:
            default = field.default if field.default is not dataclasses.MISSING else "depends on the machine"
            yield LimitRow(limit, default, f"{field.name}" if table == "limits" else f"{table}.{field.name}")


def all_rows() -> list[LimitRow]:
    """Return every limit: first those with a setting, then the fixed ones."""
    from tamis.broker.addresses import MailboxesConfig, ServicesConfig
    from tamis.broker.config import JournalConfig, LimitsConfig

    tables = {
        "limits": LimitsConfig,
        "journal": JournalConfig,
        "mailboxes": MailboxesConfig,
        "services": ServicesConfig,
    }
    return [*(row for table, config in tables.items() for row in setting_rows(config, table)), *fixed_rows()]


def table() -> str:
    """Return all limits as the Markdown table of docs/broker.md."""
    lines = ["| what | maximum | setting | beyond it |", "|---|---|---|---|"]
    for row in all_rows():
        setting = f"`{row.setting}`" if row.setting else ""
        lines.append(f"| {row.limit.what} | {_shown(row)} | {setting} | {row.limit.beyond} |")
    return "\n".join(lines)


def _limit_of(hint: Any) -> Limit | None:
    """Return the `Limit` in an annotation, also in one member of a union."""
    if get_origin(hint) is Annotated:
        return next((item for item in hint.__metadata__ if isinstance(item, Limit)), None)
    return next(filter(None, map(_limit_of, get_args(hint))), None)


def _shown(row: LimitRow) -> str:
    """Return a value as people read it: 16 MiB, 10 s, 2,047."""
    if row.value is None:
        return "no limit"
    if isinstance(row.value, str):
        return row.value
    if row.limit.unit == "bytes":
        for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if row.value >= size and row.value % size == 0:
                return f"{row.value // size:,.0f} {name}"
    return f"{row.value:,.0f}{row.limit.unit and ' ' + row.limit.unit}"
