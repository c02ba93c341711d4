"""The fourth schema: every step of a delivery with its reason."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table and an index; what happened to earlier deliveries is not known, only how they ended."""
    op.create_table(
        "delivery_steps",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("delivery_id", sa.Integer, sa.ForeignKey("deliveries.id"), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("step", sa.String, nullable=False),
        sa.Column("reason", sa.String),
    )
    op.create_index("delivery_steps_of", "delivery_steps", ["delivery_id", "id"])
    op.create_index("outbox_message", "outbox", ["source", "partition", "offset", "digest"])
