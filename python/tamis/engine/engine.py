"""The public engine: the compiled core, with keys of any type instead of ids."""

from __future__ import annotations

import operator
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, overload

from tamis import _core
from tamis._core import Bitmap, Query
from tamis.engine.explanation import Explanation, name_hints
from tamis.engine.key_table import KeyTable, Removal
from tamis.engine.keys import K, encode_key, unhashable
from tamis.engine.notebook import html_table
from tamis.engine.report import Report
from tamis.errors import short
from tamis.message import Body, Properties

if TYPE_CHECKING:
    from typing import Self

    from tamis.words import Signature

Form: TypeAlias = Literal["keys", "ids", "bitmap", "count"]
"""The form in which a match gives its result."""

_BITMAP_SIZE_MAX = 1 << 32
# The maximum number of subscriptions whose report a notebook shows; it takes about 0.2 s.
_REPORTED_MAX = 10_000


class Engine(Generic[K]):
    """Holds subscriptions (key -> query); ``match(message)`` returns the keys of all queries that are true.

    A change is visible to the next match. Any thread may call any method; matching runs without the GIL and never
    waits for a change. Each match sees exactly one state: one that began before a key was removed may still return
    that key. Keys that are removed while a match runs are kept until it ends.

    ``len(engine)``, ``key in engine`` and ``for key in engine`` work as those of a dict, in the order in which the keys
    were added. ``Engine[str]`` tells type checkers the type of the keys. `pickle` and `copy` make an independent engine
    through a snapshot: they need keys and queries that `save` takes, and time that is linear in the queries.

    >>> import tamis
    >>> engine: Engine[str] = Engine()
    >>> engine.add("big", tamis.selector("price > 100"))
    >>> engine.match({"price": 120})
    ['big']
    >>> engine
    <tamis.Engine of 1 subscription>
    """

    def __init__(self) -> None:
        self._core = _core.Engine()
        self._keys: KeyTable[K] = KeyTable(self._core, is_empty=True)
        # Orders the changes. Reentrant: a finalizer may make a change in the middle of another, in the same thread.
        self._lock = threading.RLock()

    def add(self, key: K, query: Query) -> None:
        """Add a subscription; a key that exists gets the new query and keeps its position in the order.

        A probable mistake in a valid query is shown as a `tamis.QueryWarning`.

        Args:
            key: anything that can be hashed; keys compare as in a dict.
            query: a query in any language; the next match sees it.

        Raises:
            TypeError: `key` cannot be hashed, or `query` is not a query.
        """
        self._add_all([(key, query)])
        _show_warnings([query])

    def add_many(self, pairs: Iterable[tuple[K, Query]]) -> None:
        """Add all of `pairs`, or none of them if one cannot be added. Cost: about 1 µs per query.

        A probable mistake in a valid query is shown as a `tamis.QueryWarning`.

        Args:
            pairs: (key, query) each, such as the ``items()`` of a dict; of equal keys the last query counts.

        Raises:
            TypeError: `pairs` are not pairs, a key cannot be hashed, or a value is not a query; the text names it.
        """
        _show_warnings(self._add_all(pairs))

    def _add_all(self, pairs: Iterable[tuple[K, Query]]) -> Iterable[Query]:
        wanted = _subscriptions(pairs)
        with self._lock:
            ids = self._keys.ids()
            new = [key for key in wanted if key not in ids]
            replaced = [(ids[key], query) for key, query in wanted.items() if key in ids]
            self._keys.expect(new)
            self._keys.add(self._core.change([wanted[key] for key in new], replaced), new)
        return wanted.values()

    def remove(self, key: K) -> None:
        """Remove the subscription of `key`.

        Raises:
            KeyError: no subscription has this key.
            TypeError: `key` cannot be hashed.
        """
        with self._lock:
            subscription_id = self._id(key)
            self._core.remove(subscription_id)
            self._keys.remove(subscription_id)

    def __len__(self) -> int:
        return len(self._core)

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._keys.ids()

    def __iter__(self) -> Iterator[K]:
        return iter(self.all_keys())

    def __repr__(self) -> str:
        return f"<tamis.Engine of {_count(len(self))}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the report, or only the count if the report would take long."""
        if len(self) > _REPORTED_MAX:
            return html_table(repr(self)[1:-1], [("report", "engine.report() describes them")])
        return self.report()._repr_html_()

    def __reduce__(self) -> tuple[Callable[..., Engine[Any]], tuple[type[Engine[Any]], bytes]]:
        from tamis.engine import pickling  # few programs need it, and `import tamis` is quick

        return pickling.from_bytes, (type(self), pickling.to_bytes(self))

    @overload
    def match(
        self,
        properties: Properties | None = ...,
        topic: str | None = ...,
        body: Body = ...,
        *,
        signature: Signature | None = ...,
        as_: Literal["keys"] = ...,
    ) -> list[K]: ...
    @overload
    def match(
        self,
        properties: Properties | None = ...,
        topic: str | None = ...,
        body: Body = ...,
        *,
        signature: Signature | None = ...,
        as_: Literal["ids"],
    ) -> list[int]: ...
    @overload
    def match(
        self,
        properties: Properties | None = ...,
        topic: str | None = ...,
        body: Body = ...,
        *,
        signature: Signature | None = ...,
        as_: Literal["bitmap"],
    ) -> Bitmap: ...
    @overload
    def match(
        self,
        properties: Properties | None = ...,
        topic: str | None = ...,
        body: Body = ...,
        *,
        signature: Signature | None = ...,
        as_: Literal["count"],
    ) -> int: ...
    def match(
        self,
        properties: Properties | None = None,
        topic: str | None = None,
        body: Body = None,
        *,
        signature: Signature | None = None,
        as_: Form = "keys",
    ) -> list[K] | list[int] | Bitmap | int:
        """Return the keys of all queries that are true of the message, in the order in which they were added.

        Args:
            properties: the record, name -> value. Without the next arguments, its keys ``topic`` and ``body`` are the
                topic and the body, if they are texts.
            topic: dotted words; without it and the key, the empty text.
            body: text, or bytes that are text when they are valid UTF-8; without it and the key there is no body.
            signature: the signature of `body`, if you have it; the result is the same without it.
            as_: the form of the result: ``"keys"``; ``"ids"``, subscription ids, ascending; ``"bitmap"``,
                a `Bitmap` with the bits of these ids set; or ``"count"``, their number.

        Raises:
            TypeError: an argument or a property has a wrong type; the text names it.
            ValueError: an integer is beyond 64 bits, a text has half of a surrogate pair, the nesting is deeper than
                100, or `as_` is none of the four; for a bitmap, an id is 2^32 or more.
            RuntimeError: another thread changed `properties` while they were read.

        Cost: depends on the queries; docs/benchmarks.md measures it. Properties that no query asks for are checked, and
        not converted. A count or a bitmap makes no object per match.
        """
        since = self._keys.newest_removal
        found = self._core.match(properties, topic, body, signature, self._keys.by_id if as_ == "keys" else None)
        return found if isinstance(found, list) else self._answer(found, as_, since)

    @overload
    def match_json(self, data: str | bytes | bytearray | memoryview, *, as_: Literal["keys"] = ...) -> list[K]: ...
    @overload
    def match_json(self, data: str | bytes | bytearray | memoryview, *, as_: Literal["ids"]) -> list[int]: ...
    @overload
    def match_json(self, data: str | bytes | bytearray | memoryview, *, as_: Literal["bitmap"]) -> Bitmap: ...
    @overload
    def match_json(self, data: str | bytes | bytearray | memoryview, *, as_: Literal["count"]) -> int: ...
    def match_json(
        self, data: str | bytes | bytearray | memoryview, *, as_: Form = "keys"
    ) -> list[K] | list[int] | Bitmap | int:
        """Return the keys of all queries that are true of a record in JSON, in the order in which they were added.

        The result is that of `match` for ``json.loads(data)``. Members that no query uses are only parsed.

        Args:
            data: the text of one JSON object, or its bytes in UTF-8. The last of equal keys counts.
            as_: the form of the result, as for `match`.

        Raises:
            ValueError: it is not a JSON object; or a member that a query uses has an integer beyond 64 bits or is
                nested deeper than 100. The text says where. Or `as_` is not a form.

        Cost: linear in the text.
        """
        since = self._keys.newest_removal
        found = self._core.match_json(data, self._keys.by_id if as_ == "keys" else None)
        return found if isinstance(found, list) else self._answer(found, as_, since)

    def _answer(self, ids: _core.Ids, form: str, since: Removal[K]) -> list[K] | list[int] | Bitmap | int:
        """Return the matches in another form than keys."""
        if form == "keys":  # one of them is still in the snapshot, or was removed meanwhile
            return self._keys.keys_of(ids.to_list(), since)
        if form == "ids":
            return ids.to_list()
        if form == "count":
            return len(ids)
        if form == "bitmap":
            return ids.to_bitmap(_bitmap_size(self._core.next_id()))
        raise ValueError(f"as_: expected 'keys', 'ids', 'bitmap' or 'count', not {form!r}")

    def match_batch(self, table: Any, *, threads: int = 1, errors: Literal["raise", "null", "column"] = "raise") -> Any:
        """Match every row of an Arrow table.

        Columns that no query asks for may have any type and values.

        Args:
            table: anything with an Arrow stream or array capsule (pyarrow, polars, DuckDB, ...). A row is a record, as
                for `match`. If there is a column ``properties`` (a struct, a map, JSON text or Spark's variant), that
                is the record, and the columns ``topic`` (string) and ``body`` (string or binary) are the other parts.
            threads: the number of threads that share the rows.
            errors: what becomes of rows that cannot be read, such as one with broken JSON: ``raise`` stops at the
                first; ``null`` gives null for them and matches the others; ``column`` adds the reason beside the null.

        Returns:
            One list of subscription ids (uint64, ascending) per row: a ``pyarrow.ListArray`` if pyarrow is
            installed, else an object with the Arrow array capsule, ``len`` and ``to_pylist``. With ``column``, a
            ``pyarrow.StructArray`` of ``ids`` and ``error`` (string; null for a row that was read).

        Raises:
            TypeError: `table` is not a table, or a column that a query uses has a type that no property can have;
                the text names it.
            ValueError: a value is one that no property can have (the text names column and row), `threads` is below 1,
                or `errors` is none of the three.
            ImportError: ``column`` without pyarrow.
        """
        if errors not in ("raise", "null", "column"):
            raise ValueError(f"errors: expected 'raise', 'null' or 'column', not {errors!r}")
        lists, unreadable = self._core.match_batch(table, threads)
        if unreadable and errors == "raise":
            row, column, reason = unreadable[0]
            raise ValueError(f"column '{column}', row {row}: {reason}")
        try:
            import pyarrow  # the bare library does not depend on it
        except ImportError:
            if errors == "column":
                raise
            return lists
        ids = pyarrow.array(lists)
        return _with_reasons(ids, unreadable) if errors == "column" else ids

    def asked(self, names: Iterable[str]) -> tuple[list[str], bool, bool]:
        """Return what the queries ask for: those of `names` that are properties in one, the topic, and the body.

        Other parts of a message do not change any match. Cost: 3 µs per query at the first call; then kept.
        """
        return self._core.asked(list(names))

    def expensive(self) -> list[str]:
        """Return the names of the expensive predicates (`tamis.opaque`) in the queries, sorted. Cost: as `asked`."""
        return self._core.expensive()

    def keys(self, ids: Iterable[int]) -> list[K]:
        """Return the keys of subscription `ids`, in the order given. `all_keys` has the keys of all.

        Args:
            ids: subscription ids, as `match_batch` returns them.

        Raises:
            KeyError: an id that no subscription has.
            TypeError: `ids` are not integers.
        """
        try:
            wanted = list(map(operator.index, ids))
        except TypeError as error:
            raise TypeError(f"ids: expected integers, such as match_batch(...).to_pylist() has ({error})") from error
        try:
            return self._keys.keys_of(wanted)
        except OverflowError:
            raise KeyError(next(one for one in wanted if not 0 <= one < 2**64)) from None

    def ids(self, keys: Iterable[K]) -> list[int]:
        """Return the subscription ids of `keys`, in the order given, as `match_batch` has them.

        Raises:
            KeyError: no subscription has this key.
            TypeError: a key cannot be hashed.
        """
        return [self._id(key) for key in keys]

    def query(self, key: K) -> Query:
        """Return the query of `key`.

        Raises:
            KeyError: there is no such subscription.
            TypeError: `key` cannot be hashed.
        """
        subscription_id = self._id(key)
        try:
            return self._core.query(subscription_id)
        except KeyError:
            raise self._keys.lost(key, subscription_id) from None

    def all_keys(self) -> list[K]:
        """Return every key, in the order in which they were added."""
        with self._lock:
            ids = self._keys.ids()
            return sorted(ids, key=ids.__getitem__)

    def hits(
        self, properties: Properties | None = None, topic: str | None = None, body: Body = None
    ) -> list[tuple[K, int, int]]:
        """Return (key, hits, criteria) of each ``fields`` query with at least one true criterion.

        The order is that in which the queries were added; `hits` is the number of true criteria.

        Args:
            properties: the record, as for `match`.
            topic: dotted words.
            body: text or bytes.

        Raises:
            TypeError, ValueError: see `match`.

        Source: the OpenAMQ paper, "Field matching".
        """
        since = self._keys.newest_removal
        matches = self._core.hits(properties, topic, body)
        keys = self._keys.keys_of((subscription_id for subscription_id, _, _ in matches), since)
        return [(key, hits, criteria) for key, (_, hits, criteria) in zip(keys, matches, strict=True)]

    def explain(
        self, key: K, properties: Properties | None = None, topic: str | None = None, body: Body = None
    ) -> Explanation:
        """Explain why the query of `key` is true, false or unknown for the message, predicate by predicate.

        Args:
            key: the key of the subscription.
            properties: the record, as for `match`.
            topic: dotted words.
            body: text or bytes.

        Raises:
            KeyError: there is no such subscription.
            TypeError, ValueError: see `match`.

        Cost: evaluates every predicate of the query.
        """
        subscription_id = self._id(key)
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
    ) -> list[K]:
        """Return the keys of queries that failed by exactly `off_by` predicates, in the order in which they were added.

        A predicate that is false or unknown counts one. AND adds its parts, OR takes the smallest, and NOT is first
        pushed down to the predicates.

        Args:
            properties: the record, as for `match`.
            topic: dotted words.
            body: text or bytes.
            off_by: the number of failed predicates, at least 1.
            limit: maximum number of keys returned.

        Raises:
            ValueError: `off_by` or `limit` is below 1.
            TypeError, ValueError: see `match`.

        Cost: evaluates every predicate of every query.
        """
        since = self._keys.newest_removal
        subscription_ids = self._core.near_misses(properties, topic, body, off_by, limit)
        return self._keys.keys_of(subscription_ids, since)

    def report(self) -> Report[K]:
        """Describe all subscriptions: shared, equal, covered, never or always true, unindexable, expensive.

        Cost: about 20 µs per subscription, without the GIL. The engine may be used and changed meanwhile.
        """
        key_of = self._keys.key_of(self._keys.newest_removal)
        return Report.from_core(self._core.report(), key_of)

    def time_matches(
        self, messages: Sequence[tuple[Properties, str, str | None] | bytes], *, warm_up: int = 1, rounds: int = 3
    ) -> list[tuple[int, int, int]]:
        """Measure matching inside the core, one message after another, in this thread and without the GIL.

        Args:
            messages: properties, topic and body of each; or the bytes of a record in JSON; reading it is
                measured too.
            warm_up: number of rounds through all messages before measuring.
            rounds: number of measured rounds.

        Returns:
            For each message, the median wall time and the median CPU time of its thread in nanoseconds, and the number
            of subscriptions that it satisfies.
        """
        return self._core.time_matches(list(messages), warm_up, rounds)

    def names(self) -> list[str]:
        """Return the names of the properties that queries ask for, sorted. Cost: linear in the queries."""
        return self._core.names()

    def hierarchy(self, attribute: str, parents: Mapping[str, str | None]) -> None:
        """Replace the tree of an attribute's values, which ``attribute UNDER 'value'`` follows from the next match on.

        Args:
            attribute: the property's name.
            parents: value -> its parent, or None for a root; several roots are allowed.

        Raises:
            ValueError: a cycle, or a parent that is not declared.
            TypeError: `attribute`, a value or a parent is not text.

        Source: the ITMO paper, dynamic groupings.
        """
        self._core.hierarchy(attribute, parents)

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
            self._core.save(path, keys, opaque == "names")

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
            opaque: name -> function of each expensive predicate in it; other functions are ignored.

        Raises:
            SnapshotError: the file is no snapshot, has another version, or is damaged.
            TypeError: the function of an expensive predicate is not in `opaque`, or is not callable.
            OSError: the file cannot be read.

        Cost: less than 1 ms for 500,000 queries; with `verify` the time of reading the file. A page is checked against
        its checksum when it is first read. The first change or look-up of a key reads all keys.
        """
        engine = cls()
        engine._core = _core.Engine.open(path, verify, _functions(opaque))
        engine._keys = KeyTable(engine._core, is_empty=False)
        return engine

    def _id(self, key: K) -> int:
        with self._lock:
            try:
                return self._keys.ids()[key]
            except TypeError as error:
                raise unhashable(key, error) from error


def _bitmap_size(next_id: int) -> int:
    if next_id > _BITMAP_SIZE_MAX:
        raise ValueError(f"as_: a bitmap has at most 2^32 bits, and this engine has given {next_id:,} ids; use 'ids'")
    return next_id


def _count(subscriptions: int) -> str:
    return "1 subscription" if subscriptions == 1 else f"{subscriptions:,} subscriptions"


def _subscriptions(pairs: Iterable[tuple[K, Query]]) -> dict[K, Query]:
    """Return the query of each key in `pairs`."""
    if isinstance(pairs, Mapping) or not isinstance(pairs, Iterable):
        hint = "; of a mapping these are its items()" if isinstance(pairs, Mapping) else ""
        raise TypeError(f"pairs: expected pairs of key and query, not {type(pairs).__name__}{hint}")
    wanted: dict[K, Query] = {}
    for pair in pairs:
        try:
            key, query = pair
        except (TypeError, ValueError):
            raise TypeError(f"pairs: expected (key, query), not {short(pair)}") from None
        if not isinstance(query, Query):
            raise TypeError(f"key {short(key)}: expected a tamis.Query, not {type(query).__name__}")
        try:
            wanted[key] = query
        except TypeError as error:
            raise unhashable(key, error) from error
    return wanted


def _functions(opaque: Mapping[str, Callable[..., bool | None]] | None) -> dict[str, Callable[..., bool | None]]:
    """Return the functions of expensive predicates by name, checked."""
    if not isinstance(opaque, Mapping | None):
        raise TypeError(f"opaque: expected a mapping of name -> function, not {type(opaque).__name__}")
    for name, function in (opaque or {}).items():
        if not isinstance(name, str):
            raise TypeError(f"opaque: expected a name, not {short(name)}")
        if not callable(function):
            raise TypeError(f"opaque {name!r}: expected a function, not {type(function).__name__}")
    return dict(opaque or {})


def _show_warnings(queries: Iterable[Query]) -> None:
    """Show the warnings of `queries`, as coming from the caller of the caller."""
    for query in queries:
        for warning in query.warnings:
            warnings.warn(warning, stacklevel=3)


def _with_reasons(ids: Any, unreadable: list[tuple[int, str, str]]) -> Any:
    """Return the ids of each row beside the reason why it could not be read."""
    import pyarrow

    reasons: list[str | None] = [None] * len(ids)
    for row, column, reason in unreadable:
        reasons[row] = f"column '{column}': {reason}"
    return pyarrow.StructArray.from_arrays([ids, pyarrow.array(reasons, pyarrow.string())], names=["ids", "error"])
