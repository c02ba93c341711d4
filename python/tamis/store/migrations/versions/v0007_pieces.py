"""The seventh schema: batches whose rows are written in pieces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add what a batch remembers of its pieces; of the batches that are there, none is being written."""
    op.add_column("batches", sa.Column("contested", sa.Integer, nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("fanned_out_seq", sa.Integer))
    op.add_column("batches", sa.Column("default_deliveries", sa.JSON))
    op.create_index("outbox_batch", "outbox", ["stream", "batch_id"])
    op.create_index(
        "batches_to_fan_out",
        "batches",
        ["stream", "batch_id"],
        sqlite_where=sa.text("fanned_out_seq IS NOT NULL"),
    )
