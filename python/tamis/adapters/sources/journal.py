"""Reads a stream of the broker from its log: each record is a message, and its number is its offset for ever.

Only records that are synced are read, also while the broker writes. The numbers have no gaps, so messages that cannot
be read (removed by retention, or damaged on disk) become a dead letter with the reason and the number of messages.

The broker's own code decodes a record (`tamis._core.stream_message`), so that a query has the same result on a binding
and in a pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from tamis._core import JournalReader, stream_message
from tamis.adapters.options import PathOptions, option
from tamis.adapters.rows import RAW_KEPT_BYTES, Row, signature_of
from tamis.adapters.sources.source import Offset, Range, Slice, Source, offset_of, path_text, progress_of
from tamis.adapters.xml import to_xml
from tamis.errors import AdapterError, JournalError
from tamis.message import PRESENT

StreamRecord = tuple[int, int, int, bytes]
"""Number, time in microseconds since 1970, kind, and bytes."""

SLICE_MESSAGES_MIN: Final = 1_000
"""Starting a task takes about 10 ms: fewer messages are not worth a task."""
READ_COUNT: Final = 1_000
READ_BYTES: Final = 4 << 20

_REASONS: Final = {
    "removed": "removed by the stream's retention before they were read",
    "records": "damaged on disk",
    "missing": "lost from the disk",
}


@dataclass(frozen=True, kw_only=True)
class JournalOptions(PathOptions):
    """The options of a stream.

    Attributes:
        starting_offset: ``first``, ``next`` or a message's number, where nothing has been read yet.
        query_body: ``text``, or ``json``: the fields of a body are properties under ``body.``, too.
    """

    starting_offset: str = option("first", words=("first", "next"), or_number=True)
    query_body: str = option("text", words=("text", "json"))


class JournalSource(Source):
    """The log of one stream, in its directory.

    Progress is ``[next, log, begin]``: the next number, the id of the log, and where the batch began. So the first
    batch, for which Spark stores no beginning, has the same beginning when it is read again.
    """

    Options = JournalOptions
    options: JournalOptions
    type: ClassVar[str] = "journal"
    properties = "variant"
    unit = "messages"
    streams = True

    def __init__(self, options: JournalOptions) -> None:
        super().__init__(options)
        self._partition = path_text(options.path)

    def check(self) -> None:
        """Check that there is a log.

        Raises:
            AdapterError: there is none, or it cannot be read.
        """
        self._open()

    def files(self) -> list[str]:
        """Return the paths of the log's segments, oldest first."""
        return sorted(map(str, Path(self.options.path).glob("*.segment")))

    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """Implement `Source.latest`; what is synced is settled. Numbers of removed records do not count as messages.

        Without progress it always returns a new offset: the position of "next" must be fixed before the next message.
        Cost: of a log with more than `max_bytes`, what the batch reads is read to find its end.
        """
        del settled
        reader = self._open()
        progress = progress_of(start).get(self.options.path)
        at = self._beginning(reader) if progress is None else self._position(reader, progress)
        end = reader.next_sequence()
        if ceiling is not None:
            end = min(end, progress_of(ceiling).get(self.options.path, [end])[0])
        if limit is not None:
            end = self._end_by_bytes(at, min(end, max(at, reader.first_sequence()) + limit))
        if progress is not None and end <= at:
            return start
        return offset_of({self.options.path: [max(at, end), str(reader.log_id), at]})

    def _end_by_bytes(self, at: int, end: int) -> int:
        """Return the number behind the record that makes a batch from `at` as large as `max_bytes`, at most `end`."""
        left = self.options.max_bytes
        if sum(Path(file).stat().st_size for file in self.files()) <= left:
            return end
        for record in self._records(at, end):
            if not isinstance(record, Row):
                left -= len(record[3])
                if left <= 0:
                    return record[0] + 1
        return end

    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """Implement `Source.plan`: slices with equal numbers of messages. Removed ones are in the first slice."""
        progress = progress_of(end).get(self.options.path)
        if progress is None:
            return []
        reader = self._open()
        behind = self._position(reader, progress)
        at = progress_of(start).get(self.options.path, [progress[2]])[0]
        kept = max(at, reader.first_sequence())
        share = max(SLICE_MESSAGES_MIN, -(-(behind - kept) // (os.cpu_count() or 1)))
        bounds = [at, *range(kept + share, behind, share), behind]
        return [Slice((Range(self.options.path, low, high),)) for low, high in pairwise(bounds) if low < high]

    def read(self, part: Slice) -> Iterator[Row]:
        """Implement `Source.read`. Memory: about 4 MiB, or one message."""
        log = str(self._open().log_id)
        for record in self.records(part):
            yield record if isinstance(record, Row) else self._row(log, *record)

    def records(self, part: Slice) -> Iterator[StreamRecord | Row]:
        """Yield the records of a slice, in order, and a dead letter for numbers that are missing.

        Raises:
            AdapterError: what is to be read no longer exists.
        """
        for numbers in part.ranges:
            yield from self._records(numbers.start, numbers.end)

    def _records(self, at: int, behind: int) -> Iterator[StreamRecord | Row]:
        reader = self._open(at)
        log = str(reader.log_id)
        while at < behind:
            try:
                records, gaps = reader.read(min(READ_COUNT, behind - at), READ_BYTES)
            except (JournalError, OSError) as error:
                raise AdapterError(f"{self._partition}: {error}") from error
            if not records and not gaps:
                raise AdapterError(f"{self._partition}: the log ends before number {at:,}, which was there before")
            at = reader.position
            # A gap may go beyond the batch: the next batch reports the other part of it.
            found: list[tuple[int, StreamRecord | Row]] = [(record[0], record) for record in records]
            found += [(first, self._gap(log, first, min(last, behind - 1), why)) for first, last, why in gaps]
            yield from (item for number, item in sorted(found, key=itemgetter(0)) if number < behind)

    def _row(self, log: str, number: int, time_us: int, kind: int, record: bytes) -> Row:
        """Return the row of one message; a dead letter if the record does not hold one."""
        body_mode: Literal["text", "json"] = "json" if self.options.query_body == "json" else "text"
        try:
            exchange, topic, properties, (value, metadata), body = stream_message(kind, record, body_mode)
            text = _text(body)
            xml = to_xml(_document(properties), text) if self.options.xml else None
        except ValueError as error:
            raw = record[:RAW_KEPT_BYTES]
            return Row(self._partition, number, log, self.options.topic, error=str(error), raw=raw, time=time_us)
        return Row(
            self._partition,
            number,
            log,
            topic,
            {"value": value, "metadata": metadata},
            text,
            xml,
            signature_of(text, self.signature_stop_words),
            raw=body if text is None else None,
            exchange=exchange,
            time=time_us,
        )

    def _gap(self, log: str, first: int, last: int, reason: str) -> Row:
        count = last - first + 1
        which = f"message {first:,} was" if count == 1 else f"{count:,} messages, {first:,} to {last:,}, were"
        return Row(self._partition, first, log, self.options.topic, error=f"{which} {_REASONS[reason]}", raw=b"")

    def _beginning(self, reader: JournalReader) -> int:
        if self.options.starting_offset == "first":
            return reader.first_sequence()
        if self.options.starting_offset == "next":
            return reader.next_sequence()
        return int(self.options.starting_offset)

    def _position(self, reader: JournalReader, progress: list[Any]) -> int:
        """Return the next number; an error if another log, with other messages, is now in the directory."""
        if str(reader.log_id) != progress[1]:
            raise AdapterError(
                f"{self._partition}: the stream was deleted and declared again since it was read up to number "
                f"{progress[0]:,}. To read the new one, stop the pipeline, remove the folder of the adapter in "
                "'checkpoints', and start again: all its messages are new"
            )
        return int(progress[0])

    def _open(self, start: int | None = None) -> JournalReader:
        try:
            return JournalReader(self.options.path, start)
        except JournalError as error:
            raise AdapterError(f"{error}; expected the directory of a stream") from error
        except OSError as error:
            raise AdapterError(f"{self._partition}: cannot be read: {error.strerror}") from error


def _text(body: bytes) -> str | None:
    """Return the body as queries see it; None if it is not text."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _document(value: Any) -> Any:
    """Return the properties without markers, which a document cannot hold."""
    if value is PRESENT:
        return None
    if isinstance(value, Mapping):
        return {name: _document(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_document(below) for below in value]
    return value
