"""Takes the results of batches that many machines wrote into staging tables of a PostgreSQL server.

Each batch has tables of its own, which nobody else reads. One transaction moves their rows to where they count, with
the record that the batch is done. What a crash leaves of them is dropped when the next pipeline starts."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, table, text

from tamis.errors import StoreLostError
from tamis.store.batches import Batches, counts_if_done, record_done
from tamis.store.records import BatchCounts
from tamis.store.seen import forget_beyond

_PLACE = 'partition text, "offset" bigint, digest text'
MESSAGES = f"message bigint, {_PLACE}, topic text, properties text, body text, xml text"
NOTIFICATIONS = "message bigint, place integer, notification_id text, query_key text, query_version integer"
DEAD_LETTERS = f"{_PLACE}, reason text, raw bytea"
SEEN = f"{_PLACE}, message_id text, matches integer"
"""The columns of the staging tables. `message` numbers the messages of a batch, `place` the matches of a message."""


@dataclass(frozen=True)
class Staging:
    """The names of the tables of one try to write a batch."""

    messages: str
    notifications: str
    dead_letters: str
    seen: str

    @classmethod
    def named(cls, token: str) -> Staging:
        """Return the tables of a token, which no other try has."""
        return cls(*(f"staging_{token}_{kind}" for kind in ("messages", "notifications", "dead_letters", "seen")))

    def tables(self) -> dict[str, str]:
        """Return name -> columns of each table."""
        return {
            self.messages: MESSAGES,
            self.notifications: NOTIFICATIONS,
            self.dead_letters: DEAD_LETTERS,
            self.seen: SEEN,
        }


class StagedBatches(Batches):
    """The part of a store on a server that takes staged batches."""

    def conninfo(self) -> str:
        """Return how another process reaches the server; with the password, wherever it came from."""
        from psycopg.conninfo import make_conninfo

        with self._explained(), self._engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None  # noqa: S101 - an open connection has one; for the type checker
            parameters = driver.info.get_parameters() | {"password": driver.info.password or None}
        return make_conninfo(**parameters)

    def begin_staging(self) -> Staging:
        """Make empty staging tables. They are not logged: a crash of the server empties them."""
        staging = Staging.named(secrets.token_hex(8))
        with self._explained(), self._engine.begin() as connection:
            for name, columns in staging.tables().items():
                connection.exec_driver_sql(f"CREATE UNLOGGED TABLE {name} ({columns})")
        return staging

    def commit_staged(
        self,
        stream: str,
        batch_id: int,
        staging: Staging,
        source: str,
        staged: BatchCounts,
        default_deliveries: Sequence[str] = (),
        seen_kept: int = 0,
    ) -> BatchCounts:
        """Move the rows of a batch into the store's tables, and record that it is done, in one transaction.

        A row that was staged twice, by a task that Spark tried again, counts once. Nothing changes if the batch was
        done before.
        A notification, message or dead letter that exists is not added again.

        Args:
            stream: see `commit_batch`.
            batch_id: the number of the batch.
            staging: the tables with its rows.
            source: the adapter's name.
            staged: the counts of messages read, and of rows that the tasks have put into the tables.
            default_deliveries: the deliveries of queries that name none.
            seen_kept: the number of notes of messages read that the store keeps; 0: the tasks have written none.

        Raises:
            KeyError: the batch was never pinned.
            StoreLostError: the server was lost, or has lost staged rows; the batch may be written again.
            StoreError: the server cannot be reached, or cannot write; nothing of the batch counts.
        """
        with self._turn:
            known = self._move(stream, batch_id, staging, source, staged, default_deliveries, seen_kept)
        self.fan_out()
        return known

    def drop_staging(self, staging: Staging | None = None) -> None:
        """Drop the tables of one try; without it those of all, when no batch is being written."""
        with self._explained(), self._engine.begin() as connection:
            for name in staging.tables() if staging else _staging_tables(connection):
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")

    def _move(
        self,
        stream: str,
        batch_id: int,
        staging: Staging,
        source: str,
        staged: BatchCounts,
        default_deliveries: Sequence[str],
        seen_kept: int,
    ) -> BatchCounts:
        with self._explained(), self._engine.begin() as connection:
            self._lock_rows(connection)  # a separate lock: adding a query does not wait for a large batch
            known = counts_if_done(connection, stream, batch_id)
            if known is not None:
                return known
            self._refuse_fewer(connection, staging, staged, seen_kept)
            for name in (staging.messages, staging.notifications):
                connection.exec_driver_sql(f"ANALYZE {name}")
            named = {"source": source, "stream": stream, "batch_id": batch_id}
            connection.execute(text(_MOVE_MESSAGES.format(**vars(staging))), named)
            written = connection.execute(text(_MOVE_NOTIFICATIONS.format(**vars(staging))), named).rowcount
            dead = connection.execute(text(_MOVE_DEAD_LETTERS.format(**vars(staging))), named).rowcount
            if seen_kept:
                connection.execute(text(_MOVE_SEEN.format(**vars(staging))), named)
                forget_beyond(connection, seen_kept)
            moved = BatchCounts(staged.read, staged.matched, written, dead)
            self._record(connection, stream, batch_id, moved, default_deliveries)
            return moved

    def _refuse_fewer(self, connection: Connection, staging: Staging, staged: BatchCounts, seen_kept: int) -> None:
        """Refuse tables that a crash of the server has emptied. They may have more: a task that was tried again."""
        seen = staged.read - staged.dead if seen_kept else 0
        wanted = (staged.matched, staged.notifications, staged.dead, seen)
        for name, count in zip(staging.tables(), wanted, strict=True):
            found = connection.execute(select(func.count()).select_from(table(name))).scalar_one()
            if found < count:
                raise StoreLostError(
                    f"{self.path}: the server restarted and lost {count - found:,} of {count:,} rows of the batch that "
                    "was being written"
                )

    def _record(
        self, connection: Connection, stream: str, batch_id: int, counts: BatchCounts, defaults: Sequence[str]
    ) -> None:
        record_done(connection, stream, batch_id, counts, defaults)


def _staging_tables(connection: Connection) -> list[str]:
    like = r"SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'staging\_%%'"
    return list(connection.exec_driver_sql(like).scalars())


_MOVE_MESSAGES = """
INSERT INTO messages (source, partition, "offset", digest, topic, properties, body, xml)
SELECT :source, partition, "offset", digest, topic, properties, body, xml FROM {messages} ORDER BY message
ON CONFLICT DO NOTHING
"""
_MOVE_NOTIFICATIONS = """
INSERT INTO outbox
    (notification_id, query_key, query_version, source, partition, "offset", digest, stream, batch_id)
SELECT n.notification_id, n.query_key, n.query_version, :source, m.partition, m."offset", m.digest, :stream, :batch_id
FROM {notifications} n JOIN {messages} m ON m.message = n.message
WHERE NOT EXISTS (SELECT FROM pruned_notifications p WHERE p.notification_id = n.notification_id)
ORDER BY n.message, n.place
ON CONFLICT (notification_id) DO NOTHING
"""
_MOVE_DEAD_LETTERS = """
INSERT INTO dead_letters (source, partition, "offset", digest, reason, raw, created_at)
SELECT :source, partition, "offset", digest, reason, raw, clock_timestamp() AT TIME ZONE 'UTC' FROM {dead_letters}
ON CONFLICT DO NOTHING
"""
_MOVE_SEEN = """
INSERT INTO seen (at, batch_id, source, partition, "offset", digest, message_id, matches)
SELECT DISTINCT ON (partition, "offset", digest) statement_timestamp() AT TIME ZONE 'UTC', :batch_id, :source,
    partition, "offset", digest, message_id, matches
FROM {seen} ORDER BY partition, "offset", digest
"""
