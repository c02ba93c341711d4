"""The twelfth schema: counts of adapters, and numbers of deliveries in the log, may grow beyond 2^31 on a server."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Widen the columns; SQLite has only one kind of whole number."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, column in (
        ("adapters", "read_count"),
        ("adapters", "dead_count"),
        ("delivery_steps", "delivery_id"),
    ):
        op.alter_column(table, column, type_=sa.BigInteger, existing_type=sa.Integer, existing_nullable=False)
