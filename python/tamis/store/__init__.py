"""The store: queries with their versions and owners, the ledger of batches, the outbox, deliveries and adapters.

One SQLite file, shared by the command line and the pipeline while both run. This package knows no Spark and sends
nothing: it only remembers, and every change is one transaction that is on disk when the call returns."""

from __future__ import annotations

from tamis.store.records import (
    AdapterState,
    BatchCounts,
    BatchResult,
    Counts,
    DeadLetter,
    DeadLetterRecord,
    DeliveryRecord,
    DueDelivery,
    ImportCounts,
    MessageRow,
    Notification,
    NotificationRecord,
    Outcome,
    QueryMatches,
    QueryRecord,
    notification_id,
)
from tamis.store.store import Store

__all__ = [
    "AdapterState",
    "BatchCounts",
    "BatchResult",
    "Counts",
    "DeadLetter",
    "DeadLetterRecord",
    "DeliveryRecord",
    "DueDelivery",
    "ImportCounts",
    "MessageRow",
    "Notification",
    "NotificationRecord",
    "Outcome",
    "QueryMatches",
    "QueryRecord",
    "Store",
    "notification_id",
]
