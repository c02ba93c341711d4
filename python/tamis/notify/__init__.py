"""Deliveries: brings notifications from the outbox to their subscribers, with one file for each kind of channel.

The store says what is due and records the outcomes; a channel only delivers. Nothing here knows Spark."""
