"""Queries in every language, and messages, for the tests that every face gives the same answers."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import tamis
from tamis import QuerySpec
from tamis.query import compile_query

Record = dict[str, Any]
HIERARCHY = {"Europe": None, "Asia": None, "France": "Europe"}
"""The hierarchy of the attribute `region`."""

TEXTS = [
    ("selector", "timestamp > TIMESTAMP '2026-01-31T12:00:00Z'"),
    ("selector", "timestamp > DATE '2026-01-31'"),
    ("selector", "timestamp BETWEEN DATE '2026-01-01' AND DATE '2026-02-28'"),
    ("selector", "timestamp = '2026-02-01T12:00:00Z'"),
    ("selector", "timestamp LIKE '2026-02%'"),
    ("selector", "timestamp IN ('2026-02-01T12:00:00Z')"),
    ("selector", "timestamp <> DATE '2026-02-01'"),
    ("selector", "timestamp < other"),
    ("selector", "NOT (timestamp > TIMESTAMP '2026-01-31T12:00:00Z')"),
    ("selector", "timestamp IS NULL"),
    ("selector", "price * 2 > 19"),
    ("selector", "price / 4 = 2.5"),
    ("selector", "price > 9.5 AND tags = 'a'"),
    ("selector", "price + 1 = 11 OR name = 'x'"),
    ("selector", "price < '5'"),
    ("selector", "price IS NOT NULL"),
    ("selector", "EXISTS(price)"),
    ("selector", "tags <> 'a'"),
    ("selector", "NOT tags = 'a'"),
    ("selector", "tags IN ('b', 'z')"),
    ("selector", "item.id = 9"),
    ("selector", "item.parts.n > 1"),
    ("selector", "a.b = 1"),
    ("selector", "flag"),
    ("selector", "NOT flag"),
    ("selector", "flag = TRUE"),
    ("selector", "name LIKE 'J_m%'"),
    ("selector", "name = 'Zoë'"),
    ("selector", "REGEX(name, '^J.*s$')"),
    ("selector", "PREFIX(name, 'Ja')"),
    ("selector", "big = 9007199254740993"),
    ("selector", "share = 0.1"),
    ("selector", "body LIKE '%garlic%'"),
    ("selector", "CONTAINS(body, 'garlic bread')"),
    ("selector", "NEAR(body, 'garlic', 'toast', 4)"),
    ("selector", "topic = 'news.food'"),
    ("selector", "TOPIC('news.#')"),
    ("selector", "region UNDER 'Europe'"),
    ("boolean", "price > 9 && (name == James || tags in {a, c})"),
    ("boolean", "region UNDER (Europe || Asia)"),
    ("boolean:region", "region == (Europe || Asia)"),
    ("cbm", 'From = "James" AND Body LIKE %garlic%'),
    ("topic", "news.*"),
    ("topic:openamq", "news.*"),
    ("prefix", "news"),
    ("regex", "^news\\.(food|sport)$"),
    ("fields", "price=10"),
    ("fields", "name=James, flag=true"),
    ("text", "garlic bread"),
    ("near", "garlic toast 5"),
]
SPECS = [QuerySpec(f"{language}: {text}", text, language) for language, text in TEXTS]

RECORDS: list[Record] = [
    {
        "topic": "news.food",
        "body": "Garlic  bread and a toast",
        "timestamp": "2026-02-01T12:00:00Z",
        "other": "2026-03-01T00:00:00Z",
        "price": 10,
        "name": "James",
        "tags": ["a", "b"],
        "item": {"id": 9, "parts": [{"n": 1}, {"n": 2}]},
        "flag": True,
        "region": "France",
        "share": 0.1,
        "big": 9007199254740993,
    },
    {
        "topic": "news",
        "body": "no such word",
        "timestamp": "2026-01-31T13:00:00+02:00",
        "price": 9.5,
        "name": "Jim",
        "tags": [],
        "flag": False,
        "region": "Mars",
    },
    {"topic": "news.sport.x", "body": "", "timestamp": "2026-01-31", "price": None, "name": "Zoë", "region": "Asia"},
    {"topic": "", "body": "", "timestamp": 5, "price": "10", "name": 7, "flag": "true", "item": [{"id": 8}, {"id": 9}]},
    {"topic": "news.food", "body": "fresh garlic", "timestamp": True, "price": [1, 20], "a.b": 1, "a": {"b": 2}},
    {"topic": "news.sport", "body": "garlic", "region": ["Mars", "France"], "tags": ["c", None], "From": "James"},
    {"topic": "", "body": "x", "name": "x", "price": 10.0, "tags": ["c"]},
]


@cache
def queries() -> dict[str, tamis.Query]:
    """Return the queries by their keys."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tamis.QueryWarning)
        return {spec.key: compile_query(spec.text, spec.language) for spec in SPECS}


@cache
def expected() -> list[list[str]]:
    """Return the keys of the queries that each record satisfies, evaluated one by one."""
    hierarchies = {"region": HIERARCHY}
    return [
        [key for key, query in queries().items() if query.evaluate(record, hierarchies=hierarchies)]
        for record in RECORDS
    ]


def query_file() -> str:
    """Return the queries and the hierarchy as a TOML file."""
    tables = [
        f"[[query]]\nkey = {json.dumps(spec.key)}\ntext = {json.dumps(spec.text)}\n"
        f"language = {json.dumps(spec.language)}\n"
        for spec in SPECS
    ]
    tree = 'parents = { Europe = "", Asia = "", France = "Europe" }\n'
    return "\n".join([*tables, f'[[hierarchy]]\nattribute = "region"\n{tree}'])
