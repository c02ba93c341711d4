"""Applies a pipeline's files to its store, and finds the pipeline of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError
from tamis.name_hints import did_you_mean
from tamis.store_place import Place, is_same

if TYPE_CHECKING:
    from tamis.store import FileChanges, Store


def apply_config(config: PipelineConfig, store: Store) -> FileChanges:
    """Make the store agree with the hierarchies and the file of queries of a pipeline.

    Raises:
        ConfigError: a file cannot be used, or a query names a delivery that the pipeline does not have; nothing was
            changed.
        StoreError: a query stands in another file.
    """
    files = config.query_files()
    applied = {str(file.path.resolve()) for file in files}
    names = {record.key: record.deliveries for record in store.list_queries() if record.origin not in applied}
    names |= {spec.key: spec.deliveries for file in files for spec in file.queries}
    refuse_unknown_deliveries(config, names)
    return store.apply_files(files)


def queries_elsewhere(config: PipelineConfig, store: Store) -> dict[str, int]:
    """Count the queries of a store that stand in files that a pipeline does not name, such as its earlier file.

    They match all the same: whoever changes ``[queries].file`` may not mean that.

    Returns:
        The file -> the number of its queries, by name of the file.
    """
    applied = {str(file.path.resolve()) for file in config.query_files()}
    origins = (record.origin for record in store.list_queries())
    return dict(sorted(Counter(origin for origin in origins if origin is not None and origin not in applied).items()))


def refuse_unknown_deliveries(config: PipelineConfig, names: Mapping[str, Sequence[str]]) -> None:
    """Refuse queries whose notifications would wait for ever.

    Args:
        config: the pipeline.
        names: key of a query -> the names of its deliveries.

    Raises:
        ConfigError: a query names a delivery that the pipeline does not have.
    """
    known = [delivery.name for delivery in config.deliveries]
    for key, wanted in names.items():
        for name in wanted:
            if name not in known:
                there = did_you_mean(name, known) or f"; there are: {', '.join(known) or 'none'}"
                raise ConfigError(f"query '{key}': {config.path} has no [[delivery]] named '{name}'{there}")


def pipeline_of(store: Place, candidates: Iterable[Path]) -> PipelineConfig | None:
    """Return the first of some files that is the configuration of a pipeline over `store`; None if none is."""
    for path in candidates:
        with suppress(ConfigError, OSError):
            if path.is_file() and is_same((config := PipelineConfig.load(path)).store_path, store):
                return config
    return None
