"""Makes the store agree with files of queries, and says what that changes or would change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from tamis.store.hierarchies import (
    Hierarchies,
    end_hierarchies,
    put_hierarchies,
    refuse_under_without_hierarchy,
    valid_hierarchies,
)
from tamis.store.queries import Queries, content_of, end_queries, origins_of_queries, put_queries, queries_of_file
from tamis.store.records import Change, FileChanges, HierarchyRecord, QueryRecord
from tamis.store.revisions import Revision

if TYPE_CHECKING:
    from tamis.query import HierarchySpec, QueryFile, QuerySpec


class Files(Queries, Hierarchies):
    """The part of the store that applies files."""

    def apply_files(
        self, files: Iterable[QueryFile], *, folder: Path | None = None, dry_run: bool = False
    ) -> FileChanges:
        """Make the store agree with files, in one transaction and one revision.

        Queries and hierarchies of a file are added or changed, and belong to that file from then on. Those that it
        had before and has no longer are removed. Those added by hand or of other files do not change.

        Args:
            files: the files, which must not hold the same query or hierarchy.
            folder: `files` are all files of this folder; queries of other files below it are removed.
            dry_run: return what would change, and change nothing.

        Raises:
            ConfigError: a query cannot be read, or uses UNDER without a hierarchy; nothing was changed.
            StoreError: a query or hierarchy belongs to another file.

        Cost: about 20 µs per query, and its compilation.
        """
        from tamis.query import compile_in_file

        files = list(files)
        for file in files:
            for spec in file.queries:
                compile_in_file(file.path, spec)
        with self._write() as connection:
            gone = _gone(connection, files, folder.resolve()) if folder else []
            changes = _apply(connection, [*files, *gone])
            if dry_run:
                connection.rollback()
        return changes


def origin_of(file: QueryFile) -> str:
    """Return the store's name of a file."""
    return str(file.path.resolve())


def _gone(connection: Connection, files: Sequence[QueryFile], folder: Path) -> list[QueryFile]:
    """Return, as empty files, the files below a folder that the store knows and that are not among `files`."""
    from tamis.query import QueryFile

    valid = valid_hierarchies(connection).values()
    origins = {*origins_of_queries(connection), *(record.origin for record in valid if record.origin)}
    below = {origin for origin in origins if Path(origin).is_relative_to(folder)}
    return [QueryFile(Path(origin)) for origin in sorted(below - {origin_of(file) for file in files})]


def _apply(connection: Connection, files: Sequence[QueryFile]) -> FileChanges:
    revision = Revision(connection, [origin_of(file) for file in files])
    changes: list[Change] = []
    for file in files:
        revision.origin = origin_of(file)
        changes += [_of_hierarchy(before, spec) for before, spec in put_hierarchies(revision, file.hierarchies)]
        changes += [_of_query(before, spec) for before, spec in put_queries(revision, file.queries)]
    unchanged = sum(len(file.hierarchies) + len(file.queries) for file in files) - len(changes)
    for file in files:
        changes += _end_what_left(revision, file)
    if changes:
        refuse_under_without_hierarchy(connection)
    return FileChanges(tuple(changes), unchanged)


def _end_what_left(revision: Revision, file: QueryFile) -> list[Change]:
    """End what stood in a file and no longer does."""
    keys, attributes = {spec.key for spec in file.queries}, {spec.attribute for spec in file.hierarchies}
    of_file, valid = origin_of(file), valid_hierarchies(revision.connection).values()
    queries = [record for record in queries_of_file(revision.connection, of_file) if record.key not in keys]
    hierarchies = [record for record in valid if record.origin == of_file and record.attribute not in attributes]
    end_queries(revision, [record.key for record in queries])
    end_hierarchies(revision, [record.attribute for record in hierarchies])
    return [
        *(Change("query", record.key, "removed", content_of(record), None) for record in queries),
        *(Change("hierarchy", it.attribute, "removed", {"parents": it.parents}, None) for it in hierarchies),
    ]


def _of_query(before: QueryRecord | None, spec: QuerySpec) -> Change:
    after = content_of(spec)
    if before is None:
        return Change("query", spec.key, "added", None, after)
    old = content_of(before)
    differs = [name for name in after if old[name] != after[name]]
    return Change("query", spec.key, "changed", *({name: it[name] for name in differs} for it in (old, after)))


def _of_hierarchy(before: HierarchyRecord | None, spec: HierarchySpec) -> Change:
    after = {"parents": spec.parents}
    if before is None:
        return Change("hierarchy", spec.attribute, "added", None, after)
    return Change("hierarchy", spec.attribute, "changed", {"parents": before.parents}, after)
