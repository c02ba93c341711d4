"""The thirteenth schema: what changed between two revisions is found without reading every query."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Index the revisions at which versions of queries begin and end."""
    op.create_index("query_versions_from", "query_versions", ["from_revision"])
    ended = sa.text("to_revision IS NOT NULL")
    op.create_index("query_versions_to", "query_versions", ["to_revision"], sqlite_where=ended, postgresql_where=ended)
