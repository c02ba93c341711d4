"""The thirteenth schema: what changed between two revisions is found without reading every query."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Index the revisions at which versions of queries begin and end."""
    for name, column in (("query_versions_from", "from_revision"), ("query_versions_to", "to_revision")):
        op.create_index(name, "query_versions", [column])
