"""An adapter's messages are read again for queries that came later."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tamis
from tamis.errors import AdapterError, StoreError
from tamis.spark import backfill as module
from tamis.spark.backfill import BackfillSummary, backfill
from tamis.spark.lease import held_lease

from .conftest import Workshop
from .mail import QUERIES, outbox, real_messages, write_mbox

pytestmark = pytest.mark.spark


def fill(workshop: Workshop, name: str = "lines", **options: object) -> BackfillSummary:
    return backfill(workshop.config, workshop.store, name, spark=workshop.spark, **options)


def write_lines(path: Path, numbers: range) -> None:
    with path.open("a", encoding="utf-8") as file:
        for number in numbers:
            file.write(json.dumps({"n": number, "date": f"2026-11-{number + 1:02}T12:00:00Z"}) + "\n")


def found(workshop: Workshop, key: str) -> list[int]:
    return sorted(it.message_properties()["n"] for it in workshop.store.notifications(None, key))


def test_a_query_that_came_later_matches_what_was_read_before(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 4)
    path = workshop.folder / "in.jsonl"
    write_lines(path, range(10))
    workshop.adapter("lines", "jsonl", path)
    workshop.store.add_query(tamis.QuerySpec("early", "n >= 0"))
    workshop.run()
    workshop.store.add_queries([tamis.QuerySpec("late", "n > 1"), tamis.QuerySpec("other", "n > 1")])
    seen: list[tuple[int, int]] = []
    summary = fill(workshop, keys=["late"], progress=lambda done, total: seen.append((done, total)))
    assert summary == BackfillSummary(read=10, matched=8, notifications=8)
    assert (found(workshop, "late"), found(workshop, "other")) == ([*range(2, 10)], [])
    size = path.stat().st_size
    assert (seen[0], seen[-1]) == ((0, size), (size, size))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    since = datetime(2026, 11, 9, tzinfo=UTC)
    assert fill(workshop, since=since) == BackfillSummary(read=10, older=8, matched=2, notifications=2)
    assert found(workshop, "other") == [8, 9]
    assert fill(workshop).notifications == 6  # what is left of `other`; nothing is doubled
    assert [len(found(workshop, key)) for key in ("early", "late", "other")] == [10, 8, 8]
    assert fill(workshop).notifications == 0
    assert workshop.run().read == 0  # the adapter goes on where it was


def test_what_is_filled_in_first_is_not_notified_again_by_the_pipeline(workshop: Workshop, shared: Path) -> None:
    box = workshop.folder / "inbox"
    write_mbox(box, real_messages(shared, 60))
    workshop.adapter("inbox", "mbox", box)
    workshop.store.add_queries(QUERIES)
    summary = fill(workshop, "inbox")
    filled = sorted(outbox(workshop.store))
    assert (summary.read, summary.notifications) == (60, len(filled))
    texts = [it.properties for it in workshop.store.notifications(None)]
    summary = workshop.run()
    assert summary.read == 60
    assert sorted(outbox(workshop.store)) == filled
    assert [it.properties for it in workshop.store.notifications(None)] == texts


def test_a_message_that_cannot_be_read_is_a_dead_letter_once(workshop: Workshop) -> None:
    path = workshop.folder / "in.jsonl"
    path.write_text('{"n": 1}\nno json\n')
    workshop.adapter("lines", "jsonl", path)
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0"))
    for _ in range(2):
        summary = fill(workshop, since=datetime(2026, 1, 1, tzinfo=UTC))  # neither has a time
        assert (summary.read, summary.older, summary.dead, summary.matched) == (2, 0, 1, 1)
    assert len(workshop.store.dead_letters(10)) == 1


def test_it_does_not_run_beside_the_pipeline(workshop: Workshop) -> None:
    workshop.adapter("lines", "jsonl", workshop.folder)
    with held_lease(workshop.store, workshop.config.path), pytest.raises(StoreError, match="pipeline"):
        fill(workshop)


def test_what_cannot_be_read_again_is_refused(workshop: Workshop) -> None:
    workshop.adapter("lines", "jsonl", workshop.folder)
    workshop.toml += '[[adapter]]\nname = "news"\ntype = "feed"\nurl = "http://127.0.0.1:9/"\n'
    with pytest.raises(AdapterError, match="adapter 'news': only files can be read again, not type 'feed'"):
        fill(workshop, "news")
    with pytest.raises(AdapterError, match="no adapter is named 'nobody'; there are: lines, news"):
        fill(workshop, "nobody")
    workshop.store.add_query(tamis.QuerySpec("paused", "n >= 0", paused=True))
    with pytest.raises(AdapterError, match="no active query has the key 'paused'"):
        fill(workshop, keys=["paused"])
