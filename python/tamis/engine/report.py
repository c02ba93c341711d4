"""The report of an engine on all its subscriptions.

`docs/report.md` explains each part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Generic

from tamis.engine.keys import K
from tamis.engine.notebook import html_table

_SHOWN = 5
"""Maximum number of items of a list in the text for people."""


@dataclass(frozen=True)
class ExpensiveQuery(Generic[K]):
    """One of the most expensive queries.

    Attributes:
        key: its first subscription.
        text: the query as selector text.
        cost_us: the cost of all its predicates in microseconds, measured on a message made for it.
    """

    key: K
    text: str
    cost_us: float


@dataclass(frozen=True)
class OpaqueUse:
    """An expensive predicate in use, and the results of its calls since it was made.

    Attributes:
        name: the declared name.
        subscriptions: number of subscriptions that have it.
        cost_us: the declared cost per call, in microseconds.
        calls: number of calls.
        errors: number of calls that raised, which made it unknown.
        measured_us: the mean time of the calls that were timed; None before the first.
        last_error: the reason of the last failure.
    """

    name: str
    subscriptions: int
    cost_us: float
    calls: int
    errors: int
    measured_us: float | None
    last_error: str | None


@dataclass(frozen=True)
class Report(Generic[K]):
    """Facts about all subscriptions of an engine. Keys are in the order in which they were added.

    `never_true`, `always_true` and `covered` are sound but not complete: what they name holds for every message.

    Attributes:
        subscriptions: number of subscriptions.
        distinct_queries: number of different queries.
        predicates: number of predicates, counted each time one is written.
        distinct_predicates: number of different predicates.
        shared: the predicates of the most subscriptions, at most 20: (text, number of subscriptions).
        duplicates: groups of keys with equal queries.
        covered: (key, other): whenever the query of `key` is true, that of `other` is true too. At most 8 for each key,
            and 100,000 in all. Of two equivalent queries, the later is covered by the earlier.
        covered_subscriptions: number of subscriptions that are covered.
        candidates_left_out: candidates for `covered` that were not compared, to keep the time linear.
        never_true: keys of queries that no message satisfies.
        always_true: keys of queries that every message satisfies.
        unindexable: keys of queries without an access key, which are evaluated for every message.
        served_by: what finds the candidates for the queries, with the number of subscriptions: "topics" (topic
            patterns), "values" (a table of their rarest values), "texts" (the search for needles and words), "ranges"
            (bounds of numbers and times), "presence" (the table, by a property that must be there), "summaries" (values
            that rule out groups of 64 queries) and "nothing" (candidates of every message). An OR counts under the last
            of these that one of its branches needs; a query that is never true may be in none.
        most_expensive: the most expensive queries, the most expensive first, at most 20.
        opaque: the expensive predicates in use, by name.
        bytes: the memory of the subscriptions, without their keys.
    """

    subscriptions: int
    distinct_queries: int
    predicates: int
    distinct_predicates: int
    shared: list[tuple[str, int]]
    duplicates: list[list[K]]
    covered: list[tuple[K, K]]
    covered_subscriptions: int
    candidates_left_out: int
    never_true: list[K]
    always_true: list[K]
    unindexable: list[K]
    served_by: list[tuple[str, int]]
    most_expensive: list[ExpensiveQuery[K]]
    opaque: list[OpaqueUse] = field(default_factory=list)
    bytes: int = 0

    @classmethod
    def from_core(cls, core_report: dict[str, Any], key: Callable[[int], K]) -> Report[K]:
        """Return the report `core_report` of the compiled engine, its ids replaced by the keys that `key` returns."""
        with_keys = dict(core_report)
        for name in ("never_true", "always_true", "unindexable"):
            with_keys[name] = [key(one) for one in core_report[name]]
        with_keys["duplicates"] = [[key(one) for one in group] for group in core_report["duplicates"]]
        with_keys["covered"] = [(key(narrow), key(wide)) for narrow, wide in core_report["covered"]]
        with_keys["most_expensive"] = [
            ExpensiveQuery(key(one), text, cost_ns / 1_000) for one, text, cost_ns in core_report["most_expensive"]
        ]
        with_keys["opaque"] = [OpaqueUse(**used) for used in core_report["opaque"]]
        return cls(**with_keys)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        plain = asdict(self)
        plain["shared"] = [{"text": text, "subscriptions": count} for text, count in self.shared]
        plain["served_by"] = [{"index": index, "subscriptions": count} for index, count in self.served_by]
        plain["covered"] = [{"key": key, "by": by} for key, by in self.covered]
        return plain

    def __str__(self) -> str:
        lines = [
            f"{self.subscriptions:,} subscriptions, {self.distinct_queries:,} distinct queries, {self.bytes:,} bytes",
            f"{self.predicates:,} predicates, {self.distinct_predicates:,} distinct",
        ]
        return "\n".join(lines + [f"{title}: {shown}" for title, shown in self._lists()])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        counts = [
            ("subscriptions", f"{self.subscriptions:,}"),
            ("distinct queries", f"{self.distinct_queries:,}"),
            ("predicates", f"{self.predicates:,}, {self.distinct_predicates:,} of them distinct"),
            ("memory", f"{self.bytes:,} bytes"),
        ]
        return html_table("tamis.Engine", counts + self._lists())

    def _lists(self) -> list[tuple[str, str]]:
        """Return the lists that are not empty: title, and length with the first items."""
        expensive = [f"{each.key!r} {each.cost_us:.2f} us" for each in self.most_expensive]
        lists = [
            ("shared", [f"{text} ({count:,})" for text, count in self.shared]),
            ("duplicates", [" = ".join(map(repr, group)) for group in self.duplicates]),
            ("covered", [f"{key!r} by {by!r}" for key, by in self.covered]),
            ("never true", list(map(repr, self.never_true))),
            ("always true", list(map(repr, self.always_true))),
            ("unindexable", list(map(repr, self.unindexable))),
            ("served by", [f"{index} ({count:,})" for index, count in self.served_by]),
            ("most expensive", expensive),
            ("expensive predicates", [f"{it.name} {it.calls:,} calls, {it.errors:,} errors" for it in self.opaque]),
        ]
        return [(title, _first(items)) for title, items in lists if items]


def _first(items: list[str]) -> str:
    """Return the length of a list and its first items."""
    more = ", ..." if len(items) > _SHOWN else ""
    return f"{len(items):,}: {', '.join(items[:_SHOWN])}{more}"
