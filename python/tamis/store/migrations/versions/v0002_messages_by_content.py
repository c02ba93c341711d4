"""The second schema: a message is named by its content, too; a delivery keeps what each recipient's server said."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_REBUILT = ("dead_letters", "messages", "outbox", "deliveries")
"""Tables with new keys, parents first; SQLite cannot change the key of a table."""

_NO_DIGEST = "''"  # of messages that an earlier version stored


def upgrade() -> None:
    """Rebuild the tables with their rows; a notification's time is that of its batch's commit from now on."""
    for table in reversed(_REBUILT):  # children first, so that no row ever lacks its parent
        op.execute(f"CREATE TEMPORARY TABLE old_{table} AS SELECT * FROM {table}")  # noqa: S608 - our own names
        op.drop_table(table)
    _dead_letters()
    _messages()
    _outbox()
    _deliveries()
    _copy("dead_letters", ("source", "partition", "offset", "reason", "raw", "created_at"), "digest", _NO_DIGEST)
    _copy("messages", ("source", "partition", "offset", "topic", "properties", "body", "xml"), "digest", _NO_DIGEST)
    notification = ("seq", "notification_id", "query_key", "query_version", "source", "partition", "offset")
    _copy("outbox", (*notification, "stream", "batch_id"), "digest", _NO_DIGEST)
    delivery = ("id", "notification_id", "name", "state", "attempts", "next_attempt_at", "reason", "updated_at")
    _copy("deliveries", delivery, "recipients", "'{}'")
    for table in _REBUILT:
        op.execute(f"DROP TABLE old_{table}")


def _copy(table: str, columns: Iterable[str], added: str, value: str) -> None:
    names = ", ".join(f'"{name}"' for name in columns)
    statement = f"INSERT INTO {table} ({names}, {added}) SELECT {names}, {value} FROM old_{table}"  # noqa: S608 - our own
    op.execute(statement)


def _message_key() -> list[sa.Column[object]]:
    return [
        sa.Column("source", sa.String, primary_key=True),
        sa.Column("partition", sa.String, primary_key=True),
        sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.String, primary_key=True),
    ]


def _dead_letters() -> None:
    op.create_table(
        "dead_letters",
        *_message_key(),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
    )


def _messages() -> None:
    op.create_table(
        "messages",
        *_message_key(),
        sa.Column("topic", sa.String, nullable=False),
        sa.Column("properties", sa.String, nullable=False),
        sa.Column("body", sa.String),
        sa.Column("xml", sa.String),
    )


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("notification_id", sa.String, nullable=False),
        sa.Column("query_key", sa.String, nullable=False),
        sa.Column("query_version", sa.Integer, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("partition", sa.String, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("stream", sa.String, nullable=False),
        sa.Column("batch_id", sa.Integer, nullable=False),
        sa.UniqueConstraint("notification_id", name="outbox_notification_id"),
        sa.ForeignKeyConstraint(["query_key", "query_version"], ["query_versions.key", "query_versions.version"]),
        sa.ForeignKeyConstraint(
            ["source", "partition", "offset", "digest"],
            ["messages.source", "messages.partition", "messages.offset", "messages.digest"],
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
        sa.Column("recipients", sa.JSON, nullable=False),
        sa.UniqueConstraint("notification_id", "name", name="deliveries_once"),
        sa.CheckConstraint("state IN ('pending', 'delivered', 'dead')", name="deliveries_state"),
    )
    op.create_index("deliveries_due", "deliveries", ["state", "name", "next_attempt_at", "id"])
