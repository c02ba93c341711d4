"""Reads JSON lines: each line is a message, its members are the properties, and new lines are appended.

A line is complete with its line feed. A last line without one is read when the file has not changed for a second and
the line is a JSON object; else it waits for its line feed. A line that is not a JSON object, or that cannot be a
message, becomes a dead letter.

Source: RFC 8259 (JSON); docs/semantics.md, "Messages", for what a property can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from tamis.adapters.json_row import JsonRowOptions, LineError, json_row, read_object
from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import FileOptions
from tamis.adapters.rows import Row, digest_of, too_large
from tamis.adapters.sources.records import Record, RecordSource, last_boundary
from tamis.adapters.sources.source import path_text


@dataclass(frozen=True, kw_only=True)
class JsonlOptions(JsonRowOptions, FileOptions):
    """The options of JSON lines."""


class JsonlSource(RecordSource):
    """The lines of a file, a folder or a glob of files."""

    Options = JsonlOptions
    options: JsonlOptions
    type: ClassVar[str] = "jsonl"
    pattern: ClassVar[str] = "*.jsonl"
    settle_ms: ClassVar[int] = 1_000
    separator: ClassVar[bytes] = b"\n"

    def ends_whole(self, file: BinaryIO, start: int, end: int) -> bool:
        """Implement `RecordSource.ends_whole`: a last line without line feed is a JSON object, or too large for one."""
        begin = last_boundary(file, start, end, self.separator)
        if begin == end:
            return True
        file.seek(begin)
        line = file.read(min(end - begin, MESSAGE_BYTES_MAX + 1))
        try:
            return len(line) > MESSAGE_BYTES_MAX or bool(read_object(line) or True)
        except LineError:
            return False

    def row(self, piece: Record, path: str) -> Row | None:
        """Return the row of one line; None for an empty one."""
        if not piece.content.strip():
            return None
        topic, partition = self.options.topic, path_text(path)
        if not piece.is_whole:
            error = too_large(piece.size_bytes, MESSAGE_BYTES_MAX)
            digest = digest_of(piece.content)
            return Row(partition, piece.offset, digest, topic, error=error, raw=piece.content)
        return json_row(piece.content, partition, piece.offset, topic, self.options, self.signature_stop_words)
