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
    "close_session",
    "explain",
    "follow",
    "match",
    "register",
    "register_function",
    "run_pipeline",
    "session",
]

_MODULES = {
    "FollowedQueries": "matching.following",
    "JavaNotFoundError": "java",
    "Pipeline": "pipeline",
    "Progress": "progress",
    "RunSummary": "progress",
    "close_session": "sessions",
    "explain": "matching.operator",
    "follow": "matching.following",
    "match": "matching.operator",
    "register": "sessions",
    "register_function": "matching.sql_function",
    "run_pipeline": "pipeline",
    "session": "sessions",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value  # so that it is imported once
    return value
