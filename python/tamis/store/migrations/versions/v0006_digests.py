"""The sixth schema: the digest that a delivery waits for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; of what is pending it is not decided yet."""
    op.add_column("deliveries", sa.Column("digest", sa.String))
