"""Data source adapters (the PNNL paper, section 3.2): mail, news, JSON lines and streams in Spark, and their manager.

`sources` has one file per data source and what they share, `mail` reads one message, `rows` defines the row that all
of them give, and `options` their settings. Only `datasource` knows Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession, name: str | None = None) -> None:
    """Register the data sources, such as ``tamis.mbox``, with a Spark session; twice is harmless.

    Args:
        spark: the session.
        name: register only this one, such as ``tamis.eml``.
    """
    from tamis.adapters.datasource import data_sources

    with _active(spark):
        for data_source in data_sources():
            if name is None or data_source.name() == name:
                spark.dataSource.register(data_source)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of its Java, where Spark (4.3) looks whether a name is taken."""
    java = getattr(spark, "_jsparkSession", None)
    if java is None:  # Spark Connect
        yield
        return
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(java)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
