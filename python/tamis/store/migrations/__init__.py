"""Migrations of the store's schema, one file per version; `tamis.store.database` runs them."""
