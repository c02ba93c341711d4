"""Runs tamis on Spark: data sources, the match operator, and the pipeline from mail to outbox.

>>> import tamis.spark                                                  # doctest: +SKIP
>>> spark = tamis.spark.session()                                       # doctest: +SKIP
>>> mail = spark.readStream.format("tamis.mbox").load("mail/")          # doctest: +SKIP
>>> hits = mail.transform(tamis.spark.match("queries.txt"))             # doctest: +SKIP

Names are imported when they are first used: a Python worker of Spark imports this package too, and needs none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.engine.shards import ShardSummary, write_shards
    from tamis.spark.java import JavaNotFoundError
    from tamis.spark.matching.following import FollowedQueries, follow
    from tamis.spark.matching.operator import explain, match
    from tamis.spark.matching.sql_function import register_function
    from tamis.spark.pipeline import Pipeline, run_pipeline
    from tamis.spark.progress import Progress, RunSummary
    from tamis.spark.sessions import close_session, register, session

__all__ = [
    "FollowedQueries",
    "JavaNotFoundError",
    "Pipeline",
    "Progress",
    "RunSummary",
    "ShardSummary",
    "close_session",
    "explain",
    "follow",
    "match",
    "register",
    "register_function",
    "run_pipeline",
    "session",
    "write_shards",
]

_MODULES = {
    "FollowedQueries": "spark.matching.following",
    "JavaNotFoundError": "spark.java",
    "Pipeline": "spark.pipeline",
    "Progress": "spark.progress",
    "RunSummary": "spark.progress",
    "ShardSummary": "engine.shards",
    "close_session": "spark.sessions",
    "explain": "spark.matching.operator",
    "follow": "spark.matching.following",
    "match": "spark.matching.operator",
    "register": "spark.sessions",
    "register_function": "spark.matching.sql_function",
    "run_pipeline": "spark.pipeline",
    "session": "spark.sessions",
    "write_shards": "engine.shards",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tamis.{_MODULES[name]}"), name)
    globals()[name] = value  # so that it is imported once
    return value
