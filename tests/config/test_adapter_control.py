"""Adapters are asked to run, pause and stop from Python as from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.config.adapter_control import ask_adapters, resume_adapters
from tamis.config.pipeline import PipelineConfig
from tamis.errors import AdapterError, ConfigError
from tamis.store import Store

TOML = "".join(f'[[adapter]]\nname = "{name}"\ntype = "jsonl"\npath = "{name}/"\n' for name in "abc")


def test_paused_adapters_resume_and_nothing_changes_after_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(TOML)
    config = PipelineConfig.load(tmp_path / "pipeline.toml")
    with Store.open(config.store_path) as store:

        def desired() -> list[str]:
            return [state.desired for state in store.adapter_states(["a", "b", "c"])]

        assert resume_adapters(config, store) == []
        assert ask_adapters(config, store, ["a", "b"], "paused") == ["a", "b"]
        assert ask_adapters(config, store, ["c"], "stopped") == ["c"]
        with pytest.raises(ConfigError, match=r"no \[\[adapter\]\] is named 'x'; there are: a, b, c"):
            ask_adapters(config, store, ["a", "x"], "running")
        with pytest.raises(AdapterError, match="adapter 'c' is stopped, not paused; `tamis adapter start c` starts it"):
            resume_adapters(config, store, ["a", "c"])
        assert desired() == ["paused", "paused", "stopped"]
        assert resume_adapters(config, store, ["b"]) == ["b"]
        assert resume_adapters(config, store) == ["a"]
        assert desired() == ["running", "running", "stopped"]
