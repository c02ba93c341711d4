"""Computes by brute force what the demo's outbox must hold: without Spark, each query on each message."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from tamis.adapters.adapter import Adapter
from tamis.adapters.rows import Row
from tamis.config.pipeline import PipelineConfig
from tamis.demo import DemoFolder
from tamis.query import load_queries
from tamis.reference.queries.brute_force import BruteForce
from tamis.store import notification_id
from tests.adapters.reading import read_all


def properties_of(properties: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(properties, str):
        found: dict[str, Any] = json.loads(properties)
        return found
    return {**properties, "header": dict(properties["header"])}


def _named(adapter: str, row: Row) -> tuple[str | int, ...]:
    """What names a message: its identity, else its place."""
    return (row.identity,) if row.identity else (adapter, row.partition, row.offset, row.digest)


def expected_matches(folder: DemoFolder) -> tuple[dict[str, set[str]], int]:
    """Return the ids of the notifications by the key of their query, and the number of unreadable messages."""
    matcher = BruteForce()
    for spec in load_queries(folder.queries):
        matcher.add(spec.key, spec.compile())
    found: dict[str, set[str]] = defaultdict(set)
    dead = 0
    for config in PipelineConfig.load(folder.config).adapters:
        for row in read_all(Adapter.from_config(config).source()):
            if row.properties is None:
                dead += 1
                continue
            for key in matcher.match(properties_of(row.properties), row.topic, row.body):
                found[str(key)].add(notification_id(str(key), 1, *_named(config.name, row)))
    return found, dead
