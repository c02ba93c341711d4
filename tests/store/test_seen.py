"""Each message that was read is noted once, however often its batch is written; the oldest notes make room."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.query import QuerySpec
from tamis.store import BatchCounts, Store, Trace
from tamis.store.seen import SeenBatch, SeenMessage, SeenRecord
from tests.store.rows import message, result

BOX = "mail/a.mbox"


def note(offset: int, matches: int = 0, partition: str = BOX) -> SeenMessage:
    return SeenMessage(partition, offset, f"d{offset}", f"<{offset}@example.org>", matches)


def commit(store: Store, batch_id: int, notes: list[SeenMessage], kept: int = 1_000) -> None:
    store.pin_batch("s", batch_id)
    store.commit_batch("s", batch_id, result([]), (), SeenBatch("inbox", iter(notes), kept))


def offsets(store: Store) -> list[int]:
    with store._read() as connection:
        return list(connection.exec_driver_sql('SELECT "offset" FROM seen ORDER BY seq').scalars())


@pytest.mark.parametrize("name", ["5@example.org", "<5@example.org>", "d5", f"{BOX}:5"])
def test_a_message_without_a_match_is_found(store: Store, name: str) -> None:
    before = datetime.now(UTC)
    commit(store, 3, [note(4), note(5), note(6)])
    trace = store.trace(name)
    (found,) = trace.seen
    assert before <= found.at <= datetime.now(UTC)
    place = (3, "inbox", BOX, 5, "d5", "<5@example.org>", 0)
    assert trace == Trace(seen=(SeenRecord(found.seq, found.at, *place),))


def test_a_message_that_matched_has_its_notes_by_every_name(store: Store) -> None:
    store.add_query(QuerySpec("frost", "TRUE"))
    mail = message(5, digest="d5", message_id="<5@example.org>")
    store.pin_batch("s", 0)
    notes = [note(5, 1), note(7)._replace(message_id="<5@example.org>")]
    store.commit_batch("s", 0, result([mail]), (), SeenBatch("inbox", notes, 9))
    (notification_id,) = store.notification_ids()
    for name, places in (("5@example.org", [5, 7]), (f"{BOX}:5", [5, 7]), (f"{BOX}:7", [5, 7]), ("d5", [5])):
        trace = store.trace(name)
        assert [it.offset for it in trace.seen] == places
        assert [it.id for it in trace.notifications] == [notification_id]
    assert [it.matches for it in store.trace(notification_id).seen] == [1]


@pytest.mark.parametrize("name", ["", "<>", ":", f"{BOX}:", f"{BOX}:x", f"{BOX}:{2**64}", ":5", "example.org", "5"])
def test_what_names_no_message_finds_none(store: Store, name: str) -> None:
    commit(store, 0, [note(5)])
    assert store.trace(name) == Trace()


def test_a_batch_that_is_written_again_adds_nothing(store: Store) -> None:
    commit(store, 0, [note(0), note(1)])
    commit(store, 0, [note(0), note(1)])
    assert offsets(store) == [0, 1]


def test_a_batch_that_fails_leaves_no_note(store: Store) -> None:
    def failing() -> Iterator[SeenMessage]:
        yield note(0)
        raise RuntimeError("planted")

    store.pin_batch("s", 0)
    with pytest.raises(RuntimeError, match="planted"):
        store.commit_batch("s", 0, result([]), (), SeenBatch("inbox", failing(), 9))
    assert offsets(store) == []
    assert store.batch_counts("s", 0) is None
    commit(store, 0, [note(0)])
    assert offsets(store) == [0]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=8), kept=st.integers(1, 12))
def test_the_last_notes_are_kept(store: Store, sizes: list[int], kept: int) -> None:
    store.keep_seen(0)
    with store._write() as connection:
        connection.exec_driver_sql("DELETE FROM batches")
    read = 0
    for batch_id, size in enumerate(sizes):
        commit(store, batch_id, [note(read + number) for number in range(size)], kept)
        read += size
        assert offsets(store) == list(range(max(0, read - kept), read))
    store.keep_seen(kept // 2)
    assert offsets(store) == list(range(read - min(read, kept // 2), read))


def test_old_notes_are_pruned(store: Store) -> None:
    commit(store, 0, [note(number) for number in range(20)])
    middle = datetime.now(UTC)
    commit(store, 1, [note(20)])
    assert store.prune_seen(middle - timedelta(minutes=1)) == 0
    assert store.prune_seen(middle) == 20
    assert offsets(store) == [20]
    assert store.prune_seen(middle) == 0


def test_the_store_says_what_it_can_know(store: Store) -> None:
    assert store.memory().since is None
    commit(store, 0, [note(0)])
    since = store.memory().since
    assert since is not None
    store.pin_batch("t", 0)
    store.record_batch("t", 0, BatchCounts(1, 1, 1, 0), Path("/results"))
    assert store.memory().tables == ("/results",)
    assert store.memory().since == since
