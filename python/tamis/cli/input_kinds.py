"""Tells what a file or folder of messages is, so that no option has to say it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final, Literal, get_args

from tamis.errors import TamisError

Kind = Literal["jsonl", "mbox", "eml", "maildir", "journal", "store"]
"""JSON lines, a mailbox, one mail or a folder of them, a Maildir, the directory of a stream, a store."""

KINDS: Final[tuple[str, ...]] = get_args(Kind)
SQLITE_MAGIC: Final = b"SQLite format 3\0"
BEGIN_BYTES: Final = 4_096
"""The number of bytes of a file that tell its kind."""

_LOOKED_AT_MAX: Final = 1_000
_HEADER = re.compile(rb"[A-Za-z][\w-]*:")


def kind_of(path: Path) -> Kind:
    """Return the kind of what is at `path`.

    Raises:
        TamisError: it is a folder in which nothing can be recognised.
        OSError: it is absent, or cannot be read.
    """
    return _kind_of_folder(path) if path.is_dir() else kind_of_bytes(_begin(path))


def kind_of_bytes(begin: bytes) -> Kind:
    """Return the kind of a file with these first bytes; JSON lines if it is nothing else."""
    if begin.startswith(SQLITE_MAGIC):
        return "store"
    begin = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(b"From "):
        return "mbox"
    return "eml" if _HEADER.match(begin) else "jsonl"


def checked_kind(name: str) -> Kind:
    """`name` as a kind.

    Raises:
        TamisError: there is no such kind.
    """
    if name not in KINDS:
        raise TamisError(f"--format: expected one of {', '.join(KINDS)}, not '{name}'")
    return name  # type: ignore[return-value]


def _kind_of_folder(path: Path) -> Kind:
    if (path / "cur").is_dir() and (path / "new").is_dir():
        return "maildir"
    if any(path.glob("*.segment")):
        return "journal"
    files = islice((file for file in path.rglob("*") if file.is_file()), _LOOKED_AT_MAX)
    kinds = _kinds(file for file in files if not file.name.startswith("."))
    for kind in ("eml", "mbox", "jsonl"):
        if kind in kinds:
            return checked_kind(kind)
    raise TamisError(f"{path}: expected mail, JSON lines, a Maildir or a stream in this folder; found none of them")


def _kinds(files: Iterable[Path]) -> set[str]:
    """Return the kinds of the first files, until one is mail."""
    kinds: set[str] = set()
    for file in files:
        is_data = file.suffix in (".eml", ".jsonl", ".json", ".mbox", "")
        kinds |= {kind_of_bytes(_begin(file))} if is_data else set()
        if kinds & {"eml", "mbox"}:
            break
    return kinds


def _begin(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(BEGIN_BYTES)
