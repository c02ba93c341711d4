"""Defines the tables of the store.

Migrations create them (``migrations/``); a test checks that both agree. Queries are temporal: a row of
``query_versions`` is valid from one revision until another and what it asks does not change, so that a batch that is
replayed after a crash sees the same queries as the first time. Hierarchies are kept in the same way."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
)

from tamis.store.dialect import add_to_schema

SCHEMA_VERSION = 14
"""The version of the newest migration; stores of a later one are refused."""

metadata = MetaData()


Number = BigInteger().with_variant(Integer(), "sqlite")
"""A number that may grow beyond 2^31; SQLite has only one kind, and numbers rows by it."""


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time: aware and in UTC in Python, without a time zone in the database."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert an aware time to naive UTC."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert naive UTC to an aware time."""
        return None if value is None else value.replace(tzinfo=UTC)


class Text(TypeDecorator[str]):
    """Text of a message, or of somebody's answer.

    No database keeps half of a surrogate pair, and PostgreSQL no NUL character: they become U+FFFD.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what the database cannot keep."""
        if value and dialect.name == "postgresql":
            value = value.replace("\0", "\ufffd")
        return _SURROGATE.sub("\ufffd", value) if value and not value.isascii() else value


revisions = Table(
    "revisions",  # one row for each change of queries or hierarchies
    metadata,
    Column("revision", Integer, primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    sqlite_autoincrement=True,
)

query_versions = Table(
    "query_versions",
    metadata,
    Column("key", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("place", Integer, key="position", nullable=False),  # order of first adding; a replaced query keeps it
    Column("text", String, nullable=False),
    Column("language", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("deliveries", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("from_revision", Integer, ForeignKey("revisions.revision"), nullable=False),
    Column("to_revision", Integer, ForeignKey("revisions.revision")),  # the first revision without it; null: valid
    Column("origin", String),  # the file that it belongs to; null: added by hand
    Column("paused", Boolean, nullable=False, server_default="0"),
    Column("expires_at", UtcDateTime),  # revisions made from this time on do not contain it; null: it does not expire
    Index("query_versions_place", "position"),
    Index("query_versions_from", "from_revision"),
)
Index(
    "query_versions_to",
    query_versions.c.to_revision,
    sqlite_where=query_versions.c.to_revision.is_not(None),
    postgresql_where=query_versions.c.to_revision.is_not(None),
)
Index(
    "query_versions_expiring",
    query_versions.c.expires_at,
    query_versions.c.key,
    sqlite_where=query_versions.c.expires_at.is_not(None),
    postgresql_where=query_versions.c.expires_at.is_not(None),
)
Index(
    "query_versions_current",
    query_versions.c.key,
    unique=True,
    sqlite_where=query_versions.c.to_revision.is_(None),
    postgresql_where=query_versions.c.to_revision.is_(None),
)

hierarchy_versions = Table(
    "hierarchy_versions",
    metadata,
    Column("attribute", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("parents", JSON, nullable=False),  # value -> its parent, or null for a root
    Column("created_at", UtcDateTime, nullable=False),
    Column("from_revision", Integer, ForeignKey("revisions.revision"), nullable=False),
    Column("to_revision", Integer, ForeignKey("revisions.revision")),  # see query_versions
    Column("origin", String),  # see query_versions
)
Index(
    "hierarchy_versions_current",
    hierarchy_versions.c.attribute,
    unique=True,
    sqlite_where=hierarchy_versions.c.to_revision.is_(None),
    postgresql_where=hierarchy_versions.c.to_revision.is_(None),
)

batches = Table(
    "batches",
    metadata,
    Column("stream", String, primary_key=True),
    Column("batch_id", Number, primary_key=True, autoincrement=False),
    Column("revision", Integer, nullable=False),  # of the queries it matches with; 0 before the first query
    Column("done", Integer, nullable=False),
    Column("read_count", Integer, nullable=False),
    Column("matched_count", Integer, nullable=False),
    Column("notification_count", Integer, nullable=False),
    Column("dead_count", Integer, nullable=False),
    Column("pinned_at", UtcDateTime, nullable=False),
    Column("committed_at", UtcDateTime),
    Column("contested", Integer, nullable=False, server_default="0"),  # another batch took rows of this unfinished one
    Column("fanned_out_seq", Number),  # the last one fanned out; null: all were, or the batch is not done
    Column("default_deliveries", JSON),  # for the fan-out
    Column("tables", String),  # the folder of the Delta tables with its rows; null: they are in the store
)
Index(
    "batches_to_fan_out",
    batches.c.stream,
    batches.c.batch_id,
    sqlite_where=batches.c.fanned_out_seq.is_not(None),
    postgresql_where=batches.c.fanned_out_seq.is_not(None),
)

messages = Table(
    "messages",
    metadata,
    Column("source", String, primary_key=True),
    Column("partition", Text, primary_key=True),
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", String, primary_key=True),  # another message at the place of an earlier one has another digest
    Column("topic", Text, nullable=False),
    Column("properties", Text, nullable=False),
    Column("body", Text),
    Column("xml", Text),
)

seen = Table(
    "seen",  # the messages read last, each time that one was read; without an index, so that adding one is cheap
    metadata,
    Column("seq", Number, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("batch_id", Number, nullable=False),
    Column("source", String, nullable=False),
    Column("partition", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("digest", String, nullable=False),
    Column("message_id", Text),
    Column("matches", Integer, nullable=False),  # the number of queries that it matched
)

outbox = Table(
    "outbox",
    metadata,
    Column("seq", Number, primary_key=True),
    Column("notification_id", String, nullable=False),
    Column("query_key", String, nullable=False),
    Column("query_version", Integer, nullable=False),
    Column("source", String, nullable=False),
    Column("partition", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("digest", String, nullable=False),
    Column("stream", String, nullable=False),
    Column("batch_id", Number, nullable=False),  # the notification is as old as its batch's commit
    UniqueConstraint("notification_id", name="outbox_notification_id"),
    ForeignKeyConstraint(["query_key", "query_version"], ["query_versions.key", "query_versions.version"]),
    ForeignKeyConstraint(
        ["source", "partition", "offset", "digest"],
        ["messages.source", "messages.partition", "messages.offset", "messages.digest"],
    ),
    ForeignKeyConstraint(["stream", "batch_id"], ["batches.stream", "batches.batch_id"]),
    Index("outbox_query_key", "query_key", "seq"),
    Index("outbox_batch", "stream", "batch_id"),
    Index("outbox_message", "source", "partition", "offset", "digest"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Number, primary_key=True),
    Column("notification_id", String, ForeignKey("outbox.notification_id"), nullable=False),
    Column("name", String, nullable=False),
    Column("state", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", UtcDateTime, nullable=False),
    Column("reason", Text),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("recipients", JSON, nullable=False),  # recipient -> null, or why it was refused; the others wait
    Column("digest", String),  # null: not yet decided; empty: it goes alone; else what names its digest
    UniqueConstraint("notification_id", "name", name="deliveries_once"),
    CheckConstraint("state IN ('pending', 'delivered', 'dead')", name="deliveries_state"),
    Index("deliveries_due", "state", "name", "next_attempt_at", "id"),  # also for counts of states
)

delivery_steps = Table(
    "delivery_steps",  # the log: each decision about a delivery, its time and its reason
    metadata,
    Column("id", Number, primary_key=True),
    Column("delivery_id", Number, ForeignKey("deliveries.id"), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("step", String, nullable=False),
    Column("reason", Text),
    Index("delivery_steps_of", "delivery_id", "id"),
)

pruned_notifications = Table(
    "pruned_notifications",  # ids of pruned notifications, which must not be made again
    metadata,
    Column("notification_id", String, primary_key=True),
    sqlite_with_rowid=False,
)

unsubscriptions = Table(
    "unsubscriptions",  # who wants no more e-mails
    metadata,
    Column("address", String, primary_key=True),  # in lower case
    Column("query_key", String, primary_key=True),  # empty: of all queries
    Column("created_at", UtcDateTime, nullable=False),
    sqlite_with_rowid=False,
)

confirmed_addresses = Table(
    "confirmed_addresses",  # addresses whose holder has confirmed them
    metadata,
    Column("address", String, primary_key=True),  # in lower case
    Column("confirmed_at", UtcDateTime, nullable=False),
    sqlite_with_rowid=False,
)

delivery_files = Table(
    "delivery_files",  # the delivered size of an appended file; bytes beyond it are cut off
    metadata,
    Column("name", String, primary_key=True),
    Column("path", String, primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("source", String, primary_key=True),
    Column("partition", Text, primary_key=True),
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", String, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
)

adapters = Table(
    "adapters",
    metadata,
    Column("name", String, primary_key=True),
    Column("desired", String, nullable=False),
    Column("status", String, nullable=False),
    Column("last_error", Text),
    Column("read_count", Number, nullable=False),
    Column("dead_count", Number, nullable=False),
    Column("last_batch_at", UtcDateTime),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("polled_at", UtcDateTime),
    Column("next_poll_at", UtcDateTime),
    CheckConstraint("desired IN ('running', 'paused', 'stopped')", name="adapters_desired"),
)

adapter_errors = Table(
    "adapter_errors",  # the last errors of each adapter
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", String, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("error", Text, nullable=False),
    Index("adapter_errors_of", "name", "id"),
)

leases = Table(
    "leases",  # who runs a pipeline over the store: one row, renewed while it runs
    metadata,
    Column("name", String, primary_key=True),
    Column("token", String, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("host", String, nullable=False),
    Column("config", String, nullable=False),
    Column("taken_at", UtcDateTime, nullable=False),
    Column("renewed_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
)

add_to_schema(metadata, (messages, dead_letters))
