"""A pipeline into Delta tables neither loses nor doubles notifications, however it is killed.

As `test_pipeline_kill`, with the same number of kills and the same seed. Two planted faults show that the check can
fail."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'tamis[delta]'")

import pyarrow as pa
from deltalake import DeltaTable

from tamis.config.pipeline import PipelineConfig
from tamis.errors import StoreError
from tamis.spark.sinks.delta import DeltaSink
from tamis.spark.sinks.sink import Batch
from tamis.store import BatchCounts, Store
from tamis.store.delta_table import File, Table
from tests.faults.test_pipeline_kill import (
    BATCH_MESSAGES,
    CLEAN,
    KILLS,
    MESSAGES,
    SEED,
    Case,
    Verdict,
    judge,
    part_of,
    run_and_kill,
    run_to_the_end,
    told,
    unversioned,
)
from tests.spark.mail import real_messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class DeltaCase(Case):
    """A case whose notifications are in tables."""

    def __init__(self, folder: Path, messages: list[bytes], arrived: int | None = None) -> None:
        super().__init__(folder, messages, "tamis.sqlite", arrived)

    def configure(self, *settings: Any) -> None:
        super().configure(*settings)
        text = self.toml.read_text()
        text = text[: text.index("[[delivery]]")].replace('deliveries = ["mails", "lines"]\n', "")
        self.toml.write_text(text.replace('name = "kill"\n', 'name = "kill"\nnotifications = "results"\n'))

    def rows(self, table: str) -> list[dict[str, Any]]:
        folder = self.folder / "results" / table
        if not DeltaTable.is_deltatable(str(folder)):
            return []
        found: list[dict[str, Any]] = pa.table(DeltaTable(str(folder)).to_pyarrow_table()).to_pylist()
        return found

    def verdict(self) -> Verdict:
        """What the table has, each notification with its one message."""
        columns = ("query_key", "query_version", "source", "partition", "offset")
        found = self.rows("notifications")
        messages = Counter((row["partition"], row["offset"]) for row in self.rows("messages"))
        assert all(messages[row["partition"], row["offset"]] == 1 for row in found)
        return judge([unversioned(tuple(row[name] for name in columns)) for row in found], self.wanted)


@pytest.mark.timeout(180 + 70 * KILLS)
def test_killed_at_random_points_the_tables_are_those_of_brute_force(
    tmp_path: Path, shared: Path, spark: SparkSession
) -> None:
    print(f"TAMIS_SEED={SEED} TAMIS_PIPELINE_KILLS={KILLS}")
    chance = random.Random(SEED)
    case = DeltaCase(tmp_path, real_messages(shared, MESSAGES), arrived=0)
    for kill in range(KILLS):
        case.arrive(MESSAGES * (kill + 1) // KILLS)  # so that each kill finds work
        share = (kill + chance.random()) / KILLS
        part = part_of(kill)
        was_there = run_and_kill(case, int(share * MESSAGES), chance.uniform(0.0, 0.5), part, chance.uniform(0.0, 5.0))
        verdict = case.verdict()
        print(told(kill, part, was_there, case, verdict))
        assert not verdict.doubled
        assert not verdict.phantom
        case.change(chance)
    run_to_the_end(case, spark)
    assert case.verdict() == CLEAN
    assert run_to_the_end(case, spark) == 0
    with case.store() as store:
        assert (store.counts().read, store.counts().notifications) == (MESSAGES, len(case.wanted))
        assert not store.notification_ids()


# --- killed at the worst points, and the two controls ---------------------------------------------------------------


class CrashError(StoreError):
    """The planted crash."""


CRASHED = 2  # the number of the batch
Commit = Callable[[DeltaSink, Table, Batch, Sequence[File]], None]


@pytest.fixture
def case(tmp_path: Path, shared: Path) -> DeltaCase:
    return DeltaCase(tmp_path, real_messages(shared, 5 * BATCH_MESSAGES))


def crash_and_restart(case: Case, spark: SparkSession, plant: Callable[[pytest.MonkeyPatch], None]) -> Verdict:
    from tamis.spark import Pipeline

    with case.store() as store, pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(CrashError):
            Pipeline(PipelineConfig.load(case.toml), store, spark).run(once=True)
    run_to_the_end(case, spark)
    return case.verdict()


def at_table(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Crash before the commit to a table."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        commit: Commit = DeltaSink.commit

        def crashing(sink: DeltaSink, table: Table, batch: Batch, files: Sequence[File]) -> None:
            if batch.number == CRASHED and table is sink._tables[name]:
                raise CrashError("planted")
            commit(sink, table, batch, files)

        patch.setattr(DeltaSink, "commit", crashing)

    return plant


def at_record(after: bool) -> Callable[[pytest.MonkeyPatch], None]:
    """Crash before or after the store's record that the batch is done."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        record = Store.record_batch

        def crashing(store: Store, stream: str, batch_id: int, counts: BatchCounts, tables: Path) -> BatchCounts:
            if batch_id == CRASHED and not after:
                raise CrashError("planted")
            found = record(store, stream, batch_id, counts, tables)
            if batch_id == CRASHED:
                raise CrashError("planted")
            return found

        patch.setattr(Store, "record_batch", crashing)

    return plant


@pytest.mark.parametrize(
    "plant", [at_table("messages"), at_table("notifications"), at_record(after=False), at_record(after=True)]
)
def test_killed_around_the_commits_nothing_is_lost_or_doubled(
    case: DeltaCase, spark: SparkSession, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    assert crash_and_restart(case, spark, plant) == CLEAN


def test_control_commits_without_the_batch_id_double(
    case: DeltaCase, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "_last", lambda table, stream: None)
    monkeypatch.setattr(DeltaCase, "verdict", _of_notifications_alone)
    verdict = crash_and_restart(case, spark, at_record(after=False))
    assert verdict.doubled
    assert not verdict.lost


def _of_notifications_alone(case: DeltaCase) -> Verdict:
    columns = ("query_key", "query_version", "source", "partition", "offset")
    return judge([tuple(row[name] for name in columns) for row in case.rows("notifications")], case.wanted)


def test_control_a_batch_noted_before_its_commit_loses(case: DeltaCase, spark: SparkSession) -> None:
    def plant(patch: pytest.MonkeyPatch) -> None:
        def noted(sink: DeltaSink, table: Table, batch: Batch, files: Sequence[File]) -> None:
            sink._store.record_batch(batch.stream, batch.number, BatchCounts(0, 0, 0, 0), sink._folder)
            if batch.number == CRASHED:
                raise CrashError("planted")
            commit(sink, table, batch, files)

        commit: Commit = DeltaSink.commit
        patch.setattr(DeltaSink, "commit", noted)

    verdict = crash_and_restart(case, spark, plant)
    assert verdict.lost
    assert not verdict.doubled
