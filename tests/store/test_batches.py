"""A batch sees one state of the queries, and its results are stored exactly once."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from tamis.query import QuerySpec
from tamis.store import BatchCounts, BatchResult, Store
from tamis.store import batches as batches_module
from tamis.store import outbox as outbox_module
from tamis.store_place import ServerUrl
from tests.store.rows import dead_letter, message, notification, result


@pytest.fixture
def frost(store: Store) -> Store:
    """Open a store with the query `frost`, for the delivery `outbox`."""
    store.add_query(QuerySpec("frost", "a = 1", deliveries=("outbox",)))
    return store


def test_a_batch_is_pinned_for_ever(store: Store) -> None:
    assert store.pin_batch("s", 0) == 0
    store.add_query(QuerySpec("a", "x = 1"))
    assert store.pin_batch("s", 0) == 0
    assert store.pin_batch("s", 1) == 1
    assert store.pin_batch("other", 0) == 1


def test_a_pin_is_there_for_another_process_at_once(store: Store) -> None:
    store.pin_batch("s", 0)
    with Store.open(store.path) as other:
        other.add_query(QuerySpec("a", "x = 1"))
        assert other.pin_batch("s", 0) == 0


def test_a_batch_comes_out_as_it_went_in(frost: Store) -> None:
    frost.pin_batch("s", 0)
    counts = frost.commit_batch("s", 0, result([message(0), message(9)], dead=1))
    assert counts == BatchCounts(read=3, matched=2, notifications=2, dead=1)
    assert frost.batch_counts("s", 0) == counts
    newest, oldest = frost.notifications()
    assert (oldest.offset, oldest.body, oldest.query_text, oldest.topic) == (0, "body 0", "a = 1", "mail.inbox")
    assert newest.seq > oldest.seq
    assert [letter.raw for letter in frost.dead_letters()] == [b"\xff raw"]
    assert [record.delivery for record in frost.deliveries()] == ["outbox", "outbox"]


def test_a_replay_changes_nothing(frost: Store) -> None:
    frost.pin_batch("s", 0)
    batch = result([message(0), message(9)], dead=1)
    first = frost.commit_batch("s", 0, batch)
    before = (frost.counts(), frost.notifications(), frost.dead_letters())
    assert frost.commit_batch("s", 0, batch) == first
    assert (frost.counts(), frost.notifications(), frost.dead_letters()) == before


def test_another_stream_over_the_same_source_doubles_nothing(frost: Store) -> None:
    for stream in ("checkpoint 1", "checkpoint 2"):
        frost.pin_batch(stream, 0)
        frost.commit_batch(stream, 0, result([message(0)], dead=1))
    assert len(frost.notifications()) == len(frost.dead_letters()) == len(frost.deliveries()) == 1
    assert frost.batch_counts("checkpoint 2", 0) == BatchCounts(read=2, matched=1, notifications=0, dead=0)


def test_queries_that_name_no_delivery_have_the_default(frost: Store) -> None:
    frost.add_query(QuerySpec("plain", "a = 2"))
    frost.pin_batch("s", 0)
    frost.commit_batch("s", 0, result([message(0)], ["frost", "plain"]), default_deliveries=["rows", "rows"])
    assert sorted((record.query_key, record.delivery) for record in frost.deliveries()) == [
        ("frost", "outbox"),
        ("plain", "rows"),
    ]


def test_deliveries_are_those_of_the_version_that_matched(frost: Store) -> None:
    frost.pin_batch("s", 0)
    frost.add_query(QuerySpec("frost", "a = 1", deliveries=("elsewhere",)))
    frost.commit_batch("s", 0, result([message(0)]))
    assert [record.delivery for record in frost.deliveries()] == ["outbox"]


def test_a_batch_that_was_never_pinned_is_refused(frost: Store) -> None:
    with pytest.raises(KeyError, match="never pinned"):
        frost.commit_batch("s", 7, result([message(0)]))


def test_a_notification_without_its_message_is_refused_and_nothing_is_written(frost: Store) -> None:
    frost.pin_batch("s", 0)
    about = message(0)
    with pytest.raises(IntegrityError):
        frost.commit_batch("s", 0, BatchResult([message(5)], [notification("frost", 1, about)], [dead_letter(1)], 3, 2))
    assert frost.notifications() == frost.dead_letters() == []
    assert frost.batch_counts("s", 0) is None


@pytest.mark.serial
def test_two_thousand_messages_are_committed_within_the_batch_interval(frost: Store) -> None:
    frost.pin_batch("s", 0)
    batch = result(map(message, range(2000)))
    began = time.process_time()
    frost.commit_batch("s", 0, batch)
    assert time.process_time() - began < 1  # measured: 0.1 s of processor time


def test_texts_of_every_kind_come_back(frost: Store, tmp_path: Path) -> None:
    odd = "tab\t nul\0 line\n é \U0001f9c2 'quote' %"
    frost.pin_batch("s", 0)
    about = message(2**62, partition=odd, subject=odd)._replace(body=odd, xml=odd, topic=odd)
    frost.commit_batch("s", 0, result([about]))
    (record,) = frost.notifications()
    if isinstance(frost.path, ServerUrl):
        odd = odd.replace("\0", "\ufffd")  # PostgreSQL keeps no NUL
    assert (record.partition, record.body, record.xml, record.topic, record.offset) == (odd, odd, odd, odd, 2**62)


def test_another_message_at_the_same_place_is_told_with_its_own_text(frost: Store) -> None:
    """A file that was replaced has other messages at the bytes where it had some before."""
    first, same, other = message(0), message(0), message(0, digest="ff")._replace(body="replaced")
    for number, about in enumerate([first, same, other]):
        frost.pin_batch(f"checkpoint {number}", 0)
        letters = [dead_letter(9, about.digest)]
        batch = BatchResult([about], [notification("frost", 1, about)], letters, 2, 1)
        counts = frost.commit_batch(f"checkpoint {number}", 0, batch)
        assert (counts.notifications, counts.dead) == ((0, 0) if about is same else (1, 1))
    assert [record.body for record in frost.notifications()] == ["replaced", "body 0"]
    assert len(frost.deliveries()) == len(frost.dead_letters()) == 2
    assert {due.notification.body for due in frost.due_deliveries("outbox", 9)} == {"replaced", "body 0"}


def test_a_page_of_due_deliveries_ends_with_the_message_that_is_too_much(
    frost: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    frost.pin_batch("s", 0)
    abouts = [message(number)._replace(body="x" * 1_000) for number in range(7)]
    frost.commit_batch("s", 0, result(abouts))
    assert len(frost.due_deliveries("outbox", 9)) == 7
    monkeypatch.setattr(outbox_module, "PAGE_CHARACTERS", 2_500)
    assert [due.notification.offset for due in frost.due_deliveries("outbox", 9)] == [0, 1, 2]
    assert len(frost.due_deliveries("outbox", 2)) == 2
    monkeypatch.setattr(outbox_module, "PAGE_CHARACTERS", 1)
    assert len(frost.due_deliveries("outbox", 9)) == 1


def test_a_notification_is_as_old_as_the_commit_and_not_as_its_beginning(
    frost: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inserted_at = []
    insert = batches_module._insert_new

    def insert_slowly(*arguments: Any) -> int:
        count = insert(*arguments)
        time.sleep(0.02)
        inserted_at.append(datetime.now(UTC))
        return count

    monkeypatch.setattr(batches_module, "_insert_new", insert_slowly)
    frost.pin_batch("s", 0)
    frost.commit_batch("s", 0, result([message(0)], dead=1))
    (record,) = frost.notifications()
    assert inserted_at[-1] <= record.created_at <= datetime.now(UTC)
    (matches,) = frost.query_matches()
    assert matches.last_match_at == record.created_at
    assert len(inserted_at) == 3
