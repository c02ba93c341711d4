"""Checks queries before they are stored: deliveries and names against the pipeline, and probable mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.cli import output
from tamis.cli.options import DEFAULT_CONFIG
from tamis.errors import QueryError, TamisError

if TYPE_CHECKING:
    from tamis.config.pipeline import PipelineConfig
    from tamis.query import Query, QuerySpec
    from tamis.store import Store

Warnings = dict[str, list[dict[str, Any]]]
"""Key of a query -> its warnings, for JSON."""


def check_against_pipeline(store: Store, specs: Sequence[QuerySpec]) -> Warnings:
    """Refuse queries with a delivery that the store's pipeline does not have; show and return all warnings.

    The pipeline is the pipeline.toml here or beside the store, or else the one that ran last. Where none is known, the
    deliveries cannot be checked, and a warning says so.

    Raises:
        ConfigError: the text names query, delivery and pipeline.
    """
    config = _pipeline(store)
    _refuse_unknown_deliveries(config, specs)
    return {spec.key: [*text_warnings(spec), *(_shown(spec, config) if config is not None else ())] for spec in specs}


def text_warnings(spec: QuerySpec) -> list[dict[str, Any]]:
    """Show the warnings of a query, and return them for JSON."""
    try:
        query = spec.compile()
    except (QueryError, TamisError, ValueError):
        return []
    return query_warnings(query, f"query '{spec.key}': ")


def query_warnings(query: Query, where: str = "") -> list[dict[str, Any]]:
    """Show the warnings of a compiled query, each after `where`, and return them for JSON."""
    for warning in query.warnings:
        output.warning(f"{where}{warning}")
    return [{"message": it.message, "position": it.position, "hint": it.hint} for it in query.warnings]


def _pipeline(store: Store) -> PipelineConfig | None:
    from tamis.config.apply import pipeline_of

    lease = store.lease()
    last = [Path(lease.config)] if lease is not None else []
    beside = [store.path.parent / DEFAULT_CONFIG.name] if isinstance(store.path, Path) else []
    return pipeline_of(store.path, [DEFAULT_CONFIG, *beside, *last])


def _refuse_unknown_deliveries(config: PipelineConfig | None, specs: Iterable[QuerySpec]) -> None:
    from tamis.config.apply import refuse_unknown_deliveries

    names = {spec.key: spec.deliveries for spec in specs if spec.deliveries}
    if config is not None:
        refuse_unknown_deliveries(config, names)
    elif names:
        shown = ", ".join(f"'{name}'" for name in sorted({name for wanted in names.values() for name in wanted}))
        output.warning(f"no pipeline of this store is known here, so only `tamis run` will check that {shown} exists")


def _shown(spec: QuerySpec, config: PipelineConfig) -> list[dict[str, Any]]:
    """Show and return the names that no adapter gives."""
    from tamis.config.source_names import name_warnings

    told = list(name_warnings(config, spec))
    for message in told:
        output.warning(f"query '{spec.key}': {message}")
    return [{"message": message, "position": None, "hint": None} for message in told]
