"""The store: queries and hierarchies with their versions, the ledger of batches, the outbox, deliveries and adapters.

The command line and the pipeline share one SQLite file while both run. This package does not know Spark and delivers
nothing: it only stores. Every change is one transaction, which is on disk when the call returns."""

from __future__ import annotations

from tamis.store.records import (
    AdapterProblem,
    AdapterState,
    BatchCounts,
    BatchResult,
    Change,
    Counts,
    DeadLetter,
    DeadLetterRecord,
    DeliveryRecord,
    DeliveryStep,
    DueDelivery,
    FileChanges,
    HierarchyRecord,
    ImportCounts,
    Lease,
    MessageRow,
    Notification,
    NotificationRecord,
    Outcome,
    QueryMatches,
    QueryRecord,
    Unsubscription,
    notification_id,
    place_text,
)
from tamis.store.store import Store
from tamis.store.traces import Trace

__all__ = [
    "AdapterProblem",
    "AdapterState",
    "BatchCounts",
    "BatchResult",
    "Change",
    "Counts",
    "DeadLetter",
    "DeadLetterRecord",
    "DeliveryRecord",
    "DeliveryStep",
    "DueDelivery",
    "FileChanges",
    "HierarchyRecord",
    "ImportCounts",
    "Lease",
    "MessageRow",
    "Notification",
    "NotificationRecord",
    "Outcome",
    "QueryMatches",
    "QueryRecord",
    "Store",
    "Trace",
    "Unsubscription",
    "notification_id",
    "place_text",
]
