"""Lists the folders of a path, and remembers what was in them, so that a look in which nothing has changed is cheap.

Up to `FEW_FILES` files, every look lists every folder. With more, a folder is listed when its time of change
differs: that changes when a file is added, removed or renamed. A file that is edited in place leaves it as it is, so
every folder is also listed from time to time. Listing takes at most a tenth of the time while a folder
changes, and at most a hundredth while it does not."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tamis.adapters.sources.source import path_text

FEW_FILES: Final = 1_000
LIST_S_PER_FILE: Final = 3e-6
"""The cost of listing a file and reading its status (measured: 2 to 4 µs)."""

_TICK_NS: Final = 2_000_000_000
"""A folder that changed within this time may change again without another time of change."""
_MAGIC = re.compile(r"[*?\[]")
_IGNORED_SUFFIXES: Final = ("~", ".tmp", ".part", ".lock", ".swp")


@dataclass(slots=True, eq=False)
class Listing:
    """The content of a folder when it was listed.

    Attributes:
        changed_ns: the folder's time of change, before it was listed.
        at: when it was listed, by the clock of `Folders`.
        at_ns: the same, by the system's clock.
        files: the names of the files that count, in order.
        folders: the names of the folders, in order, without links to folders, because they may form a circle.
        links: the names of links, in order.
        entry_count: the number of names in it.
        stale_at: when it is to be listed again though it has not changed, by the clock of `Folders`.
    """

    changed_ns: int
    at: float
    at_ns: int
    files: list[str]
    folders: list[str]
    links: list[str]
    entry_count: int
    stale_at: float = float("inf")


class Folders:
    """The files of a path by folder.

    Args:
        path: a file, a folder or a glob.
        pattern: the names of the files that count in a folder; several patterns are separated by commas.
        clock: seconds that never go back.
    """

    def __init__(self, path: str, pattern: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.problems: dict[str, str] = {}
        """Folder -> why it could not be listed at the last look."""
        self._path = path
        magic = _MAGIC.search(path)
        self._is_glob = magic is not None
        self.fixed_part = path[: magic.start()].rpartition("/")[0] or "/" if magic else path
        """The path; of a glob, the folder before its first wildcard."""
        *self._parts, self._pattern = path[len(self.fixed_part) :].strip("/").split("/") if magic else [pattern]
        if self._pattern == "**":
            self._parts, self._pattern = [*self._parts, "**"], "*"
        patterns = [self._pattern] if magic else [one.strip() for one in self._pattern.split(",")]
        self._matches = re.compile("|".join(map(fnmatch.translate, patterns))).match
        self._listings: dict[str, Listing] = {}
        self._kept: dict[str, Listing] = {}
        self._entry_count = 0  # of all folders, at the last look

    def look(self, *, fresh: bool = False) -> Iterator[tuple[str, Listing]]:
        """Yield each folder, and what is in it.

        Args:
            fresh: list every folder.
        """
        self._kept, self.problems = ({} if fresh else self._listings), {}
        self._entry_count = sum(listing.entry_count for listing in self._kept.values())
        self._listings = {}
        if self._is_glob:
            for folder in dict.fromkeys(self._matching(self.fixed_part, self._parts)):
                if (listing := self._listing(folder)) is not None:
                    yield folder, listing
        elif os.path.isdir(self._path):  # noqa: PTH112 - one system call, in a loop of polls
            yield from self._below(self._path)
        else:
            folder, _, name = self._path.rpartition("/")
            yield folder or "/", Listing(0, self.clock(), time.time_ns(), [name], [], [], 1)

    def _below(self, folder: str) -> Iterator[tuple[str, Listing]]:
        """Yield a folder and those below it whose names do not begin with a dot."""
        waiting = [folder]
        while waiting:
            folder = waiting.pop()
            if (listing := self._listing(folder)) is not None:
                yield folder, listing
                waiting += [_join(folder, name) for name in reversed(listing.folders) if not name.startswith(".")]

    def _matching(self, folder: str, parts: list[str]) -> Iterator[str]:
        """Yield the folders that match the parts of a glob below a folder."""
        if not parts:
            yield folder
            return
        part, *others = parts
        if part == "**":
            for below, _ in self._below(folder):
                yield from self._matching(below, others)
        elif not _MAGIC.search(part):
            if os.path.isdir(below := _join(folder, part)):  # noqa: PTH112
                yield from self._matching(below, others)
        elif (listing := self._listing(folder)) is not None:
            for name in _matching(listing.folders + listing.links, part):
                if name not in listing.links or os.path.isdir(_join(folder, name)):  # noqa: PTH112
                    yield from self._matching(_join(folder, name), others)

    def _listing(self, folder: str) -> Listing | None:
        """Return the listing of a folder, made now or before; None if it was removed or cannot be listed."""
        if folder in self._listings:
            return self._listings[folder]
        try:
            changed_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116
            known = self._kept.get(folder)
            if known is None or self._is_due(known, changed_ns):
                known = self._list(folder, changed_ns)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problems[folder] = f"{path_text(folder)}: cannot be read: {error.strerror}"
            return None
        self._listings[folder] = known
        return known

    def _is_due(self, known: Listing, changed_ns: int) -> bool:
        if self._entry_count <= FEW_FILES:
            return True
        age_s = self.clock() - known.at
        may_differ = known.changed_ns != changed_ns or known.at_ns - changed_ns < _TICK_NS
        if may_differ or self.clock() >= known.stale_at:
            return age_s >= 10 * LIST_S_PER_FILE * known.entry_count
        return age_s >= 100 * LIST_S_PER_FILE * self._entry_count

    def _list(self, folder: str, changed_ns: int) -> Listing:
        if not os.access(folder, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, "the files in it may not be opened", folder)
        listing = Listing(changed_ns, self.clock(), time.time_ns(), [], [], [], 0)
        with os.scandir(folder) as entries:
            for entry in entries:
                listing.entry_count += 1
                if entry.is_dir(follow_symlinks=False):
                    listing.folders.append(entry.name)
                    continue
                if entry.is_symlink():
                    listing.links.append(entry.name)
                if self._matches(entry.name) and self._counts(entry.name):
                    listing.files.append(entry.name)
        for names in (listing.files, listing.folders, listing.links):
            names.sort()
        return listing

    def _counts(self, name: str) -> bool:
        """Return whether a name is not one to skip; a glob says itself which it wants."""
        if self._is_glob:
            return self._pattern.startswith(".") or not name.startswith(".")
        return not name.startswith(".") and not name.endswith(_IGNORED_SUFFIXES)


def _matching(names: list[str], part: str) -> list[str]:
    """Return the names that a part of a glob matches; a name that begins with a dot only if the part does."""
    matches = re.compile(fnmatch.translate(part)).match
    return sorted(name for name in names if matches(name) and (part.startswith(".") or not name.startswith(".")))


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
