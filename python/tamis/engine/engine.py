"""The engine: many standing queries, and all that a message satisfies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tamis import _core
from tamis._core import Query
from tamis.engine.explanation import Explanation, name_hints
from tamis.engine.key_table import KeyTable
from tamis.engine.keys import encode_key
from tamis.engine.report import Report
from tamis.message import Body, Properties

if TYPE_CHECKING:
    from typing import Self

    from tamis.words import Signature

# More threads, predicates or keys than there can be: what is asked for beyond it comes to the same.
_LARGEST = 2**32 - 1


class Engine:
    """Holds subscriptions (key -> query); ``match(message)`` gives the keys of all that are true.

    Changes are visible to the next match. Any thread may call any method; matching runs without the GIL, and never
    waits for a change. Each message sees exactly one state: a match that began before a key was removed may still tell
    it. Keys that are removed while a match runs are kept until it ends.

    >>> import tamis
    >>> engine = Engine()
    >>> engine.add("big", tamis.selector("price > 100"))
    >>> engine.match({"price": 120})
    ['big']
    """

    def __init__(self) -> None:
        self._core = _core.Engine()
        self._keys = KeyTable(self._core, is_empty=True)
        # Over the order of changes. A finalizer may make one in the middle of another, in the same thread.
        self._lock = threading.RLock()

    def add(self, key: Hashable, query: Query) -> None:
        """Add a subscription; a key that is there already gets the new query and keeps its place in the order.

        Raises:
            TypeError: `key` cannot be hashed, or `query` is no query.
        """
        self.add_many([(key, query)])

    def add_many(self, pairs: Iterable[tuple[Hashable, Query]]) -> None:
        """Add all of `pairs`, or none of them when one cannot be added. Cost: about a microsecond a query.

        Raises:
            TypeError: a key that cannot be hashed, or something that is no query.
        """
        wanted: dict[Hashable, Query] = {}
        for key, query in pairs:
            if not isinstance(query, Query):
                raise TypeError(f"key {key!r}: expected a tamis.Query, not {type(query).__name__}")
            wanted[key] = query
        with self._lock:
            ids = self._keys.ids()
            new = [key for key in wanted if key not in ids]
            replaced = [(ids[key], query) for key, query in wanted.items() if key in ids]
            self._keys.expect(new)
            self._keys.add(self._core.change([wanted[key] for key in new], replaced), new)

    def remove(self, key: Hashable) -> None:
        """Remove a subscription.

        Raises:
            KeyError: there is none with this key.
        """
        with self._lock:
            subscription_id = self._keys.ids()[key]
            self._core.remove(subscription_id)
            self._keys.remove(subscription_id)

    def __len__(self) -> int:
        return len(self._core)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._keys.ids()

    def match(
        self,
        properties: Properties | None = None,
        topic: str = "",
        body: Body = None,
        *,
        signature: Signature | None = None,
    ) -> list[Hashable]:
        """The keys of all subscriptions that are true of the message, in the order in which they were added.

        Args:
            properties: name -> value.
            topic: dotted words.
            body: text, or bytes that are text when they are valid UTF-8.
            signature: of `body`, when one has been made; the answer is the same without it.

        Raises:
            TypeError: a property of a type that has no meaning here, with its name.
            ValueError: an integer beyond 64 bits, or nesting over 100.
            RuntimeError: another thread changed `properties` while they were read.
        """
        since = self._keys.newest_removal
        return self._keys.keys_of(self._core.match(properties, topic, body, signature), since)

    def match_batch(self, table: Any, *, threads: int = 1) -> Any:
        """Match every row of an Arrow table.

        Args:
            table: anything with an Arrow stream or array capsule (pyarrow, polars, DuckDB, ...). Columns ``topic``
                (string) and ``body`` (string or binary) are optional; ``properties`` is a struct, a map, JSON text or
                Spark's variant; without it every other column is a property.
            threads: how many threads share the rows.

        Returns:
            One list of subscription ids (uint64, ascending) a row: a ``pyarrow.ListArray`` where pyarrow is
            installed, else an object with the Arrow array capsule, ``len`` and ``to_pylist``.

        Raises:
            TypeError: a column of a type that no property can have, with its name.
            ValueError: a value that no property can have, with column and row; `threads` is below 1.
        """
        if threads < 1:
            raise ValueError(f"threads: expected at least 1, not {threads}")
        lists = self._core.match_batch(table, min(threads, _LARGEST))
        try:
            import pyarrow  # the bare library does not depend on it
        except ImportError:
            return lists
        return pyarrow.array(lists)

    def keys(self, ids: Iterable[int]) -> list[Hashable]:
        """The keys of subscription ids, in the order given.

        Raises:
            KeyError: an id that no subscription has.
        """
        return self._keys.keys_of(map(int, ids))

    def query(self, key: Hashable) -> Query:
        """The query of `key`.

        Raises:
            KeyError: there is no such subscription.
        """
        with self._lock:
            subscription_id = self._keys.ids()[key]
        return self._core.query(subscription_id)

    def all_keys(self) -> list[Hashable]:
        """Every key, in the order in which they were added."""
        with self._lock:
            ids = self._keys.ids()
            return sorted(ids, key=ids.__getitem__)

    def hits(
        self, properties: Properties | None = None, topic: str = "", body: Body = None
    ) -> list[tuple[Hashable, int, int]]:
        """How many criteria of each ``fields`` query are true: (key, hits, criteria) where at least one is.

        In the order in which they were added. Source: the OpenAMQ paper, "Field matching".
        """
        since = self._keys.newest_removal
        found = self._core.hits(properties, topic, body)
        keys = self._keys.keys_of((subscription_id for subscription_id, _, _ in found), since)
        return [(key, hits, criteria) for key, (_, hits, criteria) in zip(keys, found, strict=True)]

    def explain(
        self, key: Hashable, properties: Properties | None = None, topic: str = "", body: Body = None
    ) -> Explanation:
        """Why the query of `key` is true, false or unknown of the message, predicate by predicate.

        Raises:
            KeyError: there is no such subscription.
        """
        with self._lock:
            subscription_id = self._keys.ids()[key]
        result, predicates, missing = self._core.explain(subscription_id, properties, topic, body)
        return Explanation(result, predicates, missing, name_hints(missing, properties))

    def near_misses(
        self,
        properties: Properties | None = None,
        topic: str = "",
        body: Body = None,
        *,
        off_by: int = 1,
        limit: int = 100,
    ) -> list[Hashable]:
        """The keys of queries that failed by exactly `off_by` predicates, in the order in which they were added.

        A predicate that is false or unknown counts one; AND sums, OR takes the least, NOT is pushed to the predicates
        first.

        Args:
            properties: name -> value.
            topic: dotted words.
            body: text or bytes.
            off_by: at least 1.
            limit: the most keys returned.

        Raises:
            ValueError: `off_by` or `limit` is below 1.

        Cost: every query, all of its predicates.
        """
        if off_by < 1 or limit < 1:
            raise ValueError(f"off_by and limit: expected at least 1, not {off_by} and {limit}")
        since = self._keys.newest_removal
        found = self._core.near_misses(properties, topic, body, min(off_by, _LARGEST), min(limit, _LARGEST))
        return self._keys.keys_of(found, since)

    def report(self) -> Report:
        """What all subscriptions are like: shared, equal, covered, never or always true, unindexable, expensive.

        Cost: about 20 us a subscription, without the GIL; the engine may be used and changed meanwhile.
        """
        key_of = self._keys.key_of(self._keys.newest_removal)
        return Report.from_core(self._core.report(), key_of)

    def time_matches(
        self, messages: Sequence[tuple[Properties, str, str | None]], *, warm_up: int = 1, rounds: int = 3
    ) -> list[tuple[int, int, int]]:
        """How long matching takes inside the core, one message after another, in this thread and without the GIL.

        Args:
            messages: properties, topic and body of each.
            warm_up: rounds through all messages before the clock runs.
            rounds: rounds with the clock running around each match.

        Returns:
            For each message its wall time and its thread's CPU time in nanoseconds, the medians of the rounds, and how
            many subscriptions it satisfies.
        """
        return self._core.time_matches(list(messages), warm_up, rounds)

    def names(self) -> list[str]:
        """The names of the properties that queries ask for, sorted. Cost: linear in the queries."""
        return self._core.names()

    def hierarchy(self, attribute: str, parents: Mapping[str, str | None]) -> None:
        """Replace the tree of an attribute's values, which ``attribute UNDER 'value'`` follows from the next match on.

        Args:
            attribute: the property's name.
            parents: value -> its parent, or None for a root; several roots are allowed.

        Raises:
            ValueError: a cycle, or a parent that is not declared.

        Source: the ITMO paper, dynamic groupings.
        """
        self._core.hierarchy(attribute, dict(parents))

    def save(self, path: str | os.PathLike[str], *, opaque: Literal["names"] | None = None) -> None:
        """Write a snapshot: to a temporary name, synced, renamed, and never changed afterwards.

        Args:
            path: where to; an engine that has the old file open keeps it.
            opaque: "names" saves expensive predicates (`tamis.opaque`) by their names; without it they are refused.

        Raises:
            TypeError: a key that is not str, int, bytes or a tuple of them; an expensive predicate without
                `opaque="names"`, or two of them with one name.
            OSError: the file cannot be written; nothing is left behind.
        """
        if opaque not in (None, "names"):
            raise ValueError(f"opaque: expected 'names' or None, not {opaque!r}")
        with self._lock:
            keys = [(i, encode_key(key)) for key, i in sorted(self._keys.ids().items(), key=lambda pair: pair[1])]
            self._core.save(os.fspath(path), keys, opaque == "names")

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: bool = False,
        opaque: Mapping[str, Callable[..., bool | None]] | None = None,
    ) -> Self:
        """Open a snapshot: it is mapped, not loaded, and can be changed in memory like any engine.

        Args:
            path: a file that `save` wrote.
            verify: check every byte, not only the header.
            opaque: the functions of the expensive predicates in it, by name; others are left alone.

        Raises:
            SnapshotError: no snapshot, one of another version, or a damaged one.
            TypeError: an expensive predicate whose function is not in `opaque`, or is none.
            OSError: the file cannot be read.

        Cost: at most 10 ms for 500,000 queries; the first match then checks the index against its checksums, and the
        first change or look-up of a key reads all keys once.
        """
        functions = dict(opaque or {})
        for name, function in functions.items():
            if not callable(function):
                raise TypeError(f"opaque {name!r}: expected a function, not {type(function).__name__}")
        engine = cls()
        engine._core = _core.Engine.open(os.fspath(path), verify, functions)
        engine._keys = KeyTable(engine._core, is_empty=False)
        return engine
