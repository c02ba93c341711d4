"""Writes the log of a stream as the broker does, by the description of its format (docs/adr/0014)."""

from __future__ import annotations

import struct
from pathlib import Path

import pika

MESSAGE = 1
TIME_US = 1_600_000_000_000_000
_POLYNOMIAL = 0x82F63B78


def _table() -> list[int]:
    values = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        values.append(value)
    return values


_TABLE = _table()


def crc32c(data: bytes, before: int = 0) -> int:
    crc = before ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _version_mark(magic: bytes) -> bytes:
    begin = magic + struct.pack("<I", 1)
    return begin + struct.pack("<I", crc32c(begin))


def message(routing_key: str, body: bytes, properties: pika.BasicProperties | None = None, exchange: str = "") -> bytes:
    """Return the bytes of a record, with the properties as pika sends them."""
    names = b"".join(bytes([len(name.encode())]) + name.encode() for name in (exchange, routing_key))
    return names + b"".join((properties or pika.BasicProperties()).encode()) + body


class StreamLog:
    """A log in a folder, whose records can be read once they are synced."""

    def __init__(self, folder: Path, log_id: int = 7, segment_bytes: int = 1 << 18) -> None:
        self.folder, self._log_id, self._segment_bytes = folder, log_id, segment_bytes
        self._ordinal, self._next = 0, 1
        folder.mkdir(parents=True, exist_ok=True)
        self.roll()
        self.sync()

    def roll(self) -> None:
        """Begin a new segment."""
        self._ordinal += 1
        header = _version_mark(b"tamisjnl") + struct.pack("<QI4xQ20x", self._log_id, self._ordinal, self._next)
        self.segment = self.folder / f"{self._ordinal:08}-{self._next:020}.segment"
        self.segment.write_bytes((header + struct.pack("<I", crc32c(header))).ljust(self._segment_bytes, b"\0"))
        self._seed = crc32c(struct.pack("<I", self._ordinal), crc32c(struct.pack("<Q", self._log_id)))
        self._offset = 64

    def append(self, body: bytes, kind: int = MESSAGE, time_us: int | None = None) -> int:
        """Append a record and return its number; its time is `TIME_US` plus its number in microseconds."""
        number = self._next
        time_us = TIME_US + number if time_us is None else time_us
        length = struct.pack("<I", 28 + len(body))
        rest = struct.pack("<QqBBH", number, time_us, kind, 0, 0) + body
        record = length + struct.pack("<I", crc32c(rest, crc32c(length, self._seed))) + rest
        assert self._offset + len(record) < self._segment_bytes
        with self.segment.open("r+b") as file:
            file.seek(self._offset)
            file.write(record)
        self._offset += len(record)
        self._next += 1
        return number

    def sync(self) -> None:
        """Let readers see all appended records."""
        mark = _version_mark(b"tamismrk") + struct.pack("<QQ", self._log_id, self._next - 1)
        (self.folder / "mark").write_bytes((mark + struct.pack("<I", crc32c(mark))).ljust(4096, b"\0"))

    def damage(self, content: bytes) -> None:
        """Overwrite `content` in the segment that has it."""
        for segment in self.folder.glob("*.segment"):
            data = segment.read_bytes()
            if (place := data.find(content)) >= 0:
                segment.write_bytes(data[:place] + bytes(len(content)) + data[place + len(content) :])
                return
        raise AssertionError(f"no record has {content!r}")
