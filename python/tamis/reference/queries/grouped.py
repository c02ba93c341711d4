"""Grouped filters: a hash finds those that name an identifier, and one predicate admits each group of the others.

A filter that demands an equality of an attribute with many values (an identifier) is in the hash table of that
attribute. Most others are written as "predicate && filter": they are grouped by that starting predicate, and a group
whose predicate is not true is skipped as a whole. The filters of the remaining groups are evaluated as trees, from left
to right as their author ordered them, stopping early. The result of an expensive predicate is kept per message.

Cost: one evaluation for each group ("there are no more than 100"), the filters that the hash finds, and those of the
groups whose predicate is true.
Cannot: look at less than a whole group, which is a share of all filters, so that the cost still grows with their
number. The paper keeps the results of predicates over 100 nanoseconds; in Python every predicate takes longer, so all
but the starting ones are kept. The paper does not say how a filter without a starting predicate is found: here those
form one group that is always checked. The caller says which attributes are identifiers, as the authors did.

Source: the ITMO paper (in Russian; quotations are translated), section "Algorithm"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from tamis.closing import Closing
from tamis.query import Query
from tamis.reference.queries.query_matcher import Message, QueryMatcher, predicate_of, truth
from tamis.reference.values import Point, point

if TYPE_CHECKING:
    from tamis._core import _Tree as Tree

Group: TypeAlias = "dict[int, list[Tree]]"
"""The number of each filter, and its remaining conditions: trees that must all be true."""
Check: TypeAlias = Callable[[Group], list[int]]


class Grouped(QueryMatcher):
    """ITMO's filters, by identifier and by starting predicate.

    The paper's filter of a real system; a deleted instrument costs the one test that its group begins with:

    >>> from tamis import boolean
    >>> matcher = Grouped()
    >>> matcher.add("real", boolean("deleted = false && (CFI == OXXXX || CFI == FXXXX)"
    ...     " && group == (American || European) && Trading enabled == true"))
    >>> matcher.groups
    ['deleted = FALSE']
    >>> matcher.match({"deleted": False, "CFI": "OXXXX", "group": "European", "Trading enabled": True})
    ['real']
    >>> matcher.match({"deleted": True, "CFI": "OXXXX"}), len(matcher.evaluated)
    ([], 1)
    """

    def __init__(self, identifiers: Iterable[str] = ()) -> None:
        super().__init__()
        self._identifiers = frozenset(identifiers)
        self._tables: defaultdict[str, defaultdict[Point, Group]] = defaultdict(lambda: defaultdict(dict))
        self._groups: defaultdict[Query | None, Group] = defaultdict(dict)
        self._access: dict[int, tuple[str, list[Point]]] = {}
        self._start: dict[int, Query | None] = {}

    @property
    def groups(self) -> list[str]:
        """The starting predicate of each group, the oldest first; empty for the group without one."""
        return [str(start) if start is not None else "" for start in self._groups]

    def _insert(self, number: int, tree: Tree) -> None:
        conditions = list(tree[1]) if tree[0] == "and" else [tree]
        for condition in conditions:
            if condition[0] == "=" and condition[1] in self._identifiers:
                conditions.remove(condition)
                points = [key for value in condition[2] if (key := point(value)) is not None]
                self._access[number] = condition[1], points
                for key in points:
                    self._tables[condition[1]][key][number] = conditions
                return
        start = None if conditions[0][0] in ("and", "or", "not") else predicate_of(conditions.pop(0))
        self._start[number] = start
        self._groups[start][number] = conditions

    def _delete(self, number: int) -> None:
        if number in self._access:
            name, points = self._access.pop(number)
            for key in dict.fromkeys(points):
                del self._tables[name][key][number]
                if not self._tables[name][key]:
                    del self._tables[name][key]
            if not self._tables[name]:
                del self._tables[name]
        else:
            start = self._start.pop(number)
            del self._groups[start][number]
            if not self._groups[start]:
                del self._groups[start]

    def _find(self, message: Message) -> Iterator[int]:
        hashed: Group = {}  # by the hashes; a list in the message may find a filter twice
        for name, table in self._tables.items():
            for key in message.points(name):
                hashed.update(table.get(key, {}))
        admitted = [group for start, group in self._groups.items() if start is None or message.truth(start)]
        expensive: dict[Query, bool | None] = {}

        def kept(predicate: Query) -> bool | None:
            if predicate not in expensive:
                expensive[predicate] = message.truth(predicate)
            return expensive[predicate]

        def check(group: Group) -> list[int]:
            return [number for number, kept_filter in group.items() if truth(("and", kept_filter), kept)]

        for numbers in self._check_all(check, [hashed, *admitted]):
            yield from numbers

    def _check_all(self, check: Check, groups: list[Group]) -> Iterable[list[int]]:
        return map(check, groups)


class GroupedInThreads(Closing, Grouped):
    """Grouped filters with one thread per group: "checking groups is independent and needs no synchronisation".

    Threads share the results of expensive predicates; two may evaluate one at the same time, which is harmless.
    Close it, or use it in a ``with`` statement.

    >>> from tamis import boolean
    >>> with GroupedInThreads(threads=2) as matcher:
    ...     matcher.add("live", boolean("deleted = false && smart != no"))
    ...     matcher.match({"deleted": False, "smart": "yes"})
    ['live']
    """

    def __init__(self, identifiers: Iterable[str] = (), *, threads: int = 16) -> None:
        super().__init__(identifiers)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="group")

    def _check_all(self, check: Check, groups: list[Group]) -> Iterable[list[int]]:
        return self._pool.map(check, groups)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
