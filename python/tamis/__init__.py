"""Finds, for every message in a stream, all the standing queries that it satisfies.

>>> import tamis
>>> engine = tamis.Engine()
>>> engine.add("james-cnn", tamis.selector("author = 'James' AND source = 'CNN'"))
>>> engine.match({"author": "James", "source": "CNN"})
['james-cnn']
"""

from __future__ import annotations

from tamis._core import Bitmap, __version__
from tamis.engine import Engine, Explanation
from tamis.engine.report import Report
from tamis.errors import ConfigError, QueryError, QueryWarning, SnapshotError, TamisError
from tamis.message import ANY, PRESENT
from tamis.query import (
    Query,
    QuerySpec,
    boolean,
    compile_query,
    fields,
    load_queries,
    near,
    opaque,
    prefix,
    regex,
    selector,
    text,
    topic,
)

__all__ = [
    "ANY",
    "PRESENT",
    "Bitmap",
    "ConfigError",
    "Engine",
    "Explanation",
    "Query",
    "QueryError",
    "QuerySpec",
    "QueryWarning",
    "Report",
    "SnapshotError",
    "TamisError",
    "__version__",
    "boolean",
    "compile_query",
    "fields",
    "load_queries",
    "near",
    "opaque",
    "prefix",
    "regex",
    "selector",
    "text",
    "topic",
]
