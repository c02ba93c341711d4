"""The directory of a folder of shards: it says in which of them a message can match.

It is a snapshot, too. It has the access keys of each shard as queries, lists of values or ranges, so that what a
message meets is decided by the code that matches it: numbers, lists and dotted names mean the same in both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tamis._core import Query
from tamis.engine.access import AccessKey, quoted
from tamis.engine.engine import Engine
from tamis.errors import SnapshotError
from tamis.query.languages import selector
from tamis.query.predicates import open_registered, predicate

if TYPE_CHECKING:
    import pyarrow as pa

DIRECTORY: Final = "directory.tamis"
"""Its file in the folder of shards."""
LISTED_MAX = 1_000
"""Maximum number of values of a property that the directory lists for a shard; it has the range of more."""
_PART_BYTES_MAX: Final = 32 * 1024
_LAST, _BEFORE_SURROGATES, _AFTER_SURROGATES = "\U0010ffff", "\ud7ff", "\ue000"
_PART_MAX: Final = 500
_NO_VALUE: Final = "'tamis: no message has this value'"
_EVERY, _KEY, _ASKED = "every", "key", "asked"
"""The kinds of queries in the directory: true of every message; with access keys; never true, but asking for parts."""

Numbers = npt.NDArray[np.int64]


class DirectoryWriter:
    """Makes the queries of a directory."""

    def __init__(self, every: int, any_case: Iterable[str]) -> None:
        self._every = every
        self._pairs: list[tuple[Any, Query]] = []
        self._asked = set(any_case)
        self._expensive: set[str] = set()

    def add(self, shard: int, engine: Engine, leading: Leading) -> None:
        """Add what leads to a shard, and what its queries ask for."""
        _, topic, body = engine.asked(())
        self._asked.update(map(quoted, engine.names()), ["topic"] * topic, ["body"] * body)
        self._expensive.update(engine.expensive())
        if shard < self._every:
            self._pairs.append(((_EVERY, shard), selector("TRUE")))
            return
        self._pairs += (((_KEY, shard, number), it) for number, it in enumerate(leading.queries()))

    def save(self, path: Path) -> None:
        """Write the directory.

        It asks for every part of a message for which a shard asks, so that a row that cannot be read is found here.
        """
        tests = [f"{name} = {_NO_VALUE}" for name in sorted(self._asked)]
        asking = [selector(" AND ".join(part)) for part in _parts(tests)]
        asking += [selector("FALSE") & predicate(name) for name in sorted(self._expensive)]
        engine: Engine = Engine()
        engine.add_many([*self._pairs, *(((_ASKED, number), it) for number, it in enumerate(asking))])
        engine.save(path, opaque="names")


class Leading:
    """The access keys that lead to a shard, by property and kind, and whether queries are filed by them."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, bool], _Values] = {}

    def add(self, access_keys: Iterable[AccessKey]) -> None:
        """Add those of a query, of which the first is the one by which it is filed."""
        for number, key in enumerate(access_keys):
            self._values.setdefault((key.name, key.kind, number == 0), _Values()).add(key)

    def queries(self) -> Iterator[Query]:
        """Yield queries of which one is true when one of the access keys holds."""
        for _, values in sorted(self._values.items()):
            yield from map(selector, values.conditions())


class _Values:
    """Access keys of one property and kind: all of them while they are few, or the range in which they are."""

    def __init__(self) -> None:
        self._listed: set[str] | None = set()
        self._low: AccessKey | None = None
        self._high: AccessKey | None = None

    def add(self, key: AccessKey) -> None:
        self._low = key if self._low is None else min(self._low, key, key=_value)
        self._high = key if self._high is None else max(self._high, key, key=_value)
        if self._listed is not None:
            self._listed.add(key.text)
            if len(self._listed) > LISTED_MAX and key.kind != "boolean":  # these have no ranges
                self._listed = None

    def conditions(self) -> Iterator[str]:
        """Yield selectors of which one is true when one of the keys holds."""
        low, high = self._low, self._high
        if low is None or high is None:
            return
        if low.kind == "topic":
            yield from sorted(self._listed) if self._listed is not None else [_topics(low.value, high.value)]
        elif self._listed is None:
            yield f"{low.name} BETWEEN {low.text} AND {high.text}"
        else:
            for part in _parts(sorted(self._listed)):
                yield f"{low.name} IN ({', '.join(part)})"


def _value(key: AccessKey) -> Any:
    return key.value


def _topics(low: str, high: str) -> str:
    """Return a test for the topics from `low` to those that begin with `high`."""
    from_low = f"topic >= {_literal(low)}"
    end = high.rstrip(_LAST)
    if not end:
        return from_low
    following = chr(ord(end[-1]) + 1) if end[-1] != _BEFORE_SURROGATES else _AFTER_SURROGATES
    return f"{from_low} AND topic < {_literal(end[:-1] + following)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cut texts into lists that fit into a query."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (len(part) == _PART_MAX or size + len(text) > _PART_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text.encode()) + 8
    if part:
        yield part


class ShardDirectory:
    """Says in which shards a message can match.

    Args:
        path: the directory of a folder of shards.

    Attributes:
        every: number of shards that every message meets; they come first.
        shards: number of shards.

    Raises:
        SnapshotError: the file is damaged, or is no directory.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._engine = open_registered(path)
        self.asked = self._engine.asked
        keys = self._engine.all_keys()
        ids = self._engine.ids(keys)
        self._shard_of = np.full(max(ids, default=0) + 1, -1, np.int64)  # by id
        self.every = 0
        for number, key in zip(ids, keys, strict=True):
            match key:
                case (str(kind), int(shard), *_) if kind in (_EVERY, _KEY):
                    self._shard_of[number] = shard
                    self.every += kind == _EVERY
                case (str(kind), *_) if kind == _ASKED:
                    pass
                case _:
                    raise SnapshotError(
                        f"{path}: expected the directory of a folder of shards, and it has a key {key!r}"
                    )
        self.shards = int(self._shard_of.max()) + 1

    def route(self, table: Any, *, errors: Literal["raise", "null"] = "raise") -> pa.StructArray:
        """Return the shards in which each row of an Arrow table can match: struct<shards: list<int32>, error: string>.

        Args:
            table: as for `Engine.match_batch`.
            errors: of a row that cannot be read: it raises an error; or its shards are null, and the reason is in
                ``error``.

        Raises:
            TypeError, ValueError: as `Engine.match_batch`.
        """
        import pyarrow as pa

        if errors == "raise":
            ids = self._engine.match_batch(table)
            reasons = pa.nulls(len(ids), pa.string())
        else:
            found = self._engine.match_batch(table, errors="column")
            ids, reasons = found.field("ids"), found.field("error")
        shards = _shard_lists(ids, self._shard_of, self.shards)
        return pa.StructArray.from_arrays([shards, reasons], names=["shards", "error"])


def _shard_lists(ids: Any, shard_of: Numbers, shards: int) -> Any:
    """Return the distinct shards for each list of ids, ascending; null where that is null."""
    import pyarrow as pa

    lengths = np.diff(ids.offsets.to_numpy())
    found = shard_of[ids.values.to_numpy()]
    pairs = np.repeat(np.arange(len(ids)), lengths) * max(shards, 1) + found
    pairs = np.unique(pairs[found >= 0])
    rows, numbers = np.divmod(pairs, max(shards, 1))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(ids)))]).astype(np.int32)
    mask = ids.is_null() if ids.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers.astype(np.int32)), mask=mask)
