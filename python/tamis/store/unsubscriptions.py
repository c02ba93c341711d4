"""Stores which addresses have unsubscribed, from one query or from all, and which are confirmed."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import delete, select

from tamis.store.database import Database
from tamis.store.dialect import insert_new
from tamis.store.models import confirmed_addresses, unsubscriptions
from tamis.store.records import Unsubscription

_u = unsubscriptions.c


class Unsubscriptions(Database):
    """The part of the store that keeps what people said about their addresses, which have no case."""

    def unsubscribe(self, address: str, query_key: str = "") -> None:
        """Record that `address` wants no more e-mails of a query; with an empty key, of any."""
        row = {"address": address.lower(), "query_key": query_key, "created_at": datetime.now(UTC)}
        with self._write() as connection:
            connection.execute(insert_new(connection, unsubscriptions), row)

    def resubscribe(self, address: str, query_key: str | None = None) -> int:
        """Forget what `unsubscribe` recorded: of one key, or all of the address; return how many there were."""
        of_key = [] if query_key is None else [_u.query_key == query_key]
        with self._write() as connection:
            return connection.execute(delete(unsubscriptions).where(_u.address == address.lower(), *of_key)).rowcount

    def unsubscribed_keys(self, address: str) -> set[str]:
        """Return the queries of which `address` wants no more e-mails; the empty key stands for all."""
        with self._read() as connection:
            return set(connection.execute(select(_u.query_key).where(_u.address == address.lower())).scalars())

    def confirm_address(self, address: str) -> None:
        """Record that the holder of `address` has confirmed it; again changes nothing."""
        row = {"address": address.lower(), "confirmed_at": datetime.now(UTC)}
        with self._write() as connection:
            connection.execute(insert_new(connection, confirmed_addresses), row)

    def address_confirmed_at(self, address: str) -> datetime | None:
        """Return when the holder of `address` confirmed it, UTC; None if they did not."""
        c = confirmed_addresses.c
        with self._read() as connection:
            statement = select(c.confirmed_at).where(c.address == address.lower())
            return connection.execute(statement).scalar_one_or_none()

    def unsubscriptions(self) -> list[Unsubscription]:
        """Return all unsubscriptions, by address and key."""
        columns = select(_u.address, _u.query_key, _u.created_at).order_by(_u.address, _u.query_key)
        with self._read() as connection:
            return [Unsubscription(*row) for row in connection.execute(columns)]
