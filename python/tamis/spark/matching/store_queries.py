"""Follows the queries of a store from revision to revision, by reading what changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tamis.query.hierarchy import Parents
from tamis.store import QueryRecord

Name = tuple[str, int]
"""The key and version of a query."""


class QuerySource(Protocol):
    """The part of the store that queries are read from, with the hierarchies that they follow."""

    def queries_at(self, revision: int) -> Sequence[QueryRecord]:
        """Return the queries valid at `revision`, in the order in which they were added."""

    def each_query_at(self, revision: int) -> Iterator[QueryRecord]:
        """Yield those of `queries_at`, which are not in memory at once."""

    def queries_of(self, keys: Collection[str], revision: int) -> Sequence[QueryRecord]:
        """Return those of `queries_at` that have one of the given keys."""

    def changed_keys(self, revision: int, other: int) -> Collection[str]:
        """Return the keys of all queries that differ between two revisions, and perhaps of others."""

    def hierarchies_at(self, revision: int) -> Mapping[str, Parents]:
        """Return attribute -> hierarchy, of those valid at `revision`."""


class Difference(NamedTuple):
    """The way to the queries of a revision: what goes, then what comes; and the hierarchies that are replaced."""

    revision: int
    removed: Sequence[Name]
    added: Sequence[QueryRecord]
    hierarchies: Mapping[str, Parents]

    def __bool__(self) -> bool:
        """Return whether there is any difference."""
        return bool(self.removed or self.added or self.hierarchies)


class StoreQueries:
    """The queries of a source at one revision; at first there are none."""

    def __init__(self, source: QuerySource) -> None:
        self._source = source
        self._revision: int | None = None
        self._versions: dict[str, int] = {}
        self._hierarchies: dict[str, Parents] = {}

    def read_all(self, revision: int) -> tuple[Iterator[QueryRecord], Mapping[str, Parents]]:
        """Return all queries of a revision, one after another, and its hierarchies; and go there at the end of them."""
        hierarchies = self._source.hierarchies_at(revision)
        return self._each(revision, dict(hierarchies)), hierarchies

    def _each(self, revision: int, hierarchies: dict[str, Parents]) -> Iterator[QueryRecord]:
        versions = {}
        for record in self._source.each_query_at(revision):
            versions[record.key] = record.version
            yield record
        self._revision, self._versions, self._hierarchies = revision, versions, hierarchies

    def difference(self, revision: int) -> Difference:
        """Return the way to the queries of a revision, which may be an earlier one.

        Cost: linear in what changed between the two.
        """
        keys, records = self._read(revision)
        added = [it for it in records.values() if self._versions.get(it.key) != it.version]
        changed = {it.key for it in added}
        known = ((key, self._versions[key]) for key in keys if key in self._versions)
        removed = [(key, version) for key, version in known if key in changed or key not in records]
        hierarchies = self._source.hierarchies_at(revision)
        moved = {name: tree for name, tree in hierarchies.items() if self._hierarchies.get(name) != tree}
        return Difference(revision, removed, added, moved)

    def go(self, difference: Difference) -> None:
        """Go to the revision that `difference` leads to."""
        for key, _ in difference.removed:
            del self._versions[key]
        self._versions.update((it.key, it.version) for it in difference.added)
        self._hierarchies.update(difference.hierarchies)
        self._revision = difference.revision

    def _read(self, revision: int) -> tuple[Sequence[str], dict[str, QueryRecord]]:
        """Return the keys of the queries that may change, and those of them that match at a revision."""
        if self._revision is None:
            records = {record.key: record for record in self._source.queries_at(revision)}
            return list(records), records
        keys = sorted(self._source.changed_keys(self._revision, revision))
        return keys, {record.key: record for record in self._source.queries_of(keys, revision)}
