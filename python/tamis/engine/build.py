"""Builds an engine from compiled queries and hierarchies, for every face that reads them from files or the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tamis._core import Query
from tamis.engine.engine import Engine
from tamis.query.hierarchy import Parents, refuse_missing


def build_engine(queries: Iterable[tuple[str, Query]], hierarchies: Mapping[str, Parents]) -> Engine:
    """Return an engine with queries and hierarchies.

    Args:
        queries: key and query, in their order.
        hierarchies: attribute -> value -> its parent, or None for a root.

    Raises:
        ConfigError: a query uses UNDER on an attribute without a hierarchy; the text names both.
        ValueError: a hierarchy has a cycle.
    """
    pairs = list(queries)
    refuse_missing(((f"query '{key}'", query) for key, query in pairs), hierarchies)
    engine = Engine()
    for attribute, parents in hierarchies.items():
        engine.hierarchy(attribute, parents)
    engine.add_many(pairs)
    return engine
