"""Queries: the functions that make them, one for each language, and the files that hold them."""

from __future__ import annotations

from tamis.query.file import QueryFile, compile_in_file, load_queries, load_query_file, load_query_files
from tamis.query.hierarchy import HierarchySpec
from tamis.query.languages import (
    FieldValue,
    Query,
    boolean,
    fields,
    near,
    opaque,
    prefix,
    regex,
    restore,
    selector,
    text,
    topic,
)
from tamis.query.spec import LANGUAGES, QuerySpec, QueryState, compile_query

__all__ = [
    "LANGUAGES",
    "FieldValue",
    "HierarchySpec",
    "Query",
    "QueryFile",
    "QuerySpec",
    "QueryState",
    "boolean",
    "compile_in_file",
    "compile_query",
    "fields",
    "load_queries",
    "load_query_file",
    "load_query_files",
    "near",
    "opaque",
    "prefix",
    "regex",
    "restore",
    "selector",
    "text",
    "topic",
]
