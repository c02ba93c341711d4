"""Other packages add types of sources by entry points; one that cannot be loaded stops nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from tamis.adapters import registry
from tamis.adapters.adapter import Adapter
from tamis.adapters.sources.jsonl import JsonlSource
from tamis.adapters.sources.live.source import LiveSource
from tamis.config.adapters import model_of
from tamis.config.pipeline import PipelineConfig
from tamis.errors import AdapterError
from tests.fenced import blocks


class TicksSource(JsonlSource):
    """A source of another package."""

    type: ClassVar[str] = "ticks"
    pattern: ClassVar[str] = "*.ticks"


OTHERS = [
    EntryPoint("ticks", f"{__name__}:TicksSource", registry.GROUP),
    EntryPoint("broken", "there_is_no_such_module:Source", registry.GROUP),
    EntryPoint("other", f"{__name__}:OTHERS", registry.GROUP),
    EntryPoint("mbox", f"{__name__}:TicksSource", registry.GROUP),
]


@pytest.fixture
def _others(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def found(*, group: str) -> list[EntryPoint]:
        assert group == "tamis.adapters"
        return OTHERS

    for cached in (registry._known, registry.source_class):
        cached.cache_clear()
    monkeypatch.setattr(registry, "entry_points", found)
    yield
    for cached in (registry._known, registry.source_class):
        cached.cache_clear()


@pytest.mark.usefixtures("_others")
def test_a_type_of_another_package_is_an_adapter_like_others(tmp_path: Path) -> None:
    (tmp_path / "a.ticks").write_text('{"price": 1}\n')
    assert Adapter("ticks", "ticks", str(tmp_path)).test().sampled == 1
    config = model_of(registry.source_class("ticks"))(name="a", type="ticks", path=tmp_path)
    assert Adapter.from_config(config).format == "tamis.ticks"
    assert registry.source_class("mbox").__name__ == "MboxSource"


@pytest.mark.usefixtures("_others")
def test_a_type_that_cannot_be_loaded_says_why_and_stops_no_other() -> None:
    types = [source.type for source in registry.usable_sources()]
    assert "ticks" in types
    assert "broken" not in types
    with pytest.raises(AdapterError, match="type 'broken': there_is_no_such_module:Source cannot be loaded"):
        registry.source_class("broken")
    with pytest.raises(AdapterError, match="expected a subclass of Source whose type is 'other'"):
        registry.source_class("other")


def test_a_type_that_there_is_not_gets_the_list_and_a_near_name() -> None:
    with pytest.raises(AdapterError, match=r"no type 'mbax'; did you mean 'mbox'\?; there are: mbox, eml, jsonl"):
        registry.source_class("mbax")


def test_every_adapter_that_the_page_shows_can_be_read(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"
    shown = [block.text for block in blocks(page) if block.text.startswith("[[adapter]]")]
    (tmp_path / "pipeline.toml").write_text("\n".join(shown), encoding="utf-8")
    config = PipelineConfig.load(tmp_path / "pipeline.toml")
    live = {source.type for source in registry.usable_sources() if issubclass(source, LiveSource)}
    assert {adapter.type for adapter in config.adapters} >= live


def test_a_package_that_is_not_installed_is_told_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = Adapter("push", "http", listen="127.0.0.1:8400", spool="spool")
    assert adapter.test().reason is None
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert adapter.test().reason == "type 'http': expected the package starlette; pip install 'tamis[adapters]'"
