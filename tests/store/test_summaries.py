"""The store summarizes counts, matches, timelines and dead letters."""

from __future__ import annotations

from datetime import UTC, datetime

from tamis.query import QuerySpec
from tamis.store import Counts, Store
from tests.store.rows import fill, message, result


def test_an_empty_store_counts_nothing(store: Store) -> None:
    assert store.counts() == Counts(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert store.query_matches() == store.timeline() == store.notifications() == store.dead_letters() == []
    assert store.delivery_counts() == {}


def test_every_query_has_its_matches_and_its_first_subject(store: Store) -> None:
    store.add_queries([QuerySpec("frost", "a = 1"), QuerySpec("never", "a = 2"), QuerySpec("late", "a = 3")])
    for batch_id, keys in enumerate((["frost"], ["frost", "late"])):
        store.pin_batch("s", batch_id)
        about = message(batch_id, date=f"2002-08-2{batch_id}T23:30:00-05:00")
        store.commit_batch("s", batch_id, result([about], keys, dead=1))
    frost, never, late = store.query_matches("day", by="date")
    assert (frost.key, frost.matches, frost.first_subject) == ("frost", 2, "message 0")
    assert frost.timeline == ((datetime(2002, 8, 21, tzinfo=UTC), 1), (datetime(2002, 8, 22, tzinfo=UTC), 1))
    assert (never.matches, never.first_subject, never.last_match_at, never.timeline) == (0, None, None, ())
    assert (late.matches, late.first_subject) == (1, "message 1")
    assert store.timeline("month", by="date") == [(datetime(2002, 8, 1, tzinfo=UTC), 3)]
    counts = store.counts()
    assert (counts.read, counts.matched, counts.notifications, counts.dead_letters) == (4, 2, 3, 1)


def test_a_new_version_of_a_query_keeps_its_matches(store: Store) -> None:
    fill(store, 3)
    store.add_query(QuerySpec("frost", "a = 2"))
    (frost,) = store.query_matches()
    assert (frost.version, frost.matches) == (2, 3)


def test_the_timeline_by_match_is_in_steps_of_time(store: Store) -> None:
    fill(store, 3)
    ((minute, count),) = store.timeline()
    assert count == 3
    assert abs((datetime.now(UTC) - minute).total_seconds()) < 120
    assert store.timeline(query_key="frost") == [(minute, 3)]
    assert store.timeline(query_key="nobody") == []


def test_messages_without_a_date_or_a_subject_do_no_harm(store: Store) -> None:
    store.add_query(QuerySpec("frost", "a = 1"))
    store.pin_batch("s", 0)
    odd = [message(0)._replace(properties="{}"), message(1)._replace(properties="not json"), message(2, date="soon")]
    store.commit_batch("s", 0, result(odd))
    (frost,) = store.query_matches("day", by="date")
    assert (frost.matches, frost.first_subject, frost.timeline) == (3, None, ())


def test_notifications_can_be_followed(store: Store) -> None:
    fill(store, 5)
    first = store.notifications(2, newest_first=False)
    rest = store.notifications(None, after=first[-1].seq, newest_first=False)
    assert [record.offset for record in first + rest] == [0, 1, 2, 3, 4]
    assert [record.offset for record in store.notifications(1, "frost")] == [4]
    assert store.notifications(query_key="nobody") == []


def test_adapters_say_how_they_are(store: Store) -> None:
    (inbox,) = store.adapter_states(["inbox"])
    assert (inbox.desired, inbox.status, inbox.read_count, inbox.last_batch_at) == ("running", "stopped", 0, None)
    store.report_adapter("inbox", "running", read_count=10, dead_count=1)
    store.report_adapter("inbox", "failed", error="no such folder", read_count=5)
    store.set_adapter_desired("inbox", "paused")
    store.report_adapter("feed", "running")
    feed, inbox = store.adapter_states()
    assert (inbox.desired, inbox.status, inbox.last_error) == ("paused", "failed", "no such folder")
    assert (inbox.read_count, inbox.dead_count) == (15, 1)
    assert inbox.last_batch_at is not None
    assert (feed.name, feed.last_batch_at) == ("feed", None)
    store.report_adapter("inbox", "running")
    assert store.adapter_states(["inbox"])[0].last_error is None
