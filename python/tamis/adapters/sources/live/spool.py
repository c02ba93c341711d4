"""Keeps the messages of a live source in one SQLite file until they have been processed.

A feed or a mailbox cannot be asked twice for the same messages, but a batch must be read again after a crash. So what
is fetched is first written here, with the state of the source (such as an ETag), in one transaction. Messages are
numbered; their numbers are the offsets. The keys of messages are remembered longer than the messages, so that one that
comes again is known. Names, such as those of files, are kept as long as the source finds them.

Source: https://www.sqlite.org/atomiccommit.html."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tamis.errors import AdapterError

REMEMBERED_MAX: Final = 1_000_000
"""Maximum number of keys that are remembered; then the oldest are forgotten."""
WAITING_MAX: Final = 100_000
"""Maximum number of messages in a spool; then nothing more is fetched or taken until some have been processed."""
WAITING_BYTES_MAX: Final = 1 << 30
SPOOL_FILE: Final = "spool.sqlite"
"""The name of the file in the folder of a spool."""
_BUSY_S: Final = 30.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS items (
    number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, place TEXT NOT NULL, topic TEXT, content BLOB NOT NULL,
    error TEXT
);
CREATE TABLE IF NOT EXISTS known (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class Item(NamedTuple):
    """A message as a live source gives it.

    Attributes:
        key: names the message, wherever it is found again.
        place: where it came from, such as the address of a feed; the column `partition`.
        content: its bytes: a mail, or a JSON object.
        topic: its own topic; None: that of the adapter.
        error: why it cannot be read; it becomes a dead letter.
    """

    key: str
    place: str
    content: bytes
    topic: str | None = None
    error: str | None = None


class Spool:
    """The spool of one source. Only one process at a time may add to it; others may read. Thread-safe.

    Args:
        folder: made if it is absent; its file system must be a local one.

    Raises:
        AdapterError: it cannot be written, or another process adds to it.
    """

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / SPOOL_FILE
        self._lock = threading.RLock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._alone = (self.path.parent / "lock").open("a")
            fcntl.flock(self._alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._alone.close()
            raise AdapterError(f"{folder}: another run of this adapter uses this spool; end it first") from error
        except OSError as error:
            raise AdapterError(f"{folder}: the spool cannot be written: {error.strerror}") from error
        self._connection = _connect(self.path, "rwc")
        with self.transaction():
            for statement in filter(str.strip, _SCHEMA.split(";")):
                self._connection.execute(statement)
            if self.state("id") is None:
                self.set_state("id", uuid.uuid4().hex)
        self.id = str(self.state("id"))

    def close(self) -> None:
        """Close the file, and let others add to it."""
        self._connection.close()
        self._alone.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction: all of its changes are on disk afterwards, or none.

        Raises:
            AdapterError: the disk is full, or cannot be written.
        """
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise AdapterError(f"{self.path}: cannot be written: {error}") from error
                raise

    def add(self, items: Iterable[Item]) -> int:
        """Add the messages whose keys are not known; return their number. Only within `transaction`.

        Cost: 20 µs each.
        """
        count = 0
        for item in items:
            if self._connection.execute("INSERT OR IGNORE INTO known (key) VALUES (?)", (item.key,)).rowcount:
                values = (item.key, item.place, item.topic, item.content, item.error)
                self._connection.execute(
                    "INSERT INTO items (key, place, topic, content, error) VALUES (?, ?, ?, ?, ?)", values
                )
                count += 1
        if count:
            statement = "DELETE FROM known WHERE number <= (SELECT max(number) FROM known) - ?"
            self._connection.execute(statement, (REMEMBERED_MAX,))
        return count

    def remember(self, keys: Iterable[str]) -> None:
        """Add these keys without messages. Only within `transaction`."""
        self._connection.executemany("INSERT OR IGNORE INTO known (key) VALUES (?)", ((key,) for key in keys))

    def names(self) -> set[str]:
        """Return the names, such as those of files, that the source has noted; cost: 1 µs each."""
        with self._lock:
            return {name for (name,) in self._connection.execute("SELECT name FROM names")}

    def note_names(self, names: Iterable[str], gone: Iterable[str] = ()) -> None:
        """Note some names, and forget others. Only within `transaction`."""
        self._connection.executemany("INSERT OR IGNORE INTO names VALUES (?)", ((name,) for name in names))
        self._connection.executemany("DELETE FROM names WHERE name = ?", ((name,) for name in gone))

    def state(self, name: str) -> Any:
        """Return a value that the source has kept; None if there is none."""
        with self._lock:
            row = self._connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def set_state(self, name: str, value: Any) -> None:
        """Keep a value that JSON can hold. Only within `transaction`."""
        self._connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, json.dumps(value)))

    def states(self) -> dict[str, str]:
        """Return all values that the source has kept, by name, as JSON."""
        with self._lock:
            return dict(self._connection.execute("SELECT name, value FROM state").fetchall())

    def newest(self) -> int:
        """Return the number of the last message that waits; 0 if there is none."""
        with self._lock:
            (number,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM items").fetchone()
        return int(number)

    def last(self, after: int, limit: int, bytes_max: int) -> int:
        """Return the number of the last of at most `limit` messages after one; `after` if there is none.

        It is at most that of the message that reaches `bytes_max`. Cost: 1 µs a message.
        """
        statement = "SELECT number, length(content) FROM items WHERE number > ? ORDER BY number LIMIT ?"
        last, left = after, bytes_max
        with self._lock:
            for number, size_bytes in self._connection.execute(statement, (after, limit)):
                last, left = number, left - size_bytes
                if left <= 0:
                    break
        return last

    def is_full(self) -> bool:
        """Return whether it is full: nothing more should be added until something has been processed."""
        with self._lock:
            first, last = self._connection.execute("SELECT min(number), max(number) FROM items").fetchone()
            names = ("page_count", "freelist_count", "page_size")
            pages, free, page_bytes = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        count = 0 if first is None else last - first + 1
        return bool(count >= WAITING_MAX or (pages - free) * page_bytes >= WAITING_BYTES_MAX)

    def waiting(self) -> list[tuple[int, str]]:
        """Return the numbers and keys of the messages that have not been processed, in order."""
        with self._lock:
            return self._connection.execute("SELECT number, key FROM items ORDER BY number").fetchall()

    def forget(self, number: int) -> None:
        """Remove the messages up to a number; their keys stay known."""
        with self.transaction():
            self._connection.execute("DELETE FROM items WHERE number <= ?", (number,))


def read_items(path: str, after: int, last: int) -> Iterator[tuple[int, Item]]:
    """Yield the numbers and messages of a spool in ``after < number <= last``, in order, also in another process.

    Raises:
        AdapterError: the spool is not there.
    """
    connection = _connect(Path(path), "ro")
    try:
        statement = "SELECT number, key, place, content, topic, error FROM items WHERE number > ? AND number <= ?"
        for number, *values in connection.execute(f"{statement} ORDER BY number", (after, last)):
            yield number, Item(*values)
    finally:
        connection.close()


def waiting_after(path: Path, number: int) -> int:
    """Return the number of messages of a spool after a number, also in another process; 0 if there is no spool.

    Raises:
        AdapterError: it cannot be read.
    """
    if not path.exists():
        return 0
    connection = _connect(path, "ro")
    try:
        (count,) = connection.execute("SELECT count(*) FROM items WHERE number > ?", (number,)).fetchone()
    finally:
        connection.close()
    return int(count)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        if mode == "rwc":
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        else:
            connection.execute("SELECT 1 FROM items LIMIT 1")
    except sqlite3.Error as error:
        raise AdapterError(f"{path}: the spool cannot be opened on this machine: {error}") from error
    os.chmod(path, 0o600)  # noqa: PTH101 - it holds people's mail
    return connection
