"""Data source adapters (the PNNL paper, section 3.2): mail, news, JSON lines and streams in Spark, and their manager.

One file a data source (`mbox`, `eml`, `jsonl`, `journal`); what they share is in `files` (places, offsets, admission)
and `rows` (what a row holds). Spark is in `datasource` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession, name: str | None = None) -> None:
    """Make ``tamis.mbox``, ``.eml``, ``.jsonl`` and ``.journal`` known to a Spark session; twice is harmless.

    Args:
        spark: the session.
        name: this one alone, such as ``tamis.eml``.
    """
    from tamis.adapters.datasource import DATA_SOURCES

    for data_source in DATA_SOURCES:
        if name is None or data_source.name() == name:
            spark.dataSource.register(data_source)
