"""The fifth schema: the ids of notifications that were pruned, so that none is made a second time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "pruned_notifications",
        sa.Column("notification_id", sa.String, primary_key=True),
        sqlite_with_rowid=False,
    )
