"""The first schema: queries, batches, messages, outbox, deliveries, dead letters, adapters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table of an empty store."""
    _queries()
    _batches()
    _outbox()
    _deliveries()
    op.create_table(
        "adapters",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("desired", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("last_error", sa.String),
        sa.Column("read_count", sa.Integer, nullable=False),
        sa.Column("dead_count", sa.Integer, nullable=False),
        sa.Column("last_batch_at", sa.DateTime),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.CheckConstraint("desired IN ('running', 'paused', 'stopped')", name="adapters_desired"),
    )


def _queries() -> None:
    op.create_table(
        "revisions",
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "query_versions",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("text", sa.String, nullable=False),
        sa.Column("language", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("deliveries", sa.JSON, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("from_revision", sa.Integer, sa.ForeignKey("revisions.revision"), nullable=False),
        sa.Column("to_revision", sa.Integer, sa.ForeignKey("revisions.revision")),
    )
    op.create_index("query_versions_place", "query_versions", ["place"])
    op.create_index(
        "query_versions_current", "query_versions", ["key"], unique=True, sqlite_where=sa.text("to_revision IS NULL")
    )


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("stream", sa.String, primary_key=True),
        sa.Column("batch_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("read_count", sa.Integer, nullable=False),
        sa.Column("matched_count", sa.Integer, nullable=False),
        sa.Column("notification_count", sa.Integer, nullable=False),
        sa.Column("dead_count", sa.Integer, nullable=False),
        sa.Column("pinned_at", sa.DateTime, nullable=False),
        sa.Column("committed_at", sa.DateTime),
    )
    op.create_table(
        "dead_letters",
        sa.Column("source", sa.String, primary_key=True),
        sa.Column("partition", sa.String, primary_key=True),
        sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
    )


def _outbox() -> None:
    op.create_table(
        "messages",
        sa.Column("source", sa.String, primary_key=True),
        sa.Column("partition", sa.String, primary_key=True),
        sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("topic", sa.String, nullable=False),
        sa.Column("properties", sa.String, nullable=False),
        sa.Column("body", sa.String),
        sa.Column("xml", sa.String),
    )
    op.create_table(
        "outbox",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("notification_id", sa.String, nullable=False),
        sa.Column("query_key", sa.String, nullable=False),
        sa.Column("query_version", sa.Integer, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("partition", sa.String, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("stream", sa.String, nullable=False),
        sa.Column("batch_id", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("notification_id", name="outbox_notification_id"),
        sa.ForeignKeyConstraint(["query_key", "query_version"], ["query_versions.key", "query_versions.version"]),
        sa.ForeignKeyConstraint(
            ["source", "partition", "offset"], ["messages.source", "messages.partition", "messages.offset"]
        ),
        sa.ForeignKeyConstraint(["stream", "batch_id"], ["batches.stream", "batches.batch_id"]),
    )
    op.create_index("outbox_query_key", "outbox", ["query_key", "seq"])


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("notification_id", sa.String, sa.ForeignKey("outbox.notification_id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_attempt_at", sa.DateTime, nullable=False),
        sa.Column("reason", sa.String),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("notification_id", "name", name="deliveries_once"),
        sa.CheckConstraint("state IN ('pending', 'delivered', 'dead')", name="deliveries_state"),
    )
    op.create_index("deliveries_due", "deliveries", ["state", "name", "next_attempt_at", "id"])
    op.create_table(
        "delivery_files",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("path", sa.String, primary_key=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
    )
