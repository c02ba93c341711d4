"""What is old and settled is pruned; what is pending, young or needed by another stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tamis.config.deliveries import StoreDelivery
from tamis.notify.engine import NotificationEngine
from tamis.query import QuerySpec
from tamis.store import Outcome, Store
from tamis.store.retention import PRUNED_BATCH, VERSIONS_KEPT
from tamis.store.seen import SeenBatch, SeenMessage
from tamis.store_place import ServerUrl
from tests.store.rows import fill, message, result

_SOON = timedelta(minutes=1)


@pytest.fixture
def later() -> datetime:
    """Return a time after everything that the test has stored."""
    return datetime.now(UTC) + _SOON


def _deliver(store: Store, count: int) -> None:
    due = store.due_deliveries("outbox", count)
    store.record_outcomes(Outcome(it.delivery_id, "delivered") for it in due)


def _rows(store: Store) -> dict[str, int]:
    tables = ("messages", "outbox", "deliveries", "delivery_steps", "dead_letters", "pruned_notifications")
    with store._read() as connection:
        counts = {name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in tables}
        if not isinstance(store.path, ServerUrl):  # PostgreSQL checks them at every statement
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
    return counts


def _prune_all(store: Store, before: datetime) -> int:
    total = 0
    while pruned := store.prune(before):
        total += pruned
    return total


def test_what_is_settled_goes_and_what_is_pending_stays(store: Store, later: datetime) -> None:
    fill(store, 3)
    _deliver(store, 2)
    assert store.prune(datetime.now(UTC) - _SOON) == 0, "it is young"
    assert _prune_all(store, later) == 2
    told = {"messages": 1, "outbox": 1, "deliveries": 1, "delivery_steps": 0}
    assert _rows(store) == {**told, "dead_letters": 0, "pruned_notifications": 2}
    assert [it.notification.offset for it in store.due_deliveries("outbox", 9)] == [2]


def test_a_message_stays_while_another_notification_is_about_it(store: Store, later: datetime) -> None:
    for key in ("frost", "heat"):
        store.add_query(QuerySpec(key, "a = 1", deliveries=("outbox",)))
    store.pin_batch("s", 0)
    store.commit_batch("s", 0, result([message(0)], ["frost", "heat"]))
    _deliver(store, 1)
    assert _prune_all(store, later) == 1
    assert _rows(store)["messages"] == 1
    _deliver(store, 1)
    assert _prune_all(store, later) == 1
    assert _rows(store)["messages"] == 0


def test_a_pruned_notification_is_never_made_again(store: Store, later: datetime) -> None:
    fill(store, 2)
    _deliver(store, 2)
    assert _prune_all(store, later) == 2
    store.pin_batch("t", 0)
    assert store.commit_batch("t", 0, result(map(message, range(3)))).notifications == 1
    assert [it.notification.offset for it in store.due_deliveries("outbox", 9)] == [2]


def test_it_goes_in_pieces_and_takes_dead_letters_along(store: Store, later: datetime) -> None:
    fill(store, 1200)
    store.pin_batch("s", 1)
    store.commit_batch("s", 1, result([], dead=3))
    _deliver(store, 1200)
    assert [store.prune(later) for _ in range(4)] == [503, 500, 200, 0]
    assert set(_rows(store).values()) == {0, 1200}


def test_a_pipeline_prunes_once_an_hour(store: Store) -> None:
    fill(store, 1)
    times = [datetime.now(UTC) + timedelta(days=2)]
    rows = StoreDelivery(name="outbox", type="store")
    engine = NotificationEngine(store, [rows], lambda: times[-1], keep=timedelta(days=1))
    assert engine.deliver_pending().delivered == 1
    assert _rows(store)["outbox"] == 0
    store.pin_batch("s", 1)
    note = SeenMessage("mail/a.mbox", 1, "00", None, 1)
    store.commit_batch("s", 1, result([message(1)]), (), SeenBatch("inbox", [note], 9))
    engine.deliver_pending()
    assert _rows(store)["outbox"] == 1
    assert store.trace("mail/a.mbox:1").seen
    times.append(times[-1] + timedelta(hours=1))
    engine.deliver_pending()
    assert _rows(store)["outbox"] == 0
    assert not store.trace("mail/a.mbox:1").seen


def test_batches_without_notifications_go_and_totals_stay(store: Store, later: datetime) -> None:
    fill(store, 3)
    for number in range(1, 8):
        store.pin_batch("s", number)
        store.commit_batch("s", number, result([], dead=number))
    store.pin_batch("other", 5)
    store.commit_batch("other", 5, result([]))
    store.pin_batch("s", 8)
    before = store.counts()
    assert store.prune_history(datetime.now(UTC) - _SOON) == 0, "they are young"
    assert _prune_history(store, later) == 6
    assert _prune_history(store, later) == 0
    after = store.counts()
    assert (after.read, after.matched, after.notifications) == (before.read, before.matched, before.notifications)
    kept = [("other", 5), ("s", PRUNED_BATCH), ("s", 0), ("s", 7), ("s", 8)]
    assert _select(store, "SELECT stream, batch_id FROM batches ORDER BY 1, 2") == kept
    assert store.batch_counts("s", 7) is not None, "a replay of the last one finds it"
    _deliver(store, 3)
    _prune_all(store, later)
    assert _prune_history(store, later) == 1, "its notifications are gone"
    assert store.counts().read == before.read


def test_old_versions_go_but_for_the_last_and_for_what_is_needed(store: Store, later: datetime) -> None:
    fill(store, 1)  # about version 1
    for number in range(VERSIONS_KEPT + 10):
        if number == 4:
            pinned = store.pin_batch("s", 1)
        store.add_query(QuerySpec("frost", f"a = {number}"))
        store.set_hierarchy("place", {"x": None, f"y{number}": "x"})
    needed = store.queries_at(pinned)
    history = store.query_history("frost")
    assert store.prune_history(datetime.now(UTC) - _SOON) == 0, "they are young"
    _prune_history(store, later)
    assert store.queries_at(pinned) == needed, "a batch is unfinished"
    assert [it.version for it in store.query_history("frost")][:4] == [1, 5, 6, 7], "2 to 4 ended before"
    store.commit_batch("s", 1, result([]))
    _prune_history(store, later)
    kept = store.query_history("frost")
    assert kept == [history[0], *history[-VERSIONS_KEPT:]], "a notification is about the first"
    assert len(_select(store, "SELECT 1 FROM hierarchy_versions")) == VERSIONS_KEPT
    assert len(_select(store, "SELECT 1 FROM revisions")) <= 2 * VERSIONS_KEPT + 4
    restored = store.undo_query("frost")
    assert restored is not None
    assert restored.version == history[-1].version + 1
    _rows(store)


def _prune_history(store: Store, before: datetime) -> int:
    total = 0
    while pruned := store.prune_history(before):
        total += pruned
    return total


def _select(store: Store, statement: str) -> list[tuple[object, ...]]:
    with store._read() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]
