"""Asks adapters to run, pause or stop; the pipeline that runs obeys within a second, and a later one at its start."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.config.adapters import AdapterConfig
from tamis.config.pipeline import PipelineConfig
from tamis.errors import AdapterError, ConfigError
from tamis.store import Store
from tamis.store.records import AdapterDesire


def adapter_named(config: PipelineConfig, name: str) -> AdapterConfig:
    """Return an adapter of a pipeline.

    Raises:
        ConfigError: it has no adapter of this name; the text lists its adapters.
    """
    for adapter in config.adapters:
        if adapter.name == name:
            return adapter
    known = ", ".join(adapter.name for adapter in config.adapters) or "none"
    raise ConfigError(f"{config.path}: no [[adapter]] is named '{name}'; there are: {known}")


def ask_adapters(config: PipelineConfig, store: Store, names: Sequence[str], desired: AdapterDesire) -> list[str]:
    """Ask adapters to be ``running``, ``paused`` or ``stopped``; return their names.

    Raises:
        ConfigError: the pipeline has no adapter of one of the names; then nothing is changed.
    """
    asked = [adapter_named(config, name).name for name in names]
    for name in asked:
        store.set_adapter_desired(name, desired)
    return asked


def resume_adapters(config: PipelineConfig, store: Store, names: Sequence[str] = ()) -> list[str]:
    """Let paused adapters go on where they ended; return their names. Those that were stopped stay off.

    Args:
        config: the pipeline.
        store: its store.
        names: the adapters, which must be paused; none: all that are.

    Raises:
        ConfigError: the pipeline has no adapter of one of the names; then nothing is changed.
        AdapterError: one of `names` is not paused; then nothing is changed.
    """
    known = [adapter_named(config, name).name for name in names] or [adapter.name for adapter in config.adapters]
    desired = {state.name: state.desired for state in store.adapter_states(known)}
    for name in names:
        if desired[name] != "paused":
            start = f"; `tamis adapter start {name}` starts it" if desired[name] == "stopped" else ""
            raise AdapterError(f"adapter '{name}' is {desired[name]}, not paused{start}")
    return ask_adapters(config, store, [name for name in known if desired[name] == "paused"], "running")
