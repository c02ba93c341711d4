"""The channel ``jsonl``: appends one line of JSON per notification to a file, exactly once.

The transaction that marks lines as delivered also stores the size of the file. Anything beyond that size was left by a
crash: it is cut off when the file is opened, and delivered again. Lines beyond that size that are not of this delivery
are another writer's: then nothing is cut off, and the channel says that the file is shared."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from tamis.config.deliveries import JsonlDelivery
from tamis.notify.channels.channel import ChannelError, Sent
from tamis.notify.channels.files import explain, sync_folder
from tamis.notify.content import why
from tamis.store import DueDelivery, NotificationRecord, Store

_LEFT_LINES_MAX = 10_000
"""Maximum number of lines that a crash may have left; it is at most one batch."""


class JsonlChannel:
    """Appends to a file, whose folder it creates."""

    batch_count = 500

    def __init__(self, config: JsonlDelivery, store: Store) -> None:
        """Make the channel; no file is touched yet."""
        self._name, self._path, self._store = config.name, config.path.absolute(), store
        self._file: BinaryIO | None = None

    def open(self) -> None:
        """Open and lock the file, and cut off what is not recorded as delivered.

        Raises:
            ChannelError: it cannot be written, or another writer writes it, too.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._cut(self._file)
        except BlockingIOError as error:
            self.close()
            raise ChannelError(
                f"{self._path}: another process writes this file; end it, or give another path"
            ) from error
        except OSError as error:
            self.close()
            raise ChannelError(explain(self._path, error)) from error
        except ChannelError:
            self.close()
            raise

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Append a line for each, and sync the file once.

        Raises:
            ChannelError: the file cannot be written; the next `open` cuts off what was written.
        """
        assert self._file is not None, "open comes first"  # noqa: S101 - for the type checker
        failures: dict[int, str] = {}
        lines = [line for delivery in due if (line := _line(delivery, failures)) is not None]
        try:
            self._file.write(b"".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
            size_bytes = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise ChannelError(explain(self._path, error)) from error
        return Sent(failures, file_size=(self._name, self._path, size_bytes))

    def interrupt(self) -> None:
        """Do nothing: nothing here waits."""

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):  # the next `open` cuts off a partly written line
                file.close()

    def _cut(self, file: BinaryIO) -> None:
        size_bytes = os.fstat(file.fileno()).st_size
        known_bytes = self._store.file_size(self._name, self._path)
        if known_bytes is None:  # another program's file: its content stays, and our lines follow it
            if size_bytes and not self._ends_a_line(size_bytes):
                file.write(b"\n")
                file.flush()
            self._store.record_outcomes([], (self._name, self._path, os.fstat(file.fileno()).st_size))
            sync_folder(self._path.parent)
        elif size_bytes > known_bytes:
            self._check_that_all_is_ours(known_bytes, size_bytes)
            file.truncate(known_bytes)

    def _check_that_all_is_ours(self, start: int, end: int) -> None:
        """Check that the bytes from `start` are what a crash can have left: lines of pending deliveries, one torn.

        Raises:
            ChannelError: another writer's lines are among them.
        """
        with self._path.open("rb") as file:
            file.seek(start)
            lines = list(itertools.islice(file, _LEFT_LINES_MAX + 1))
        ids = [_id_of(line) for line in lines if line.endswith(b"\n")]
        if len(lines) > _LEFT_LINES_MAX or self._store.pending_among(self._name, ids) != set(ids):
            raise ChannelError(
                f"{self._path}: the last {end - start:,} bytes were not written by this delivery: another delivery, "
                "pipeline or program writes the file, too. Nothing was cut off. Give each a path of its own, then move "
                "this file away"
            )

    def _ends_a_line(self, size_bytes: int) -> bool:
        with self._path.open("rb") as file:
            file.seek(size_bytes - 1)
            return file.read(1) == b"\n"


def _id_of(line: bytes) -> str:
    """Return the id of the notification of a line; empty if the line has none."""
    try:
        return str(json.loads(line)["id"])
    except (ValueError, TypeError, LookupError):
        return ""


def _line(delivery: DueDelivery, failures: dict[int, str]) -> bytes | None:
    try:
        line = json.dumps(as_json(delivery.notification), ensure_ascii=False)
        return line.encode(errors="backslashreplace") + b"\n"  # half a surrogate pair becomes JSON's own escape
    except Exception as error:  # noqa: BLE001 - one message must not stop the others
        failures[delivery.delivery_id] = f"cannot be written as JSON: {error}"
        return None


def as_json(record: NotificationRecord) -> dict[str, Any]:
    """Return a notification as plain values: the query, the message, and why it matched."""
    reasons = why(record)
    return {
        "id": record.id,
        "query": record.query_key,
        "version": record.query_version,
        "text": record.query_text,
        "language": record.query_language,
        "created_at": record.created_at.isoformat(),
        "source": record.source,
        "partition": record.partition,
        "offset": record.offset,
        "topic": record.topic,
        "properties": json.loads(record.properties),
        "body": record.body,
        "reasons": list(reasons.reasons),
        "highlights": [list(span) for span in reasons.ranges],
    }
