"""The ninth schema: addresses that have unsubscribed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "unsubscriptions",
        sa.Column("address", sa.String, primary_key=True),
        sa.Column("query_key", sa.String, primary_key=True),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sqlite_with_rowid=False,
    )
