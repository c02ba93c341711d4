"""Deliveries: brings notifications from the outbox to their subscribers, with a folder of the kinds of channels.

The store says what is due and records the outcomes; a channel only delivers. Nothing here knows Spark."""
