"""Chooses the sink of a pipeline by the place where its notifications are stored."""

from __future__ import annotations

from pathlib import Path

from tamis.spark.sinks.driver import DriverSink
from tamis.spark.sinks.sink import Sink
from tamis.store import Store
from tamis.store_place import ServerUrl


def sink_of(store: Store, notifications: Path | None) -> Sink:
    """Return the sink for the Delta tables in the folder `notifications`, or without it the sink for the store."""
    if notifications is not None:
        from tamis.spark.sinks.delta import DeltaSink  # needs deltalake, which is an extra

        return DeltaSink(store, notifications)
    if isinstance(store.path, ServerUrl):
        from tamis.spark.sinks.postgres import PostgresSink  # needs psycopg, which is an extra

        return PostgresSink(store)
    return DriverSink(store)
