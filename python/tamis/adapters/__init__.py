"""Data source adapters (paper 002, section 3.2): mail, news and JSON lines as Spark data sources, and their manager.

One file a data source (`mbox`, `eml`, `jsonl`); what they share is in `files` (places, offsets, admission) and `rows`
(what a row holds). Spark is in `datasource` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``tamis.mbox``, ``tamis.eml`` and ``tamis.jsonl`` known to a Spark session. Doing it again is harmless."""
    from tamis.adapters.datasource import DATA_SOURCES

    for data_source in DATA_SOURCES:
        spark.dataSource.register(data_source)
