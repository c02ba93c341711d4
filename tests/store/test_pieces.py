"""A batch that is written in pieces comes out as if it were written in one transaction, wherever it is killed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.errors import StoreError
from tamis.query import QuerySpec
from tamis.store import BatchResult, MessageRow, Store
from tamis.store import batches as batches_module
from tests.store.rows import dead_letter, message, notification

KEYS = {"frost": ("outbox",), "heat": ("mails", "outbox"), "plain": ()}
DEFAULTS = ("rows", "rows")
PLACES = 4


class CrashError(Exception):
    """The planted crash."""


class CrashingStore(Store):
    """Crashes after some transactions of commits; other writes do not count."""

    crash_after: int | None = None
    shown: set[str] | None = None

    def _write_piece(self, *arguments: Any) -> None:
        super()._write_piece(*arguments)
        self._crash()

    def _finish_batch(self, *arguments: Any) -> Any:
        counts = super()._finish_batch(*arguments)
        self._crash()
        return counts

    def _fan_out_piece(self) -> bool:
        more = super()._fan_out_piece()
        if more:
            self._crash()
        return more

    def _crash(self) -> None:
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after <= 0:
                self.crash_after = None
                raise CrashError


class ShowingStore(CrashingStore):
    """The control: the batch counts as done from its first piece on."""

    def _write_piece(self, stream: str, batch_id: int, piece: Any) -> None:
        with self._write() as connection:
            done = "UPDATE batches SET done = 1, committed_at = pinned_at WHERE stream = ? AND batch_id = ?"
            connection.exec_driver_sql(done, (stream, batch_id))
        super()._write_piece(stream, batch_id, piece)


class Naive:
    """The model: a batch is one step, which adds what is new."""

    def __init__(self) -> None:
        self.messages: dict[tuple[object, ...], MessageRow] = {}
        self.outbox: dict[str, tuple[str, tuple[object, ...]]] = {}
        self.deliveries: set[tuple[str, str]] = set()
        self.dead: set[tuple[object, ...]] = set()
        self.counts: dict[tuple[str, int], tuple[int, int, int, int]] = {}

    def commit(self, stream: str, batch_id: int, parts: list[BatchResult]) -> None:
        if (stream, batch_id) in self.counts:
            return
        new = dead = 0
        for part in parts:
            about = {row[:4]: row for row in part.messages}
            for it in part.notifications:
                self.messages.setdefault(it[3:], about[it[3:]])
                new += it.id not in self.outbox
                self.outbox.setdefault(it.id, (it.query_key, it[3:]))
                self.deliveries |= {(it.id, name) for name in KEYS[it.query_key] or DEFAULTS}
            for letter in part.dead_letters:
                dead += letter[:4] not in self.dead
                self.dead.add(letter[:4])
        read, matched = (sum(getattr(it, name) for it in parts) for name in ("read_count", "matched_count"))
        self.counts[stream, batch_id] = (read, matched, new, dead)


def state_of(store: Store) -> Naive:
    """Return what readers see of the store, as a model."""
    seen = Naive()
    seen.messages = {row[:4]: row for _, row in store.messages()}
    for it in store.notifications(None):
        seen.outbox[it.id] = (it.query_key, (it.source, it.partition, it.offset, it.digest))
    assert set(seen.outbox) == store.notification_ids()
    log = [(it.notification_id, it.delivery) for it in store.deliveries(100_000)]
    seen.deliveries = set(log)
    assert len(log) == len(seen.deliveries)
    due = [(it.notification.id, name) for name in store.pending_delivery_names() for it in due_of(store, name)]
    assert sorted(due) == sorted(log)
    seen.dead = {(it.source, it.partition, it.offset, it.digest) for it in store.dead_letters(None)}
    for stream in ("a", "b"):
        for batch_id in range(2):
            if counts := store.batch_counts(stream, batch_id):
                seen.counts[stream, batch_id] = (counts.read, counts.matched, counts.notifications, counts.dead)
    return seen


def due_of(store: Store, name: str) -> list[Any]:
    return store.due_deliveries(name, 100_000)


def is_same(seen: Naive, model: Naive) -> bool:
    return vars(seen) == vars(model)


def part_of(number: int, keys: list[str], dead: bool) -> BatchResult:
    about = message(number)
    letters = [dead_letter(100 + number)] if dead else []
    return BatchResult([about], [notification(key, 1, about) for key in keys], letters, 1 + dead, bool(keys))


PARTS = st.lists(
    st.builds(part_of, st.integers(0, PLACES), st.lists(st.sampled_from(sorted(KEYS)), max_size=4), st.booleans()),
    max_size=6,
)
STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 1), PARTS, st.one_of(st.none(), st.integers(1, 8))), max_size=6
)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a piece have two notifications, so that a small batch has several."""
    monkeypatch.setattr(batches_module, "PIECE_ROWS", 2)
    monkeypatch.setattr(batches_module, "_PAUSE_S", 0)


def open_store(folder: Path, kind: type[CrashingStore] = CrashingStore) -> CrashingStore:
    store = kind.open(folder / "tamis.sqlite")
    if not store.list_queries():
        store.add_queries([QuerySpec(key, "a = 1", deliveries=names) for key, names in KEYS.items()])
    return store


@given(steps=STEPS)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_and_crashes_give_what_one_transaction_gives(
    steps: list[Any], tmp_path_factory: pytest.TempPathFactory, small_pieces: None
) -> None:
    """A step commits a batch, or crashes in it after some transactions; the end replays every one."""
    folder, model = tmp_path_factory.mktemp("pieces"), Naive()
    contents: dict[tuple[str, int], list[BatchResult]] = {}
    for stream, batch_id, parts, crash_after in steps:
        parts = contents.setdefault((stream, batch_id), parts)  # a replay has the rows of the first time
        with open_store(folder) as store:
            store.pin_batch(stream, batch_id)
            store.crash_after = crash_after
            try:
                store.commit_batch(stream, batch_id, iter(parts), DEFAULTS)
            except CrashError:
                if store.batch_counts(stream, batch_id) is None:
                    seen = state_of(store) if not fans_out(store) else None
                    assert seen is None or is_same(seen, model), "something of a half-written batch is seen"
                    continue
            model.commit(stream, batch_id, parts)
    with open_store(folder) as store:
        for (stream, batch_id), parts in contents.items():
            store.commit_batch(stream, batch_id, iter(parts), DEFAULTS)
            model.commit(stream, batch_id, parts)
        store.fan_out()
        assert vars(state_of(store)) == vars(model)
        assert_whole(store)


def fans_out(store: Store) -> bool:
    with store._read() as connection:
        rows = connection.exec_driver_sql("SELECT count(*) FROM batches WHERE fanned_out_seq IS NOT NULL")
        return bool(rows.scalar_one())


def assert_whole(store: Store) -> None:
    with store._read() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []


BATCH = [part_of(number, ["frost", "heat", "plain"], dead=number == 0) for number in range(4)]
TRANSACTIONS = 6 + 1 + 7  # twelve notifications in pieces of two, the end of the batch, and the fan-out with its end


def crash(folder: Path, kind: type[CrashingStore], crash_after: int) -> Naive:
    """Crash in a batch after some transactions; return what is seen then."""
    with open_store(folder, kind) as store:
        store.pin_batch("a", 0)
        store.crash_after = crash_after
        with pytest.raises(CrashError):
            store.commit_batch("a", 0, iter(BATCH), DEFAULTS)
    with open_store(folder, kind) as store:
        return state_of(store)


@pytest.mark.parametrize("crash_after", range(1, 7))
def test_nothing_of_a_half_written_batch_is_seen(tmp_path: Path, small_pieces: None, crash_after: int) -> None:
    assert is_same(crash(tmp_path, CrashingStore, crash_after), Naive())
    with open_store(tmp_path) as store:
        assert store.counts().notifications == 0
        assert all(it.matches == 0 and it.first_subject is None for it in store.query_matches())
        assert store.timeline(by="date") == store.timeline() == []
        assert store.trace("00").places == ()


@pytest.mark.parametrize("crash_after", range(1, 7))
def test_control_a_batch_that_is_shown_before_its_end_is_caught(
    tmp_path: Path, small_pieces: None, crash_after: int
) -> None:
    assert not is_same(crash(tmp_path, ShowingStore, crash_after), Naive())
    with open_store(tmp_path) as store:
        store.commit_batch("a", 0, iter(BATCH), DEFAULTS)
        model = Naive()
        model.commit("a", 0, BATCH)
        assert set(state_of(store).outbox) < set(model.outbox) or crash_after == 6


@pytest.mark.parametrize("crash_after", range(1, TRANSACTIONS + 1))
def test_after_a_crash_anywhere_the_replay_finds_what_is_there(
    tmp_path: Path, small_pieces: None, crash_after: int
) -> None:
    crash(tmp_path, CrashingStore, crash_after)
    model = Naive()
    model.commit("a", 0, BATCH)
    with open_store(tmp_path) as store:
        store.commit_batch("a", 0, iter(BATCH), DEFAULTS)
        assert vars(state_of(store)) == vars(model)


def test_what_an_abandoned_batch_left_is_taken_over(tmp_path: Path, small_pieces: None) -> None:
    """The checkpoint of the first was deleted, so that it never comes back."""
    crash(tmp_path, CrashingStore, 5)
    with open_store(tmp_path) as store:
        store.pin_batch("b", 0)
        assert store.commit_batch("b", 0, iter(BATCH), DEFAULTS).notifications == 12
        seen = state_of(store)
        store.commit_batch("a", 0, iter(BATCH), DEFAULTS)
        assert seen.outbox == state_of(store).outbox
        counts = store.batch_counts("a", 0)
        assert counts is not None
        assert counts.notifications == 0


def test_a_batch_that_lost_rows_while_it_was_written_fails_and_its_replay_does_not(
    tmp_path: Path, small_pieces: None
) -> None:
    def parts(other: Store) -> Iterator[BatchResult]:
        """Let another process commit the same in the middle, and crash before its end."""
        yield from BATCH[:2]
        with pytest.raises(CrashError):
            other.commit_batch("b", 0, BATCH, DEFAULTS)
        yield from BATCH[2:]

    with open_store(tmp_path) as store, open_store(tmp_path) as other:
        store.pin_batch("a", 0)
        other.pin_batch("b", 0)
        other.crash_after = 3
        with pytest.raises(StoreError, match="another process took over notifications of batch 0 of 'a'"):
            store.commit_batch("a", 0, parts(other), DEFAULTS)
        assert is_same(state_of(store), Naive())
        assert store.commit_batch("a", 0, BATCH, DEFAULTS).notifications == 12


def test_a_piece_is_bounded_by_rows_and_by_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "PIECE_CHARACTERS", 1000)
    about = [message(number)._replace(body="x" * 600) for number in range(5)]
    parts = [BatchResult([it], [notification("frost", 1, it)]) for it in about]
    assert [len(piece.notifications) for piece in batches_module._pieces(parts)] == [2, 2, 1]
    many = [notification(f"q{number}", 1, about[0]) for number in range(2 * batches_module.PIECE_ROWS + 1)]
    pieces = list(batches_module._pieces([BatchResult(about[:1], many)]))
    assert [len(piece.notifications) for piece in pieces] == [batches_module.PIECE_ROWS] * 2 + [1]
    assert all(list(piece.messages.values()) == about[:1] for piece in pieces)


def test_another_writer_gets_its_turn_between_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes while the batch is written, and long before its end."""
    monkeypatch.setattr(batches_module, "PIECE_ROWS", 20)
    written_at: list[int] = []
    pieces = 0

    class CountingStore(Store):
        def _write_piece(self, *arguments: Any) -> None:
            nonlocal pieces
            super()._write_piece(*arguments)
            pieces += 1

    def write(path: Path) -> None:
        with Store.open(path) as other:
            for number in range(10):
                other.pin_batch("other", number)
                written_at.append(pieces)

    with CountingStore.open(tmp_path / "tamis.sqlite") as store:
        store.add_query(QuerySpec("frost", "a = 1"))
        store.pin_batch("s", 0)
        thread = threading.Thread(target=write, args=(store.path,))
        parts = (BatchResult([it], [notification("frost", 1, it)]) for it in map(message, range(4000)))
        thread.start()
        store.commit_batch("s", 0, parts)
        thread.join()
    assert pieces == 200
    assert written_at[-1] < 200


def test_a_busy_store_is_waited_for(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        holder = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN IMMEDIATE")
        ended = threading.Event()

        def end() -> None:
            time.sleep(0.3)
            ended.set()
            holder.execute("COMMIT")

        thread = threading.Thread(target=end)
        thread.start()
        store.pin_batch("s", 0)
        assert ended.is_set()
        thread.join()
        holder.close()


# --- killed for real ------------------------------------------------------------------------------------------------

CHILD = """
import sys, pathlib
from tamis.store import batches
from tests.store.test_pieces import BATCH, DEFAULTS, open_store
batches.PIECE_ROWS, batches._PAUSE_S = 2, 0.02
store = open_store(pathlib.Path(sys.argv[1]))
write, done = store._write, 0
def counted():
    global done
    done += 1
    print(done, flush=True)
    return write()
store._write = counted
store.commit_batch("a", 0, iter(BATCH), DEFAULTS)
"""


@pytest.mark.parametrize("kill_at", range(1, TRANSACTIONS + 1, 2))
def test_killed_between_pieces_nothing_is_lost_or_doubled(tmp_path: Path, kill_at: int) -> None:
    with open_store(tmp_path) as store:
        store.pin_batch("a", 0)
    child = subprocess.Popen([sys.executable, "-c", CHILD, tmp_path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= kill_at:
            break
    child.kill()
    child.wait()
    child.stdout.close()
    model = Naive()
    with open_store(tmp_path) as store:
        if store.batch_counts("a", 0) is None:
            assert is_same(state_of(store), model)
        model.commit("a", 0, BATCH)
        store.commit_batch("a", 0, iter(BATCH), DEFAULTS)
        assert vars(state_of(store)) == vars(model)
