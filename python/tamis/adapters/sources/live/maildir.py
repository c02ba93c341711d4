"""Reads a Maildir: each mail once, whatever flags it gets later, and from ``new`` to ``cur``.

A folder that has not changed since the last look is not listed, so that such a look takes as long for a million mails
as for none. When it has changed, its names are listed, at 1 to 4 µs each, and the new ones read. A name is known by
the part before its flags.

Source: https://cr.yp.to/proto/maildir.html."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import option
from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.adapters.rows import RAW_KEPT_BYTES, digest_of, too_large
from tamis.adapters.sources.live.source import LiveOptions, LiveSource, LookError
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.adapters.sources.source import path_text
from tamis.errors import AdapterError

_TICK_S: Final = 2.0
"""A folder that changed within this time may change again without another time of change."""


@dataclass(frozen=True, kw_only=True)
class MaildirOptions(LiveOptions):
    """The options of a Maildir.

    Attributes:
        path: the folder with ``new`` and ``cur``.
        subfolders: whether the folders of Maildir++ in it, such as ``.Lists``, are read, too.
    """

    path: str = option("", is_path=True, required="a folder with the folders new and cur")
    subfolders: bool = option(False)


class MaildirSource(LiveSource):
    """The mails of a Maildir."""

    Options = MaildirOptions
    options: MaildirOptions
    type: ClassVar[str] = "maildir"
    properties = MAIL_PROPERTIES

    def __init__(self, options: MaildirOptions) -> None:
        super().__init__(options)
        self._seen: dict[str, int] = {}  # folder -> time of its last change, when all its mails had been read
        self._listed: dict[str, set[str]] = {}  # folder -> names of its mails when it was listed
        self._known: set[str] | None = None  # names of the mails that were read

    def check(self) -> None:
        """Check that it is a Maildir that may be read.

        Raises:
            AdapterError: it is not.
        """
        for folder in (f"{self.options.path}/new", f"{self.options.path}/cur"):
            if not os.path.isdir(folder):  # noqa: PTH112
                raise AdapterError(f"{folder}: no such folder; expected a Maildir, with the folders new and cur")
            if not os.access(folder, os.R_OK | os.X_OK):
                raise AdapterError(f"{folder}: may not be read by this user; change its permissions, or the user")

    def files(self) -> list[str]:
        """Return the paths of the mails there are now."""
        return sorted(entry.path for folder in self._folders() for entry in os.scandir(folder) if entry.is_file())

    def look(self, spool: Spool) -> bool:
        """Implement `LiveSource.look`: the new mails of at most `max_messages`."""
        left = self.options.max_messages
        is_first = spool.state("read") is None and self.options.starting_offset == "next"
        try:
            self.check()
            for folder in self._folders():
                left -= self._read_folder(spool, folder, left, skip=is_first)
        except AdapterError as error:
            raise LookError(str(error)) from error
        except OSError as error:
            raise LookError(f"{path_text(str(error.filename))}: cannot be read: {error.strerror}") from error
        with spool.transaction():
            spool.set_state("read", True)
        self._forget_gone(spool)
        return left <= 0

    def look_for(self, count: int) -> Iterator[Item]:
        """Implement `LiveSource.look_for`."""
        self.check()
        for path in self.files()[-count:]:
            if (item := _item(path)) is not None:
                yield item

    def close(self) -> None:
        """Implement `LiveSource.close`, and forget which mails were read: the spool knows."""
        super().close()
        self._seen, self._listed, self._known = {}, {}, None

    def _read_folder(self, spool: Spool, folder: str, limit: int, *, skip: bool) -> int:
        """Put the new mails of one folder into the spool, and return their number."""
        changed_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116
        if limit <= 0 or self._seen.get(folder) == changed_ns:
            return 0
        if self._known is None:
            self._known = spool.names()
        listed = {_key(name): name for name in os.listdir(folder) if not name.startswith(".")}  # noqa: PTH208
        self._listed[folder] = set(listed)
        names = [listed[key] for key in listed.keys() - self._known]
        if skip:
            self._remember(spool, names, [])
            return 0
        is_whole = len(names) <= limit
        for at in range(0, min(limit, len(names)), 200):
            is_whole &= self._take(spool, folder, sorted(names)[:limit][at : at + 200])
        if is_whole and self._clock() - changed_ns / 1e9 > _TICK_S:
            self._seen[folder] = changed_ns
        return min(limit, len(names))

    def _take(self, spool: Spool, folder: str, names: list[str]) -> bool:
        """Put these mails into the spool; return whether all of them could be read."""
        read: list[str] = []

        def items() -> Iterator[Item]:  # one after the other: each may be large
            for name in names:
                if (item := _item(f"{folder}/{name}")) is not None:
                    if item.error is None or item.content:
                        read.append(name)
                    yield item

        self._remember(spool, read, items())
        return len(read) == len(names)

    def _remember(self, spool: Spool, names: list[str], items: Iterable[Item]) -> None:
        """Put mails into the spool, and know the names that are in the list when all have been read."""
        with spool.transaction():
            spool.add(items)
            keys = [_key(name) for name in names]
            spool.note_names(keys)
        if self._known is not None:
            self._known.update(keys)

    def _forget_gone(self, spool: Spool) -> None:
        """Forget the names that no folder had when it was listed last."""
        folders = set(self._folders())
        if self._known is None or not folders <= self._listed.keys():
            return
        gone = self._known.difference(*(self._listed[folder] for folder in folders))
        if gone:
            with spool.transaction():
                spool.note_names((), gone)
            self._known -= gone

    def _folders(self) -> Iterator[str]:
        root = Path(self.options.path)
        below = sorted(root.glob(".*/cur")) if self.options.subfolders else []
        for folder in (root, *(cur.parent for cur in below)):
            for name in ("new", "cur"):
                if (folder / name).is_dir():
                    yield str(folder / name)


def _key(name: str) -> str:
    """Return the name of a file of a Maildir without its flags."""
    return path_text(name.partition(":")[0])


def _item(path: str) -> Item | None:
    """Return the mail in a file; None if it was moved or removed since it was listed."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - once per message
            raw = file.read(MESSAGE_BYTES_MAX + 1)
            size_bytes = max(len(raw), os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}"
        return Item(digest_of(f"{path}\n{reason}".encode("utf-8", "replace")), path_text(path), b"", error=reason)
    place = path_text(os.path.dirname(os.path.dirname(path)))  # noqa: PTH120
    if len(raw) > MESSAGE_BYTES_MAX:
        error_text = too_large(size_bytes, MESSAGE_BYTES_MAX)
        return Item(digest_of(raw), place, raw[:RAW_KEPT_BYTES], error=error_text)
    return Item(digest_of(raw), place, raw)
