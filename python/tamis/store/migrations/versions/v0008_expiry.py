"""The eighth schema: queries that are paused, or expire."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add both; of the queries that are there, none is paused and none expires."""
    op.add_column("query_versions", sa.Column("paused", sa.Boolean, nullable=False, server_default="0"))
    op.add_column("query_versions", sa.Column("expires_at", sa.DateTime))
    op.create_index(
        "query_versions_expiring",
        "query_versions",
        ["expires_at", "key"],
        sqlite_where=sa.text("expires_at IS NOT NULL"),
    )
