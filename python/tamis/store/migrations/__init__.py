"""Migrations of the store's schema, one file a version; `tamis.store.database` runs them."""
