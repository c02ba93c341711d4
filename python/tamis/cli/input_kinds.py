"""Tells what a file or folder of messages is, so that no option has to say it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, get_args

from tamis.errors import TamisError

Kind = Literal["jsonl", "mbox", "eml", "maildir", "journal", "store", "mixed"]
"""JSON lines, a mailbox, one mail or a folder of them, a Maildir, the directory of a stream, a store; or a folder with
files of several of the first three."""

KINDS: Final[tuple[str, ...]] = get_args(Kind)
SQLITE_MAGIC: Final = b"SQLite format 3\0"
BEGIN_BYTES: Final = 4_096
"""The number of bytes of a file that tell its kind."""

_SUFFIXES: Final[dict[str, Kind]] = {".eml": "eml", ".jsonl": "jsonl"}
_LOOKED_INTO: Final = (".mbox", "")
"""The suffixes of files whose first bytes tell their kind."""
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
    kinds = {(kind, file.suffix in _SUFFIXES) for file, kind in files_of(path)}
    if not kinds:
        raise TamisError(f"{path}: expected mail, JSON lines, a Maildir or a stream in this folder; found none of them")
    if len(kinds) > 1 or kinds == {("eml", False)}:  # the reader of a folder of mails wants names in .eml
        return "mixed"
    ((kind, _),) = kinds
    return kind


def files_of(folder: Path) -> Iterator[tuple[Path, Kind]]:
    """Yield the files of JSON lines and mail in a folder and the folders below it, by name, with the kind of each.

    Args:
        folder: hidden files in it do not count, nor what is neither.

    Cost: a file is opened if it has no suffix, or ``.mbox``.
    """
    for file in sorted(path for path in folder.rglob("*") if not path.name.startswith(".") and path.is_file()):
        kind = _SUFFIXES.get(file.suffix)
        if kind is None and file.suffix in _LOOKED_INTO:
            found = kind_of_bytes(_begin(file))
            kind = found if found in ("eml", "mbox") else None
        if kind is not None:
            yield file, kind


def _begin(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(BEGIN_BYTES)
