"""The public engine: the compiled core, with keys of any type instead of ids."""

from __future__ import annotations

import os
import threading
import warnings
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

# More threads, predicates or keys than there can be: a larger argument means the same.
_LARGEST = 2**32 - 1


class Engine:
    """Holds subscriptions (key -> query); ``match(message)`` returns the keys of all queries that are true.

    A change is visible to the next match. Any thread may call any method; matching runs without the GIL and never
    waits for a change. Each match sees exactly one state: one that began before a key was removed may still return
    that key. Keys that are removed while a match runs are kept until it ends.

    >>> import tamis
    >>> engine = Engine()
    >>> engine.add("big", tamis.selector("price > 100"))
    >>> engine.match({"price": 120})
    ['big']
    """

    def __init__(self) -> None:
        self._core = _core.Engine()
        self._keys = KeyTable(self._core, is_empty=True)
        # Orders the changes. Reentrant: a finalizer may make a change in the middle of another, in the same thread.
        self._lock = threading.RLock()

    def add(self, key: Hashable, query: Query) -> None:
        """Add a subscription; a key that exists gets the new query and keeps its position in the order.

        What is legal in the query and can hardly be meant is shown as a `tamis.QueryWarning`.

        Raises:
            TypeError: `key` cannot be hashed, or `query` is not a query.
        """
        self._add_all([(key, query)])
        _show_warnings([query])

    def add_many(self, pairs: Iterable[tuple[Hashable, Query]]) -> None:
        """Add all of `pairs`, or none of them if one cannot be added. Cost: about 1 µs per query.

        What is legal in a query and can hardly be meant is shown as a `tamis.QueryWarning`.

        Raises:
            TypeError: a key cannot be hashed, or a value is not a query.
        """
        _show_warnings(self._add_all(pairs))

    def _add_all(self, pairs: Iterable[tuple[Hashable, Query]]) -> Iterable[Query]:
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
        return wanted.values()

    def remove(self, key: Hashable) -> None:
        """Remove a subscription.

        Raises:
            KeyError: no subscription has this key.
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
        topic: str | None = None,
        body: Body = None,
        *,
        signature: Signature | None = None,
    ) -> list[Hashable]:
        """The keys of all subscriptions that are true of the message, in the order in which they were added.

        Args:
            properties: the record, name -> value. Its keys ``topic`` and ``body`` are the parts that are not given, if they
                are texts.
            topic: dotted words; without it and the key, the empty text.
            body: text, or bytes that are text when they are valid UTF-8; without it and the key there is no body.
            signature: the signature of `body`, if you have it; the result is the same without it.

        Raises:
            TypeError: a property has a type that no property can have; the text names the property.
            ValueError: an integer is beyond 64 bits, or the nesting is deeper than 100.
            RuntimeError: another thread changed `properties` while they were read.
        """
        since = self._keys.newest_removal
        return self._keys.keys_of(self._core.match(properties, topic, body, signature), since)

    def match_json(self, data: str | bytes | bytearray | memoryview) -> list[Hashable]:
        """The keys of all subscriptions that are true of a record in JSON, in the order in which they were added.

        It is the same as `match` of what ``json.loads`` makes of it. Of what no query asks for only the form is checked.

        Args:
            data: the text of one JSON object, or its bytes in UTF-8. The last of equal keys counts.

        Raises:
            ValueError: it is no JSON object, or what a query asks for has an integer beyond 64 bits or is nested deeper
                than 100; the text says where.

        Cost: linear in the text.
        """
        since = self._keys.newest_removal
        return self._keys.keys_of(self._core.match_json(data), since)

    def match_batch(self, table: Any, *, threads: int = 1) -> Any:
        """Match every row of an Arrow table.

        Args:
            table: anything with an Arrow stream or array capsule (pyarrow, polars, DuckDB, ...). A row is a record, as
                for `match`. If there is a column ``properties`` (a struct, a map, JSON text or Spark's variant), that is
                the record, and ``topic`` (string) and ``body`` (string or binary) beside it are the parts.
            threads: the number of threads that share the rows.

        Returns:
            One list of subscription ids (uint64, ascending) per row: a ``pyarrow.ListArray`` if pyarrow is
            installed, else an object with the Arrow array capsule, ``len`` and ``to_pylist``.

        Raises:
            TypeError: a column has a type that no property can have; the text names the column.
            ValueError: a value is one that no property can have (the text names column and row), or `threads` is
                below 1.
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
        try:
            return self._core.query(subscription_id)
        except KeyError:
            raise self._keys.lost(key, subscription_id) from None

    def all_keys(self) -> list[Hashable]:
        """Every key, in the order in which they were added."""
        with self._lock:
            ids = self._keys.ids()
            return sorted(ids, key=ids.__getitem__)

    def hits(
        self, properties: Properties | None = None, topic: str | None = None, body: Body = None
    ) -> list[tuple[Hashable, int, int]]:
        """How many criteria of each ``fields`` query are true: (key, hits, criteria) where at least one is.

        In the order in which they were added. Source: the OpenAMQ paper, "Field matching".
        """
        since = self._keys.newest_removal
        matches = self._core.hits(properties, topic, body)
        keys = self._keys.keys_of((subscription_id for subscription_id, _, _ in matches), since)
        return [(key, hits, criteria) for key, (_, hits, criteria) in zip(keys, matches, strict=True)]

    def explain(
        self, key: Hashable, properties: Properties | None = None, topic: str | None = None, body: Body = None
    ) -> Explanation:
        """Explain why the query of `key` is true, false or unknown for the message, predicate by predicate.

        Raises:
            KeyError: there is no such subscription.
        """
        with self._lock:
            subscription_id = self._keys.ids()[key]
        try:
            result, predicates, missing = self._core.explain(subscription_id, properties, topic, body)
        except KeyError:
            raise self._keys.lost(key, subscription_id) from None
        return Explanation(result, predicates, missing, name_hints(missing, properties))

    def near_misses(
        self,
        properties: Properties | None = None,
        topic: str | None = None,
        body: Body = None,
        *,
        off_by: int = 1,
        limit: int = 100,
    ) -> list[Hashable]:
        """The keys of queries that failed by exactly `off_by` predicates, in the order in which they were added.

        A predicate that is false or unknown counts one. AND adds its parts, OR takes the smallest, and NOT is first
        pushed down to the predicates.

        Args:
            properties: the record, as for `match`.
            topic: dotted words.
            body: text or bytes.
            off_by: at least 1.
            limit: maximum number of keys returned.

        Raises:
            ValueError: `off_by` or `limit` is below 1.

        Cost: evaluates every predicate of every query.
        """
        if off_by < 1 or limit < 1:
            raise ValueError(f"off_by and limit: expected at least 1, not {off_by} and {limit}")
        since = self._keys.newest_removal
        subscription_ids = self._core.near_misses(properties, topic, body, min(off_by, _LARGEST), min(limit, _LARGEST))
        return self._keys.keys_of(subscription_ids, since)

    def report(self) -> Report:
        """Describe all subscriptions: shared, equal, covered, never or always true, unindexable, expensive.

        Cost: about 20 µs per subscription, without the GIL; the engine may be used and changed meanwhile.
        """
        key_of = self._keys.key_of(self._keys.newest_removal)
        return Report.from_core(self._core.report(), key_of)

    def time_matches(
        self, messages: Sequence[tuple[Properties, str, str | None]], *, warm_up: int = 1, rounds: int = 3
    ) -> list[tuple[int, int, int]]:
        """Measure matching inside the core, one message after another, in this thread and without the GIL.

        Args:
            messages: properties, topic and body of each.
            warm_up: number of rounds through all messages before measuring.
            rounds: number of measured rounds.

        Returns:
            For each message, the median wall time and the median CPU time of its thread in nanoseconds, and the number
            of subscriptions that it satisfies.
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
            path: the file; an engine that has the old file open keeps it.
            opaque: "names" saves expensive predicates (`tamis.opaque`) by name; without it they are refused.

        Raises:
            TypeError: a key is not str, int, bytes or a tuple of them; there is an expensive predicate without
                `opaque="names"`, or two have the same name.
            OSError: the file cannot be written; no partial file remains.
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
            opaque: the functions of the expensive predicates in it, by name; other functions are ignored.

        Raises:
            SnapshotError: the file is no snapshot, has another version, or is damaged.
            TypeError: the function of an expensive predicate is not in `opaque`, or is not callable.
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


def _show_warnings(queries: Iterable[Query]) -> None:
    """Show what can hardly be meant in `queries`, as coming from the caller of the caller."""
    for query in queries:
        for warning in query.warnings:
            warnings.warn(warning, stacklevel=3)
