"""Lets alembic migrate on the connection, and in the transaction, of the store."""

from __future__ import annotations

from alembic import context

from tamis.store.models import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
