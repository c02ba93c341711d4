"""The tenth schema: the last errors of each adapter, with their times."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "adapter_errors",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("error", sa.String, nullable=False),
    )
    op.create_index("adapter_errors_of", "adapter_errors", ["name", "id"])
