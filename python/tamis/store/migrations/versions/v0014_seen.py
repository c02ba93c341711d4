"""The fourteenth schema: which messages were read, and which batches have their rows in Delta tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table and the column."""
    op.create_table(
        "seen",
        sa.Column("seq", _NUMBER, primary_key=True),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("batch_id", _NUMBER, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("partition", sa.String, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("message_id", sa.String),
        sa.Column("matches", sa.Integer, nullable=False),
    )
    op.add_column("batches", sa.Column("tables", sa.String))
