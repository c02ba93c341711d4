"""The eleventh schema: e-mail addresses whose holders have confirmed them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "confirmed_addresses",
        sa.Column("address", sa.String, primary_key=True),
        sa.Column("confirmed_at", sa.DateTime, nullable=False),
        sqlite_with_rowid=False,
    )
