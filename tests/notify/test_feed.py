"""Feeds are files that feed readers take, with one entry per notification however often it is delivered."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import feedparser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.adapters.sources.live.feed_items import feed_items
from tamis.config.deliveries import FeedDelivery
from tamis.notify.channels.feed import FeedChannel, file_name
from tamis.notify.engine import NotificationEngine
from tamis.store import DueDelivery, NotificationRecord, Store
from tests.notify.conftest import Clock
from tests.notify.test_engine import fill


def due(record: NotificationRecord, number: int, **changes: object) -> DueDelivery:
    at = record.created_at + timedelta(seconds=number)
    changed = dataclasses.replace(record, id=f"{number:032x}", created_at=at, **changes)
    return DueDelivery(number, 0, changed)


def channel(folder: Path, entries_max: int = 100) -> FeedChannel:
    made = FeedChannel(FeedDelivery(name="feeds", type="feed", folder=folder, entries_max=entries_max))
    made.open()
    return made


def ids(path: Path) -> list[int]:
    return [int(entry.id.rpartition(":")[2], 16) for entry in feedparser.parse(path.read_bytes()).entries]


def test_a_feed_reader_takes_what_was_delivered(record: NotificationRecord, tmp_path: Path) -> None:
    linked = '{"title": "Frost <b>&amp;</b> garlic", "link": "https://example.org/1"}'
    sent = channel(tmp_path / "feeds").deliver(
        [due(record, 1), due(record, 2, properties=linked, body="gar\x00lic\ud800")]
    )
    assert not sent.failures
    read = feedparser.parse((tmp_path / "feeds" / "frost.atom").read_bytes())
    assert not read.bozo
    assert (read.feed.title, read.feed.updated) == ("tamis: frost", "2026-11-21T12:00:02Z")
    newest, oldest = read.entries
    assert (newest.link, oldest.title) == ("https://example.org/1", "Garden notes")
    assert newest.title == "Frost <b>&amp;</b> garlic"
    assert "> ... " not in oldest.content[0].value
    assert "The query 'frost' matched a message." in oldest.content[0].value
    assert "gar\N{REPLACEMENT CHARACTER}lic\N{REPLACEMENT CHARACTER}" in newest.content[0].value


def test_our_own_adapter_reads_a_feed(record: NotificationRecord, tmp_path: Path) -> None:
    channel(tmp_path).deliver([due(record, 1), due(record, 2)])
    items = dict(feed_items((tmp_path / "frost.atom").read_bytes(), "https://example.org/frost.atom"))
    assert [item["subject"] for item in items.values()] == ["Garden notes"] * 2


@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=8), st.integers(1, 12))
def test_a_feed_holds_the_newest_once_each(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], entries_max: int
) -> None:
    folder, record = tmp_path_factory.mktemp("feeds"), _record()
    held: set[int] = set()
    for batch in batches:
        channel(folder, entries_max).deliver([due(record, number) for number in batch])
        held = set(sorted(held | set(batch), reverse=True)[:entries_max])
        if held:
            assert ids(folder / "frost.atom") == sorted(held, reverse=True)


def test_each_query_has_a_file_of_its_own(record: NotificationRecord, tmp_path: Path) -> None:
    keys = ["a/b", "a%2Fb", "..", ".hidden", "Zoë", "x" * 300, "x" * 301, "a b"]
    channel(tmp_path).deliver([due(record, number, query_key=key) for number, key in enumerate(keys)])
    names = [path.name for path in tmp_path.iterdir()]
    assert sorted(names) == sorted(map(file_name, keys))
    assert not [name for name in names if name.startswith(".") or len(name) > 200]
    for number, key in enumerate(keys):
        assert ids(tmp_path / file_name(key)) == [number]


def test_a_file_that_is_no_feed_is_left_alone(record: NotificationRecord, tmp_path: Path) -> None:
    (tmp_path / "frost.atom").write_text("my own notes")
    sent = channel(tmp_path).deliver([due(record, 1), due(record, 2, query_key="heat"), due(record, 3)])
    assert sent.failures.keys() == {1, 3}
    assert re.search(r"frost\.atom: expected a feed of tamis .*; move the file away", sent.failures[1])
    assert ids(tmp_path / "heat.atom") == [2], "the feeds of other queries are written"
    assert (tmp_path / "frost.atom").read_text() == "my own notes"


def test_the_engine_delivers_to_feeds(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill(store, 12, deliveries=("feeds",))
    config = FeedDelivery(name="feeds", type="feed", folder=tmp_path / "feeds", entries_max=10)
    assert NotificationEngine(store, [config], clock).deliver_pending().delivered == 12
    files = list((tmp_path / "feeds").iterdir())
    counts = [len(feedparser.parse(path.read_bytes()).entries) for path in files]
    assert sum(counts) == 10 * len(files) == len(list(itertools.chain.from_iterable(map(ids_of, files))))


def ids_of(path: Path) -> list[str]:
    return [entry.id for entry in feedparser.parse(path.read_bytes()).entries]


def _record() -> NotificationRecord:
    return NotificationRecord(
        *(1, "1", "frost", 1, "n > 1", "selector", datetime.fromisoformat("2026-11-21T12:00:00+00:00")),
        *("inbox", "a", 1, "00", "", "{}", "", None),
    )


@pytest.mark.parametrize("link", ["http://x/\x01", "http://[broken/2", "ftp://x"])
def test_what_is_no_web_address_is_no_link(record: NotificationRecord, tmp_path: Path, link: str) -> None:
    made = channel(tmp_path)
    assert not made.deliver([due(record, 1, properties=json.dumps({"link": link}))]).failures
    assert not made.deliver([due(record, 2)]).failures
    assert ids(tmp_path / "frost.atom") == [2, 1]
