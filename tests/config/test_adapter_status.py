"""The state of adapters is reported from the store, their checkpoints and their sources."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.checkpoint import committed_offset
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.adapters.sources.source import offset_of
from tamis.config.adapter_status import AdapterStatus, adapter_statuses
from tamis.config.pipeline import PipelineConfig
from tamis.errors import AdapterError
from tamis.store import Store
from tamis.store.adapters import ERRORS_MAX

PIPELINE = """\
[[adapter]]
name = "lines"
type = "jsonl"
path = "in.jsonl"

[[adapter]]
name = "news"
type = "feed"
url = "http://127.0.0.1:9/feed"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "in.jsonl").write_text('{"a": 1}\n{"a": 22}\n')
    return tmp_path


def statuses(folder: Path) -> list[AdapterStatus]:
    config = PipelineConfig.load(folder / "pipeline.toml")
    with Store.open(folder / "tamis.sqlite") as store:
        return adapter_statuses(config, store)


def commit(folder: Path, name: str, batch_id: int, offset: object, *, done: bool = True) -> None:
    """Write what Spark writes about a batch."""
    for kind, text in (("offsets", f'v1\n{{"batchTimestampMs":0}}\n{json.dumps(offset)}'), ("commits", "v1\n{}")):
        if kind == "offsets" or done:
            path = folder / "checkpoints" / name / kind / str(batch_id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def test_what_is_not_read_yet_is_behind(folder: Path) -> None:
    lines = statuses(folder)[0]
    assert (lines.behind, lines.unit, lines.behind_problem, lines.status) == (19, "bytes", None, "not running")
    assert statuses(folder)[1].behind == 0  # it has a spool, which is not there yet


def test_what_is_committed_is_not_behind(folder: Path) -> None:
    config = PipelineConfig.load(folder / "pipeline.toml")
    source = Adapter.from_config(config.adapters[0]).source()
    commit(folder, "lines", 9, source.latest(offset_of({}), 1, settled=True))
    commit(folder, "lines", 10, source.latest(offset_of({}), None, settled=True), done=False)
    assert statuses(folder)[0].behind == len('{"a": 22}\n')
    commit(folder, "lines", 10, source.latest(offset_of({}), None, settled=True))
    assert statuses(folder)[0].behind == 0


def test_a_spool_is_counted_while_another_process_adds_to_it(folder: Path) -> None:
    spool = Spool(str(folder / "work" / "spools" / "news"))
    with spool.transaction():
        spool.add([Item(f"k{number}", "place", b"{}") for number in range(3)])
    assert statuses(folder)[1].behind == 3
    commit(folder, "news", 0, {"version": 1, "places": {"spool": [2, spool.id]}})
    assert (statuses(folder)[1].behind, statuses(folder)[1].unit) == (1, "messages")
    spool.close()


def test_what_cannot_be_found_out_says_why(folder: Path) -> None:
    commit(folder, "lines", 0, {})
    (folder / "checkpoints" / "lines" / "offsets" / "0").write_text("v1\n{}\nnot json")
    lines = statuses(folder)[0]
    assert lines.behind is None
    assert "offsets/0: the checkpoint cannot be read" in str(lines.behind_problem)
    with pytest.raises(AdapterError):
        committed_offset(folder / "checkpoints" / "lines")
    (folder / "checkpoints" / "lines" / "offsets" / "0").unlink()
    assert statuses(folder)[0].behind is None


def test_the_last_errors_are_kept_with_their_times(folder: Path) -> None:
    began = datetime(2026, 11, 23, 12, tzinfo=UTC)
    with Store.open(folder / "tamis.sqlite") as store:
        for number in range(ERRORS_MAX + 5):
            store.report_adapter("lines", "failed", error=f"error {number}", at=began + timedelta(minutes=number))
        store.report_adapter("news", "failed", error="no answer", at=began)
        store.report_adapter("lines", "running")
    lines, news = statuses(folder)
    assert [it.error for it in lines.errors] == [f"error {number}" for number in range(24, 4, -1)]
    assert lines.errors[0].at == began + timedelta(minutes=24)
    assert (lines.state.last_error, news.errors) == (None, [(began, "no answer")])
