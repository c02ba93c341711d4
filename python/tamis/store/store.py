"""Combines the parts of the store into one object over one database."""

from __future__ import annotations

import os
from typing import Self

from tamis.errors import StoreError
from tamis.store.adapters import Adapters
from tamis.store.digests import Digests
from tamis.store.files import Files
from tamis.store.leases import Leases
from tamis.store.outbox import Outbox
from tamis.store.records import HierarchyRecord, QueryRecord
from tamis.store.retention import Retention
from tamis.store.seen import SeenMessages
from tamis.store.sqlite_file import check_path
from tamis.store.staging import StagedBatches
from tamis.store.steps import Steps
from tamis.store.summaries import Summaries
from tamis.store.traces import Traces
from tamis.store.unsubscriptions import Unsubscriptions
from tamis.store_place import Place, ServerUrl, place_of


class Store(
    Files,
    StagedBatches,
    Outbox,
    Steps,
    Adapters,
    Leases,
    Summaries,
    SeenMessages,
    Traces,
    Retention,
    Digests,
    Unsubscriptions,
):
    """Queries, hierarchies, batches, outbox, deliveries and adapters, in one SQLite file or one PostgreSQL database.

    Thread-safe, and safe to use from several processes at once: a query may be added while the pipeline runs. Every
    method is one transaction, which is on disk when it returns. Each may raise ``StoreError`` (a full disk, a file that
    cannot be written); then nothing was changed. Use it as a context manager, or call `close`.
    """

    @classmethod
    def open(cls, path_or_url: str | Place, create: bool = True) -> Self:
        """Open a store, bringing one of an older version up to date.

        Args:
            path_or_url: a path, ``sqlite:///path``, or ``postgresql://user@host:port/database``.
            create: create the file, or the tables, if they are absent.

        Raises:
            StoreError: the file or folder does not exist, is not a store, has a newer version, or cannot be written.
        """
        return cls(place_of(path_or_url), create=create)

    @classmethod
    def peek(cls, path_or_url: str | Place) -> tuple[list[QueryRecord], list[HierarchyRecord]]:
        """Return the valid queries and hierarchies of a store that may be absent, for a check that must change nothing.

        Returns:
            Empty lists if there is no store yet, or one of an older version, which `open` would bring up to date.

        Raises:
            StoreError: `open` would raise it.
        """
        path = place_of(path_or_url)
        if not isinstance(path, ServerUrl):
            check_path(path, create=True)
            if not path.exists() or path.stat().st_size == 0:
                return [], []
            if not os.access(path, os.W_OK):
                raise StoreError(f"{path}: the store cannot be written; change its permissions, or give another path")
        with cls(path, migrate=False) as store:
            return (store.list_queries(), store.list_hierarchies()) if store.is_current() else ([], [])
