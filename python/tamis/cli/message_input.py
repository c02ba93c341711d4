"""Reads the messages that a command is given: JSON lines, mail in files and folders, a stream's directory, a store."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tamis.cli.input_kinds import BEGIN_BYTES, Kind, checked_kind, files_of, kind_of, kind_of_bytes
from tamis.cli.json_messages import JsonMessage, MessageForm, open_lines
from tamis.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    from io import BufferedReader

    from tamis.adapters.rows import Row
    from tamis.adapters.sources.journal import StreamRecord
    from tamis.adapters.sources.source import Source

_SHOWN_FROM_BYTES: Final = 1 << 20


class InputMessage(NamedTuple):
    """One message of the input, or the reason why it cannot be read.

    Attributes:
        place: where it stands, for machines: a line, or a file and a byte in it.
        where: the same for people.
        size_bytes: its size.
        message: None if it cannot be read.
        error: why it cannot be read.
    """

    place: dict[str, Any]
    where: str
    size_bytes: int
    message: JsonMessage | None
    error: Exception | None = None


@contextmanager
def open_messages(name: str, form: MessageForm, kind: str | None = None) -> Iterator[Iterator[InputMessage]]:
    """Yield the messages of a file, a folder, or stdin for ``-``; show progress on a terminal.

    Args:
        name: the file or folder.
        form: how a JSON object is a message; its topic is that of all messages.
        kind: one of `tamis.cli.input_kinds.KINDS`; None looks at what is there.

    Raises:
        OSError: it cannot be read.
        TamisError: there is nothing to read, or no such kind.
    """
    given = None if kind is None else checked_kind(kind)
    with _as_path(name, given) as (path, found):
        messages = _READERS[found](path, name, form)
        with progress_bar("", _size(path), shown=not sys.stdout.isatty()) as advance:
            yield _counted(messages, advance)


def _counted(messages: Iterable[InputMessage], advance: Any) -> Iterator[InputMessage]:
    for message in messages:
        advance(message.size_bytes)
        yield message


@contextmanager
def _as_path(name: str, kind: Kind | None) -> Iterator[tuple[str, Kind]]:
    """Yield a path and its kind; mail from stdin is first written to a file, since readers go back in it."""
    if name != "-":
        yield name, kind or kind_of(Path(name))
        return
    found = kind or kind_of_bytes(cast("BufferedReader", sys.stdin.buffer).peek(BEGIN_BYTES)[:BEGIN_BYTES])
    if found == "jsonl":
        yield name, found
        return
    with tempfile.NamedTemporaryFile(prefix="tamis-stdin-") as file:
        while chunk := sys.stdin.buffer.read(_SHOWN_FROM_BYTES):
            file.write(chunk)
        file.flush()
        yield file.name, found


def _size(name: str) -> int | None:
    """Return the bytes to be read, for progress; None if that is unknown or little."""
    if name == "-":
        return None
    path = Path(name)
    files = path.rglob("*") if path.is_dir() else [path]
    total = sum(file.stat().st_size for file in files if file.is_file())
    return total if total >= _SHOWN_FROM_BYTES else None


def _read_lines(path: str, name: str, form: MessageForm) -> Iterator[InputMessage]:
    if path == "-" or not Path(path).is_dir():
        yield from _lines_of(path, "stdin" if name == "-" else name, {}, form)
        return
    for file in sorted(Path(path).rglob("*.jsonl")):
        yield from _lines_of_file(os.fspath(file), form)


def _lines_of_file(path: str, form: MessageForm) -> Iterator[InputMessage]:
    """Yield the messages of one file of a folder."""
    return _lines_of(path, path, {"file": path}, form)


def _lines_of(path: str, shown: str, file: dict[str, Any], form: MessageForm) -> Iterator[InputMessage]:
    with open_lines(path) as lines:
        for number, line in lines:
            place, where = {**file, "line": number}, f"{shown}, line {number}"
            try:
                yield InputMessage(place, where, len(line), form.read(line))
            except ValueError as error:
                yield InputMessage(place, where, len(line), None, error)


def _read_mail(path: str, name: str, form: MessageForm, source_type: str, **options: Any) -> Iterator[InputMessage]:
    from tamis.adapters.sources.source import offset_of

    stdin = "stdin" if name == "-" else None
    source = _source(source_type, path, form, source=stdin, **options)
    source.check()
    start = offset_of({})
    for part in source.plan(start, source.latest(start, None, settled=True)):
        for row in source.read(part):
            yield _of_row(row, stdin or row.partition)


def _read_mbox(path: str, name: str, form: MessageForm) -> Iterator[InputMessage]:
    return _read_mail(path, name, form, "mbox")


def _read_eml(path: str, name: str, form: MessageForm) -> Iterator[InputMessage]:
    return _read_mail(path, name, form, "eml")


def _read_mixed(path: str, name: str, form: MessageForm) -> Iterator[InputMessage]:
    del name
    for file, kind in files_of(Path(path)):
        path = os.fspath(file)
        yield from _lines_of_file(path, form) if kind == "jsonl" else _READERS[kind](path, path, form)


def _read_maildir(path: str, name: str, form: MessageForm) -> Iterator[InputMessage]:
    for folder in ("new", "cur"):
        yield from _read_mail(f"{path}/{folder}", name, form, "eml", pattern="*")


def _read_stream(path: str, name: str, form: MessageForm) -> Iterator[InputMessage]:
    from tamis.adapters.sources.journal import JournalSource
    from tamis.adapters.sources.source import offset_of

    source = _source("journal", path, form)
    assert isinstance(source, JournalSource)  # noqa: S101 - for the type checker
    start = offset_of({})
    for part in source.plan(start, source.latest(start, None)):
        for record in source.records(part):
            yield _of_record(record, name, form)


def _read_store(path: str, name: str, form: MessageForm) -> Iterator[InputMessage]:
    from tamis.store import Store

    with Store.open(path, create=False) as store:
        for adapter, row in store.messages():
            properties = json.loads(row.properties)
            message = _whole(properties, form.topic or row.topic, row.body)
            place = {"adapter": adapter, "file": row.partition, "byte": row.offset}
            size_bytes = len(row.properties) + len(row.body or "") + len(row.xml or "")
            yield InputMessage(place, f"{name}, {row.partition}, byte {row.offset:,}", size_bytes, message)


_READERS: Final = {
    "jsonl": _read_lines,
    "mbox": _read_mbox,
    "eml": _read_eml,
    "maildir": _read_maildir,
    "journal": _read_stream,
    "store": _read_store,
    "mixed": _read_mixed,
}


def _source(source_type: str, path: str, form: MessageForm, **options: Any) -> Source:
    from tamis.adapters.registry import source_class

    found = source_class(source_type)
    given = {"path": os.path.abspath(path), "topic": form.topic or "", **options}  # noqa: PTH100
    return found(found.Options(**given))


def _of_row(row: Row, file: str) -> InputMessage:
    """Return the message in a row of mail."""
    place = {"file": file, "byte": row.offset}
    where = f"{file}, byte {row.offset:,}" if row.offset else file
    if row.error is not None:
        return InputMessage(place, where, len(row.raw or b""), None, ValueError(row.error))
    properties: dict[str, Any] = dict(row.properties)  # type: ignore[arg-type]
    properties["header"] = dict(properties["header"])
    return InputMessage(place, where, row.characters // 2, _whole(properties, row.topic, row.body))


def _of_record(record: StreamRecord | Row, name: str, form: MessageForm) -> InputMessage:
    """Return the message in a record of a stream, with the fields of a JSON body as properties under ``body``."""
    from tamis._core import stream_message

    number = record[0] if isinstance(record, tuple) else record.offset
    place, where = {"offset": number}, f"{name}, offset {number:,}"
    if not isinstance(record, tuple):
        return InputMessage(place, where, 0, None, ValueError(record.error))
    try:
        _, topic, properties, _, content = stream_message(record[2], record[3], "json")
    except ValueError as error:
        return InputMessage(place, where, len(record[3]), None, error)
    text = content.decode("utf-8", "replace")
    return InputMessage(place, where, len(record[3]), _whole(properties, form.topic or topic, text))


def _whole(properties: dict[str, Any], topic: str, body: str | None) -> JsonMessage:
    """Return the message as a record: its parts are keys beside its properties, as the commands print them."""
    whole = {"topic": topic, **properties} if topic else dict(properties)
    if body is not None:
        whole.setdefault("body", body)
    return JsonMessage(whole, topic, body, properties)
