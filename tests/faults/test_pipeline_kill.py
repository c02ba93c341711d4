"""The pipeline neither loses nor doubles notifications, however it is killed.

The short form runs in CI; `TAMIS_LONG=1 pytest tests/faults` is the long one. Every run prints its seed; give it back
with TAMIS_SEED. Two planted faults show that the check can fail."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tamis import QuerySpec
from tamis.adapters.sources.mbox import unescape
from tamis.config.pipeline import PipelineConfig
from tamis.errors import StoreError
from tamis.store import BatchCounts, BatchResult, Store, batches
from tamis.store.staging import Staging
from tests.faults.processes import kill_group, kill_part
from tests.faults.promises import times
from tests.spark.mail import QUERIES, Match, brute_force, outbox, real_messages, write_mbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KILLS = times("TAMIS_PIPELINE_KILLS", 2, 30)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
MESSAGES = times("TAMIS_PIPELINE_MESSAGES", 160, 1_200)
BATCH_MESSAGES = 20
CHILD = Path(__file__).with_name("pipeline_child.py")

PIPELINE = """\
[pipeline]
name = "kill"
store = "{store}"
interval_ms = {interval_ms}
work = "{work}"
[queries]
deliveries = ["mails", "lines"]
[[adapter]]
name = "inbox"
type = "mbox"
path = "inbox"
topic = "mail.inbox"
max_messages = {messages}
[[delivery]]
name = "mails"
type = "eml"
folder = "outbox"
[[delivery]]
name = "lines"
type = "jsonl"
path = "lines.jsonl"
"""


@dataclass(frozen=True)
class Verdict:
    """What the outbox lacks, and what it has too much of."""

    lost: set[Match]
    doubled: set[Match]
    phantom: set[Match]


def judge(found: Sequence[Match], wanted: set[Match]) -> Verdict:
    counts = Counter(found)
    return Verdict(wanted - set(found), {match for match in counts if counts[match] > 1}, set(found) - wanted)


def unversioned(match: Match) -> Match:
    """Return a notification as if it were of the first version of its query."""
    key, _, *place = match
    return (key, 1, *place)  # type: ignore[return-value]


CLEAN = Verdict(set(), set(), set())


class Case:
    """A folder with mail, queries and a pipeline.toml, and the outbox that brute force computes.

    Args:
        folder: the folder.
        messages: the mail.
        place: where the store is.
        arrived: how many messages are there at the beginning; None: all.
    """

    def __init__(self, folder: Path, messages: list[bytes], place: str, arrived: int | None = None) -> None:
        self.folder = folder
        self.place = place if "://" in place else str(folder / place)
        self.toml = folder / "pipeline.toml"
        self.configure()
        self._box, self._messages, self._arrived = folder / "inbox", messages, 0
        self._box.touch()
        self.arrive(len(messages) if arrived is None else arrived)
        offsets = itertools.accumulate(map(len, messages[:-1]), initial=0)
        self.wanted = brute_force("inbox", str(self._box), list(zip(offsets, map(unescape, messages), strict=True)))
        with self.store() as store:
            store.add_queries(QUERIES)

    def configure(self, messages: int = BATCH_MESSAGES, interval_ms: int = 200, work: str = "work") -> None:
        """Write the settings of the pipeline."""
        text = PIPELINE.format(store=self.place, messages=messages, interval_ms=interval_ms, work=work)
        self.toml.write_text(text)

    def arrive(self, count: int) -> None:
        """Let the first `count` messages be there."""
        write_mbox(self._box, self._messages[self._arrived : count])
        self._arrived = max(self._arrived, count)

    def change(self, chance: random.Random) -> None:
        """Change settings and edit queries, in ways that leave the notifications as they are but for the versions."""
        self.configure(chance.randint(5, 3 * BATCH_MESSAGES), chance.choice([1, 50, 500]), chance.choice(["work", "w"]))
        edited = chance.choice([spec for spec in QUERIES if spec.language == QUERIES[0].language])
        brackets = chance.randint(1, 20)
        with self.store() as store:
            store.add_query(replace(edited, text="(" * brackets + edited.text + ")" * brackets))
            store.add_query(QuerySpec("idle", f"price > {chance.random()}"))

    def store(self) -> Store:
        return Store.open(self.place)

    def verdict(self) -> Verdict:
        """Compare what is there with brute force, whatever the version of the query was."""
        with self.store() as store:
            return judge([unversioned(match) for match in outbox(store)], self.wanted)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    """Return where the store is: a file, or a database of a server."""
    if request.param == "sqlite":
        return "tamis.sqlite"
    url: str = request.getfixturevalue("postgres").new_database()
    return url


# --- killed for real ------------------------------------------------------------------------------------------------


@pytest.mark.timeout(180 + 70 * KILLS)
def test_killed_at_random_points_the_outbox_is_that_of_brute_force(
    tmp_path: Path, shared: Path, spark: SparkSession, place: str
) -> None:
    print(f"TAMIS_SEED={SEED} TAMIS_PIPELINE_KILLS={KILLS}")
    chance = random.Random(SEED)
    case = Case(tmp_path, real_messages(shared, MESSAGES), place, arrived=0)
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
    assert case.verdict() == CLEAN
    assert_all_delivered_once(case)
    assert_all_noted_once(case)


def start(case: Case) -> subprocess.Popen[str]:
    """Start the pipeline in a separate session, so that it can be killed with everything that it started."""
    return subprocess.Popen(
        [sys.executable, CHILD, case.toml], stdout=subprocess.PIPE, text=True, start_new_session=True
    )


PARTS = ("all", "worker", "driver", "source", "java")


def part_of(kill: int) -> str:
    """Return what is killed: each part in turn, from one that depends on the seed."""
    return PARTS[(kill + SEED) % len(PARTS)]


def told(kill: int, part: str, was_there: bool, case: Case, verdict: Verdict) -> str:
    """Say what a kill has led to."""
    killed = part if was_there else f"{part} (not there: all)"
    return f"kill {kill + 1}, {killed}: {len(case.wanted) - len(verdict.lost)} of {len(case.wanted)} notifications"


def run_and_kill(case: Case, read_count: int, after_s: float, part: str, left_s: float) -> bool:
    """Start it, and kill a part of it `after_s` after the store holds `read_count` messages more, or at an earlier end.

    The other parts may react for `left_s`; then all is killed.

    Returns:
        Whether the part was there.
    """
    with case.store() as store:
        before = store.counts().read
    child = start(case)
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("done") or before + int(line) >= read_count:
            break
    time.sleep(after_s)
    was_there = part == "all" or kill_part(child, part)
    if part != "all" and was_there:
        time.sleep(left_s)
    kill_group(child)
    child.stdout.close()
    return was_there


def run_to_the_end(case: Case, spark: SparkSession) -> int:
    """Run what is left on the session of all tests; return the number of messages that it read."""
    from tamis.spark import Pipeline

    with case.store() as store:
        return Pipeline(PipelineConfig.load(case.toml), store, spark).run(once=True).read


def assert_all_delivered_once(case: Case) -> None:
    """Check that there is one e-mail and one line per notification, even after a kill between sending and recording."""
    with case.store() as store:
        counts = store.counts()
    assert (counts.deliveries_delivered, counts.deliveries_pending) == (2 * len(case.wanted), 0)
    assert len(list((case.folder / "outbox").glob("*.eml"))) == len(case.wanted)
    told = [json.loads(line)["id"] for line in (case.folder / "lines.jsonl").read_text().splitlines()]
    assert len(told) == len(set(told)) == len(case.wanted)


def assert_all_noted_once(case: Case) -> None:
    """Check that the store has one note per message that was read, for traces."""
    with case.store() as store, store._read() as connection:
        places = connection.exec_driver_sql('SELECT "offset" FROM seen').scalars().all()
    assert len(places) == len(set(places)) == MESSAGES


# --- killed at the worst points, and the two controls ---------------------------------------------------------------
#
# A commit that raises leaves the store and the checkpoint as a kill at that point does, and needs no new Java.


Result = BatchResult | Iterable[BatchResult]


class CrashError(StoreError):
    """The planted crash."""


class CrashingStore(Store):
    """Crashes once, in the third batch: before its commit, between two pieces of it, before its fan-out, or after."""

    crash_before = crash_between = crash_before_fan_out = crash_after = False
    _commits = 0

    def _write_piece(self, *arguments: Any) -> None:
        super()._write_piece(*arguments)
        if self.crash_between and self._commits == 3:
            raise CrashError("planted")

    def _record(self, *arguments: Any) -> None:
        if self.crash_between and self._commits == 3:
            raise CrashError("planted")
        super()._record(*arguments)

    def _fan_out_piece(self) -> bool:
        if self.crash_before_fan_out and self._commits == 3:
            raise CrashError("planted")
        return super()._fan_out_piece()

    def commit_batch(
        self, stream: str, batch_id: int, result: Result, default_deliveries: Sequence[str] = (), *seen: Any
    ) -> BatchCounts:
        self._commits += 1
        if self.crash_before and self._commits == 3:
            raise CrashError("planted")
        counts = self.commit(stream, batch_id, result, default_deliveries, *seen)
        if self.crash_after and self._commits == 3:
            raise CrashError("planted")
        return counts

    def commit(
        self, stream: str, batch_id: int, result: Result, default_deliveries: Sequence[str], *seen: Any
    ) -> BatchCounts:
        return super().commit_batch(stream, batch_id, result, default_deliveries, *seen)

    def commit_staged(self, stream: str, batch_id: int, *staged: Any) -> BatchCounts:
        self._commits += 1
        if self.crash_before and self._commits == 3:
            raise CrashError("planted")
        counts = self.move(stream, batch_id, *staged)
        if self.crash_after and self._commits == 3:
            raise CrashError("planted")
        return counts

    def move(self, stream: str, batch_id: int, *staged: Any) -> BatchCounts:
        return super().commit_staged(stream, batch_id, *staged)


class RandomIds(CrashingStore):
    """The first control: random notification ids, and no batch id in the transaction."""

    def batch_counts(self, stream: str, batch_id: int) -> BatchCounts | None:
        return None

    def commit(
        self, stream: str, batch_id: int, result: Result, default_deliveries: Sequence[str], *seen: Any
    ) -> BatchCounts:
        stream = f"{stream}-{uuid.uuid4().hex}"  # an unknown batch
        self.pin_batch(stream, batch_id)
        return super().commit(stream, batch_id, map(_renamed, _parts(result)), default_deliveries, *seen)

    def move(self, stream: str, batch_id: int, staging: Staging, *rest: Any) -> BatchCounts:
        stream = f"{stream}-{uuid.uuid4().hex}"
        self.pin_batch(stream, batch_id)
        with self._write() as connection:
            renamed = f"UPDATE {staging.notifications} SET notification_id = md5(random()::text)"
            connection.exec_driver_sql(renamed)
        return super().move(stream, batch_id, staging, *rest)


def _parts(result: Result) -> list[BatchResult]:
    return [result] if isinstance(result, BatchResult) else list(result)


def _renamed(part: BatchResult) -> BatchResult:
    named = [notification._replace(id=uuid.uuid4().hex) for notification in part.notifications]
    return BatchResult(part.messages, named, (), part.read_count, part.matched_count)


class LedgerFirst(CrashingStore):
    """The second control: the batch is recorded as done before its notifications are written."""

    def commit_batch(
        self, stream: str, batch_id: int, result: Result, default_deliveries: Sequence[str] = (), *seen: Any
    ) -> BatchCounts:
        parts = _parts(result)
        self.commit(stream, batch_id, BatchResult(read_count=sum(part.read_count for part in parts)), ())
        self.pin_batch(f"{stream}-late", batch_id)
        return super().commit_batch(f"{stream}-late", batch_id, parts, default_deliveries, *seen)

    def commit_staged(
        self, stream: str, batch_id: int, staging: Staging, source: str, staged: BatchCounts, *rest: Any
    ) -> BatchCounts:
        self.move(stream, batch_id, self.begin_staging(), source, BatchCounts(staged.read, 0, 0, 0), *rest[:1])
        self.pin_batch(f"{stream}-late", batch_id)
        return super().commit_staged(f"{stream}-late", batch_id, staging, source, staged, *rest)


@pytest.fixture
def case(tmp_path: Path, shared: Path, place: str) -> Case:
    return Case(tmp_path, real_messages(shared, 5 * BATCH_MESSAGES), place)


def crash_and_restart(case: Case, spark: SparkSession, kind: type[CrashingStore], place: str) -> Verdict:
    from tamis.spark import Pipeline

    config = PipelineConfig.load(case.toml)
    with kind.open(case.place) as store:
        setattr(store, place, True)
        with pytest.raises(CrashError):
            Pipeline(config, store, spark).run(once=True)
    with kind.open(case.place) as store:
        Pipeline(config, store, spark).run(once=True)
    return case.verdict()


@pytest.mark.parametrize("place", ["crash_before", "crash_between", "crash_before_fan_out", "crash_after"])
def test_killed_around_the_commit_nothing_is_lost_or_doubled(
    case: Case, spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "PIECE_ROWS", 3)
    assert crash_and_restart(case, spark, CrashingStore, place) == CLEAN
    assert_all_delivered_once(case)


def test_control_random_ids_without_the_batch_id_double(case: Case, spark: SparkSession) -> None:
    verdict = crash_and_restart(case, spark, RandomIds, "crash_after")
    assert verdict.doubled
    assert not verdict.lost


def test_control_a_batch_noted_before_its_notifications_loses(case: Case, spark: SparkSession) -> None:
    verdict = crash_and_restart(case, spark, LedgerFirst, "crash_before")
    assert verdict.lost
    assert not verdict.doubled


def test_a_replay_sees_the_queries_of_the_first_try(case: Case, spark: SparkSession) -> None:
    from tamis.spark import Pipeline

    config = PipelineConfig.load(case.toml)
    with CrashingStore.open(case.place) as store:
        store.crash_before = True
        with pytest.raises(CrashError):
            Pipeline(config, store, spark).run(once=True)
        store.add_query(QuerySpec("late", "TRUE"))
    with case.store() as store:
        Pipeline(config, store, spark).run(once=True)
        late = {match[4] for match in outbox(store) if match[0] == "late"}
        with store._read() as connection:
            statement = "SELECT batch_id, revision FROM batches ORDER BY batch_id"
            revisions = [row.revision for row in connection.exec_driver_sql(statement)]
    assert revisions == [1, 1, 1, 2, 2]
    assert len(late) == 2 * BATCH_MESSAGES
