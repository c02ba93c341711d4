"""Notifications become Parquet files and rows of Delta tables, each once, whenever a crash comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from deltalake import DeltaTable

from tamis.config.deliveries import DeltaDelivery, ParquetDelivery
from tamis.notify.channels.channel import ChannelError
from tamis.notify.channels.delta import DeltaChannel
from tamis.notify.channels.numbered_files import NumberedFiles
from tamis.notify.channels.parquet import ParquetChannel
from tamis.notify.engine import NotificationEngine
from tamis.store import NotificationRecord, Store
from tamis.store.delta_table import Table
from tests.notify.conftest import Clock
from tests.notify.test_feed import due
from tests.store.rows import fill

CONFIGS = {"parquet": ParquetDelivery, "delta": DeltaDelivery}
CHANNELS: dict[str, type[NumberedFiles]] = {"parquet": ParquetChannel, "delta": DeltaChannel}
KINDS = pytest.mark.parametrize("kind", ["parquet", "delta"])


def config(kind: str, folder: Path, name: str = "files") -> Any:
    return CONFIGS[kind](name=name, type=kind, folder=folder)


def rows(kind: str, folder: Path) -> list[dict[str, Any]]:
    if kind == "delta":
        return DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return pyarrow.dataset.dataset(str(folder), format="parquet").to_table().to_pylist()


def ids(kind: str, folder: Path) -> list[str]:
    return sorted(row["id"] for row in rows(kind, folder))


@KINDS
def test_each_notification_is_one_row_with_what_a_line_has(
    kind: str, store: Store, clock: Clock, tmp_path: Path
) -> None:
    fill(store, 12, deliveries=("files",))
    engine = NotificationEngine(store, [config(kind, tmp_path / "out")], clock)
    assert [engine.deliver_pending(5).delivered for _ in range(4)] == [5, 5, 2, 0]
    assert ids(kind, tmp_path / "out") == sorted(record.id for record in store.notifications())
    files = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))
    assert [name[:16] for name in files] == ["files-000000001-", "files-000000002-", "files-000000003-"]
    row = min(rows(kind, tmp_path / "out"), key=lambda row: row["offset"])
    assert (row["query"], row["version"], row["offset"], row["owner"]) == ("frost", 1, 0, "")
    assert json.loads(row["properties"])["subject"] == "message 0"
    assert row["reasons"] == ["subject LIKE '%'  (message 0)"]
    assert row["created_at"] == store.notifications()[0].created_at


class CrashError(Exception):
    """Ends a run at a chosen point."""


def _points(kind: str) -> list[tuple[type, str]]:
    """Return the points at which a run can end, as what is called there."""
    commit = [(Table, "commit")] if kind == "delta" else []
    return [(CHANNELS[kind], "_publish"), *commit, (Store, "record_outcomes")]


@KINDS
def test_nothing_is_lost_or_written_twice_wherever_runs_end(
    kind: str, store: Store, clock: Clock, tmp_path: Path
) -> None:
    """One run after another ends at each point, before and after it, with two notifications under way."""
    ends = [(*point, after) for point in _points(kind) for after in (False, True)]
    fill(store, 2 * len(ends) + 1, deliveries=("files",))
    for owner, name, after in ends:
        with pytest.MonkeyPatch.context() as patch:
            _crash_at(patch, owner, name, after=after)
            with pytest.raises(CrashError):
                NotificationEngine(store, [config(kind, tmp_path / "out")], clock).deliver_pending(2)
    NotificationEngine(store, [config(kind, tmp_path / "out")], clock).deliver_pending()
    assert store.counts().deliveries_pending == 0
    assert ids(kind, tmp_path / "out") == sorted(record.id for record in store.notifications())


def _crash_at(patch: pytest.MonkeyPatch, owner: type, name: str, *, after: bool) -> None:
    """Let a run end at the first call with something to do, before or after it has happened."""
    real: Callable[..., Any] = getattr(owner, name)

    def crash(self: Any, *arguments: Any, **options: Any) -> Any:
        if name == "record_outcomes" and not arguments[0]:
            return real(self, *arguments, **options)
        if after:
            real(self, *arguments, **options)
        raise CrashError

    patch.setattr(owner, name, crash)


@KINDS
def test_a_file_that_was_left_is_kept_and_its_notifications_are_delivered(
    kind: str, store: Store, clock: Clock, tmp_path: Path
) -> None:
    fill(store, 3, deliveries=("files",))
    with pytest.MonkeyPatch.context() as patch:
        _crash_at(patch, Store, "record_outcomes", after=False)
        with pytest.raises(CrashError):
            NotificationEngine(store, [config(kind, tmp_path / "out")], clock).deliver_pending()
    (before,) = (tmp_path / "out").glob("*.parquet")
    assert NotificationEngine(store, [config(kind, tmp_path / "out")], clock).deliver_pending().delivered == 0
    assert list((tmp_path / "out").glob("*.parquet")) == [before]
    assert {(it.state, it.reason) for it in store.deliveries()} == {("delivered", "written before the last stop")}


@KINDS
def test_a_new_store_continues_after_the_files_of_an_old_one(
    kind: str, store: Store, clock: Clock, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "old.sqlite") as old:
        fill(old, 4, deliveries=("files",))
        NotificationEngine(old, [config(kind, tmp_path / "out")], clock).deliver_pending()
    fill(store, 3, "other", deliveries=("files",))
    assert NotificationEngine(store, [config(kind, tmp_path / "out")], clock).deliver_pending().delivered == 3
    assert len(ids(kind, tmp_path / "out")) == 7


@KINDS
def test_two_pipelines_under_one_name_are_told_apart(kind: str, store: Store, clock: Clock, tmp_path: Path) -> None:
    fill(store, 4, deliveries=("files",))
    one = NotificationEngine(store, [config(kind, tmp_path / "out")], clock)
    assert one.deliver_pending(2).delivered == 2
    with Store.open(tmp_path / "other.sqlite") as other:
        fill(other, 4, "heat", deliveries=("files",))
        NotificationEngine(other, [config(kind, tmp_path / "out")], clock).deliver_pending()
    again = NotificationEngine(store, [config(kind, tmp_path / "out")], clock)
    assert "another pipeline writes under the name 'files', too" in again.deliver_pending().troubles["files"]
    assert len(ids(kind, tmp_path / "out")) == 6


def test_a_commit_that_another_pipeline_was_quicker_with_is_refused(
    record: NotificationRecord, store: Store, tmp_path: Path
) -> None:
    channel = DeltaChannel(config("delta", tmp_path / "out"), store)
    channel.open()
    with Store.open(tmp_path / "other.sqlite") as other:
        quicker = DeltaChannel(config("delta", tmp_path / "out"), other)
        quicker.open()
        quicker.deliver([due(record, 1)])
    with pytest.raises(ChannelError, match="the table has a batch 1 of this delivery already"):
        channel.deliver([due(record, 2)])
    assert len(ids("delta", tmp_path / "out")) == 1


@KINDS
def test_odd_characters_are_replaced(kind: str, record: NotificationRecord, store: Store, tmp_path: Path) -> None:
    channel = CHANNELS[kind](config(kind, tmp_path / "out"), store)
    channel.open()
    assert not channel.deliver([due(record, 1, body="a\0\ud83e")]).failures
    assert [row["body"] for row in rows(kind, tmp_path / "out")] == ["a\ufffd\ufffd"]


@KINDS
def test_a_folder_that_cannot_be_written_is_told(kind: str, store: Store, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(ChannelError, match="out: cannot be written"):
        CHANNELS[kind](config(kind, tmp_path / "out"), store).open()


def test_a_table_of_another_program_is_left_alone(record: NotificationRecord, store: Store, tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "out"), pa.schema([("x", pa.int64())]))
    channel = DeltaChannel(config("delta", tmp_path / "out"), store)
    with pytest.raises(ChannelError, match="the Delta table is another program's: it has no column 'body'"):
        channel.open()
        channel.deliver([due(record, 1)])
    assert rows("delta", tmp_path / "out") == []
