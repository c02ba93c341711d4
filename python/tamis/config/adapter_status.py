"""Reports the state of a pipeline's adapters, from the store, their checkpoints and their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tamis.adapters.adapter import Adapter
from tamis.adapters.checkpoint import committed_offset
from tamis.config.adapters import AdapterConfig
from tamis.config.pipeline import PipelineConfig
from tamis.errors import TamisError
from tamis.store import AdapterProblem, AdapterState, Lease, Store


@dataclass(frozen=True)
class AdapterStatus:
    """The state of an adapter.

    Attributes:
        config: its settings.
        state: what the pipeline last reported, and what was asked.
        status: one word or two: ``not running``, ``starting``, ``running``, ``failed``, ...
        behind: how much is there to be read, in `unit`; None where that cannot be found out, and `behind_problem` says
            why.
        unit: ``messages`` or ``bytes``.
        behind_problem: see `behind`.
        errors: its last errors, the newest first.
    """

    config: AdapterConfig
    state: AdapterState
    status: str
    behind: int | None
    unit: str
    behind_problem: str | None
    errors: Sequence[AdapterProblem]


def adapter_statuses(config: PipelineConfig, store: Store, names: Sequence[str] = ()) -> list[AdapterStatus]:
    """Return the adapters of a pipeline, or those of some names, in the order of the file.

    Cost: for adapters of files, a look at each file that has not been read; servers are not asked.
    """
    chosen = [adapter for adapter in config.adapters if not names or adapter.name in names]
    running = store.running_pipeline()
    states = store.adapter_states([adapter.name for adapter in chosen])
    return [
        _status(config, adapter, state, running, store.adapter_errors(adapter.name))
        for adapter, state in zip(chosen, states, strict=True)
    ]


def _status(
    config: PipelineConfig,
    adapter: AdapterConfig,
    state: AdapterState,
    running: Lease | None,
    errors: Sequence[AdapterProblem],
) -> AdapterStatus:
    unit, behind, problem = "", None, None
    try:
        source = Adapter.from_config(adapter, config.pipeline.work).source()
        unit, behind = source.unit, source.behind(committed_offset(config.pipeline.checkpoints / adapter.name))
    except (TamisError, OSError) as error:
        problem = str(error)
    return AdapterStatus(adapter, state, status_of(state, running), behind, unit, problem, errors)


def status_of(state: AdapterState, running: Lease | None) -> str:
    """Return the state of an adapter: what it reported, if the running pipeline has heard of it."""
    if running is None:
        return "not running"
    return state.status if state.updated_at >= running.taken_at else "starting"
