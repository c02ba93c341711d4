"""Names the notifications of a message inside Spark's Python workers, as the store does."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import pyarrow as pa

from tamis.spark.matching.worker import AnyState, engine_in

COUNTED = pa.schema([("kind", pa.string()), ("key", pa.string()), ("count", pa.int64())])
"""The result of a task: the number of messages that ``matched`` or are ``dead``, and of matches of each ``query``."""


class NamedQuery:
    """A version of a query, and how the names of its notifications begin."""

    __slots__ = ("_named", "key", "version")

    def __init__(self, key: str, version: int) -> None:
        self.key, self.version = key, version
        self._named = json.dumps([key, version], separators=(",", ":"))[:-1] + ","

    def id_of(self, message: str) -> str:
        """Return the id of the notification about a message that `named` names, as `tamis.store.notification_id`."""
        return hashlib.sha256((self._named + message).encode()).hexdigest()[:32]


Q = TypeVar("Q", bound=NamedQuery)


class NamedQueries(Generic[Q]):
    """The queries of a snapshot by their subscription ids, each asked for once.

    Args:
        state: the state of the engine here.
        kind: a function that makes a query from its key and version.
    """

    def __init__(self, state: AnyState, kind: type[Q]) -> None:
        self._engine, self._kind = engine_in(state), kind
        self._known: dict[int, Q] = {}

    def of(self, ids: Sequence[int]) -> list[Q]:
        """Return the queries of some subscriptions, in their order."""
        known = self._known
        if new := [one for one in ids if one not in known]:
            for one, (key, version) in zip(new, self._engine.keys(new), strict=True):
                known[one] = self._kind(key, version)
        return [known[one] for one in ids]

    def by_key(self, counts: Counter[int]) -> Counter[str]:
        """Return counts of subscriptions as counts of keys."""
        found: Counter[str] = Counter()
        for one, count in counts.items():
            found[self._known[one].key] += count
        return found


def named(row: dict[str, Any], source: str) -> str:
    """Return the end of the names of a message's notifications: its identity if it has one, else its place."""
    place = (source, row["partition"], row["offset"], row["digest"])
    return json.dumps(place if row["identity"] is None else (row["identity"],), separators=(",", ":"))[1:]


def counted(matched: int, dead: int, by_key: Counter[str]) -> pa.RecordBatch:
    """Return the counts of a task, as `COUNTED`."""
    kinds = ["matched", "dead", *("query" for _ in by_key)]
    counts = [matched, dead, *by_key.values()]
    columns = [pa.array(kinds), pa.array([None, None, *by_key], pa.string()), pa.array(counts, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=COUNTED)


def summed(rows: Iterable[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Return the counts of all tasks: by kind, and by key of a query."""
    totals, by_query = Counter[str](), Counter[str]()
    for row in rows:
        if row["kind"] == "query":
            by_query[row["key"]] += row["count"]
        else:
            totals[row["kind"]] += row["count"]
    return totals, by_query
