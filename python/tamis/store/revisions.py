"""Numbers the changes of queries and hierarchies, and separates changes by hand from those by files."""

from __future__ import annotations

import functools
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, func, insert, select

from tamis.errors import NotAllowedError, StoreError
from tamis.store.models import query_versions, revisions


class Revision:
    """The next revision, within one transaction: it gets its number at the first change.

    Attributes:
        connection: the connection of the transaction.
        now: the time of its changes, UTC.
        applied: all files that are being applied.
        origin: the file that is being applied; None for a change by hand.
        acting: the owner who makes the change, and may only touch queries of their own; None: the administrator.
    """

    def __init__(self, connection: Connection, applied: Collection[str] = (), acting: str | None = None) -> None:
        self.connection = connection
        self.now = datetime.now(UTC)
        self.applied = applied
        self.origin: str | None = None
        self.acting = acting

    @functools.cached_property
    def number(self) -> int:
        """The number; asking for it makes the revision."""
        result = self.connection.execute(insert(revisions).values(created_at=self.now))
        assert result.inserted_primary_key is not None  # noqa: S101 - databases always tell; for the type checker
        return int(result.inserted_primary_key[0])

    def refuse_others(self, what: str, origin: str | None) -> None:
        """Refuse to change what belongs to a file, unless that file is being applied or no longer exists.

        Args:
            what: what is changed, such as ``query 'frost'``.
            origin: the file that it belongs to.

        Raises:
            StoreError: the text names the file.
        """
        if origin is None or origin in self.applied or not Path(origin).exists():
            return
        then = f"remove it there, and apply that file: `tamis query apply {origin}`"
        if self.origin is None:
            then = "change it there: the next `tamis run` applies it, and so does `tamis query apply`"
        raise StoreError(f"{what} belongs to the file {origin}; {then}")

    def refuse_strangers(self, key: str, owner: str) -> None:
        """Refuse an owner who would change, or make, the query of another.

        Raises:
            NotAllowedError: the text says whose the query is.
        """
        if self.acting is not None and owner != self.acting:
            whose = f"is {owner}'s" if owner else "has no owner"
            raise NotAllowedError(f"query '{key}' {whose}; {self.acting} may only change queries of their own")


def current_revision(connection: Connection) -> int:
    """Return the newest revision that this transaction sees."""
    return int(connection.execute(select(func.coalesce(func.max(revisions.c.revision), 0))).scalar_one())


def has_expired(connection: Connection) -> bool:
    """Return whether a query has expired since the newest revision was made."""
    q = query_versions.c
    newest = select(revisions.c.created_at).order_by(revisions.c.revision.desc()).limit(1).scalar_subquery()
    expired = select(q.key).where(q.to_revision.is_(None), q.expires_at > newest, q.expires_at <= datetime.now(UTC))
    return connection.execute(expired.limit(1)).first() is not None


def revision_now(connection: Connection) -> int:
    """Return the revision whose queries match now: the newest, or a new one if a query has expired since."""
    return Revision(connection).number if has_expired(connection) else current_revision(connection)
