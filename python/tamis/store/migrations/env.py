"""What alembic executes: migrate on the connection, and in the transaction, that the store handed over."""

from __future__ import annotations

from alembic import context

from tamis.store.models import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
