"""Real mail and queries for tests of the pipeline, with the outbox that brute force computes."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import zstandard

from tamis import QuerySpec
from tamis.adapters.mail.message import read_mail
from tamis.store import Store

TOPIC = "mail.inbox"

QUERIES = [
    QuerySpec("redhat", "author LIKE '%@redhat.com%'"),
    QuerySpec("exmh", "list IS NOT NULL AND subject LIKE '%sequence%'"),
    QuerySpec("linux", "linux", "text"),
    QuerySpec("august", "date < TIMESTAMP '2002-09-01T00:00:00Z'"),
    QuerySpec("no-list", "NOT EXISTS(list)"),
    QuerySpec("near", "mailing list 2", "near"),
    QuerySpec("both", "TOPIC('mail.#') AND CONTAINS(body, 'free')"),
    QuerySpec("header", "\"header.X-Mailer\" LIKE '%Outlook%'"),
    QuerySpec("topic", "mail.*", "topic"),
    QuerySpec("never", "price > 100"),
]

Match = tuple[str, int, str, str, int]
"""A notification without its id: query, version, source, partition, offset."""


def real_messages(shared: Path, count: int) -> list[bytes]:
    """Return the first `count` messages of the SpamAssassin corpus, as they are in its mbox."""
    file = shared / "data" / "email-spamassassin" / "spamassassin-dev.mbox.zst"
    with file.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as unpacked:
        messages: list[bytes] = []
        lines: list[bytes] = []
        for line in io.BufferedReader(unpacked):
            if line.startswith(b"From ") and lines:
                messages.append(b"".join(lines))
                lines = []
                if len(messages) == count:
                    break
            lines.append(line)
        else:
            messages.append(b"".join(lines))
    return messages


def without_from_line(message: bytes) -> bytes:
    """Return a message of an mbox as it is in a separate file, except for the escapes of its lines."""
    return message.partition(b"\n")[2]


def unpack_files(archive: Path, folder: Path) -> list[Path]:
    """Write each file of a packed tar into `folder`, under a number and ``.eml``."""
    paths = []
    with (
        archive.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as unpacked,
        tarfile.open(fileobj=unpacked, mode="r|") as tar,
    ):
        for member in tar:
            if (file := tar.extractfile(member)) is not None:
                paths.append(folder / f"{len(paths):05}.eml")
                paths[-1].write_bytes(file.read())
    return paths


def write_mbox(path: Path, messages: Sequence[bytes]) -> list[int]:
    """Append messages to an mbox; return the offset of each in bytes."""
    offsets = []
    with path.open("ab") as file:
        for message in messages:
            offsets.append(file.tell())
            file.write(message)
    return offsets


def brute_force(
    source: str, partition: str, placed: Sequence[tuple[int, bytes]], queries: Sequence[QuerySpec] = QUERIES
) -> set[Match]:
    """Return what the outbox must hold, by evaluating every query on every (offset, message)."""
    compiled = [(query.key, query.compile()) for query in queries]
    found = set()
    for offset, raw in placed:
        mail = read_mail(raw)
        for key, query in compiled:
            if query.evaluate(mail.properties, TOPIC, mail.body) is True:
                found.add((key, 1, source, partition, offset))
    return found


def outbox(store: Store) -> list[Match]:
    """Return the notifications in the store, in the order in which they were made."""
    with store._read() as connection:
        rows = connection.exec_driver_sql(
            'SELECT query_key, query_version, source, partition, "offset" FROM outbox ORDER BY seq'
        )
        return [tuple(row) for row in rows]  # type: ignore[misc]
