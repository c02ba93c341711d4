"""The third schema: hierarchies, the file that a query stands in, and who runs a pipeline over the store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the tables and columns; every query on record counts as added by hand until its file is applied."""
    op.add_column("query_versions", sa.Column("origin", sa.String))
    op.add_column("adapters", sa.Column("polled_at", sa.DateTime))
    op.add_column("adapters", sa.Column("next_poll_at", sa.DateTime))
    op.create_table(
        "hierarchy_versions",
        sa.Column("attribute", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("parents", sa.JSON, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("from_revision", sa.Integer, sa.ForeignKey("revisions.revision"), nullable=False),
        sa.Column("to_revision", sa.Integer, sa.ForeignKey("revisions.revision")),
        sa.Column("origin", sa.String),
    )
    valid = sa.text("to_revision IS NULL")
    op.create_index("hierarchy_versions_current", "hierarchy_versions", ["attribute"], unique=True, sqlite_where=valid)
    op.create_table(
        "leases",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("token", sa.String, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("config", sa.String, nullable=False),
        sa.Column("taken_at", sa.DateTime, nullable=False),
        sa.Column("renewed_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime, nullable=False),
        sa.Column("ended_at", sa.DateTime),
    )
