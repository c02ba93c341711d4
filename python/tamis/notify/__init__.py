"""Deliveries: from the outbox to whoever asked, each by a channel with a file of its own.

The store says what is due and remembers what became of it; a channel only sends. Nothing here knows Spark."""
