"""Refuses queries for deliveries that the pipeline of the store does not have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.cli import output
from tamis.cli.options import DEFAULT_CONFIG

if TYPE_CHECKING:
    from tamis.query import QuerySpec
    from tamis.store import Store


def refuse_unknown(store: Store, specs: Iterable[QuerySpec]) -> None:
    """Refuse queries with a delivery that the store's pipeline does not have; warn where no pipeline is known.

    It is the pipeline.toml here or beside the store, or else the one that ran last.

    Raises:
        ConfigError: the text names query, delivery and pipeline.
    """
    names = {spec.key: spec.deliveries for spec in specs if spec.deliveries}
    if not names:
        return
    from tamis.config.apply import pipeline_of, refuse_unknown_deliveries

    lease = store.lease()
    last = [Path(lease.config)] if lease is not None else []
    config = pipeline_of(store.path, [DEFAULT_CONFIG, store.path.parent / DEFAULT_CONFIG.name, *last])
    if config is not None:
        refuse_unknown_deliveries(config, names)
        return
    shown = ", ".join(f"'{name}'" for name in sorted({name for wanted in names.values() for name in wanted}))
    output.warning(f"no pipeline of this store is known here, so only `tamis run` will check that {shown} exists")
