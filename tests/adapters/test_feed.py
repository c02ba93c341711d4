"""Feeds from a real HTTP server: real and broken ones, conditional requests, failures, limits."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.sources.live import source as source_module
from tamis.adapters.sources.live.feed import FeedOptions, FeedSource
from tamis.adapters.sources.live.feed_items import feed_items
from tamis.adapters.sources.live.source import LookError
from tamis.errors import AdapterError
from tests.adapters.live_reader import readers
from tests.adapters.reading import BEGINNING, between
from tests.adapters.web import Answer, Web, web_server

RSS = """<?xml version="1.0" encoding="iso-8859-1"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>Garden news</title>{items}</channel></rss>"""
ITEM = """<item><title>{title}</title><guid isPermaLink="false">{guid}</guid><link>/items/{guid}</link>
<description>&lt;p&gt;Cover the garlic&lt;/p&gt;&lt;p&gt;tonight&lt;/p&gt;</description><dc:creator>Jane</dc:creator>
<category>frost</category><category>garlic</category><pubDate>Mon, 01 Jan 2024 10:00:00 +0200</pubDate></item>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Atoms</title><entry><id>tag:example.org,2024:1</id>
<title>An entry</title><link href="https://example.org/1"/><updated>2024-01-02T10:00:00Z</updated>
<content type="html">&lt;b&gt;Frost&lt;/b&gt; &amp;amp; snow</content></entry></feed>"""
JSON = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Objects",
        "items": [
            {"id": "https://example.org/2", "title": "One", "content_text": "a < b", "date_published": "2024-01-03"}
        ],
    }
)


def rss(*guids: str, title: str = "Frost caf\xe9") -> bytes:
    return RSS.format(items="".join(ITEM.format(title=title, guid=guid) for guid in guids)).encode("latin-1")


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as web:
        yield web


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Any]:
    with readers(FeedSource, tmp_path) as make:
        yield lambda url, **options: make(url=url, **options)


@pytest.mark.parametrize("carry", [False, True])
def test_all_messages_of_a_batch_are_read_or_it_fails(
    web: Web, reader: Any, carry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "SLICE_ITEMS", 3)
    guids = [f"g{number}" for number in range(8)]
    one = reader(web.page("/rss", Answer(200, rss(*guids))), carry=carry)
    end = one.source.latest(one.at, None)
    parts = one.source.plan(one.at, end)
    assert [(piece.start, piece.end) for part in parts for piece in part.ranges] == [(0, 3), (3, 6), (6, 8)]
    assert len(between(one.source, one.at, end)) == 8
    one.source.spool().forget(4)
    if carry:
        assert len([row for part in parts for row in one.source.read(part)]) == 8, "they are with the parts"
    with pytest.raises(AdapterError, match=r"spool\.sqlite: expected \d messages after number \d, and found \d"):
        between(one.source, one.at, end)


def test_carried_messages_are_cut_by_size(web: Web, reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "CARRIED_BYTES", 1)
    one = reader(web.page("/rss", Answer(200, rss("g1", "g2", "g3"))), carry=True)
    parts = one.source.plan(one.at, one.source.latest(one.at, None))
    assert [len(list(one.source.read(part))) for part in parts] == [1, 1, 1]


def test_old_items_of_a_feed_that_failed_at_first_are_not_new(web: Web, reader: Any) -> None:
    web.page("/bad", Answer(500, b""))
    one = reader(f"{web.page('/good', Answer(200, rss('g1')))} {web.address}/bad", starting_offset="next")
    assert [row.error is not None for row in one.next()] == [True], "it tells of the failure"
    web.page("/bad", Answer(200, rss("old1", "old2")))
    assert one.later(3600) == []
    web.page("/bad", Answer(200, rss("new", "old1", "old2")))
    assert len(one.later(3600)) == 1


def test_an_item_is_a_message_with_its_properties(web: Web, reader: Any) -> None:
    (row,) = reader(web.page("/rss", Answer(200, rss("g1")))).next()
    assert row.properties == {
        "author": "Jane",
        "date": datetime(2024, 1, 1, 8, tzinfo=UTC),
        "updated": None,
        "subject": "Frost caf\xe9",
        "source": "Garden news",
        "category": ["frost", "garlic"],
        "link": f"{web.address}/items/g1",
        "feed": f"{web.address}/rss",
        "message_id": "g1",
    }
    assert (row.topic, row.body, row.partition) == ("news", "Cover the garlic\ntonight", f"{web.address}/rss")


@pytest.mark.parametrize(
    ("body", "subject", "text", "source"),
    [(ATOM, "An entry", "Frost & snow", "Atoms"), (JSON, "One", "a < b", "Objects")],
)
def test_atom_and_json_feeds_are_read(web: Web, reader: Any, body: str, subject: str, text: str, source: str) -> None:
    (row,) = reader(web.page("/feed", Answer(200, body.encode()))).next()
    assert (row.properties["subject"], row.body, row.properties["source"]) == (subject, text, source)
    assert row.properties["date"].tzinfo is not None


def test_a_feed_that_has_not_changed_is_not_sent_again(web: Web, reader: Any) -> None:
    feed = reader(web.validated("/rss", rss("g1"), '"one"'))
    assert len(feed.next()) == 1
    assert feed.next() == []  # the next look is not due
    assert len(web.asked) == 1
    assert feed.later() == []
    assert web.asked[1][1]["if-none-match"] == '"one"'
    feed.restart()
    web.validated("/rss", rss("g2", "g1"), '"two"')
    assert [row.properties["message_id"] for row in feed.later()] == ["g2"]
    assert [headers.get("if-none-match") for _, headers in web.asked] == [None, '"one"', '"one"']


def test_a_batch_is_read_again_unchanged_after_a_crash(web: Web, reader: Any) -> None:
    feed = reader(web.page("/rss", Answer(200, rss("g3", "g2", "g1"))))
    end = feed.source.latest(BEGINNING, 2)
    rows = between(feed.source, BEGINNING, end)
    assert [row.properties["message_id"] for row in rows] == ["g1", "g2"]  # the oldest first
    web.page("/rss", Answer(200, rss("g9")))
    feed.now += 9_000
    feed.restart()
    assert between(feed.source, BEGINNING, end) == rows
    feed.at = end
    assert [row.properties["message_id"] for row in feed.next()] == ["g3", "g9"]


def test_an_item_is_the_same_message_in_another_adapter_and_after_an_edit(web: Web, reader: Any) -> None:
    url = web.page("/rss", Answer(200, rss("g1")))
    first, other = reader(url), reader(url)
    (row,), (again,) = first.next(), other.next()
    assert row.identity == again.identity
    web.page("/rss", Answer(200, rss("g1", title="Edited")))
    assert first.later() == []
    edits = reader(url, updates=True)
    assert len(edits.next()) == 1
    web.page("/rss", Answer(200, rss("g1", title="Edited again")))
    assert [row.properties["subject"] for row in edits.later()] == ["Edited again"]


def test_equal_ids_of_different_hosts_are_different_items() -> None:
    keys = {key for host in "ab" for key, _ in feed_items(rss("1"), f"https://{host}.org/rss")}
    assert len(keys) == 2


def test_with_next_only_what_comes_later_is_read(web: Web, reader: Any) -> None:
    feed = reader(web.page("/rss", Answer(200, rss("g1"))), starting_offset="next")
    assert feed.next() == []
    web.page("/rss", Answer(200, rss("g2", "g1")))
    assert [row.properties["message_id"] for row in feed.later()] == ["g2"]


@pytest.mark.parametrize(
    ("broken", "subjects"),
    [
        (rss("g1", "g2")[:-60], ["Frost caf\xe9", "Frost caf\xe9"]),
        (b"<rss version='2.0'><channel><item><title>a & b</title><guid>1</guid></item></channel></rss>", ["a & b"]),
        (b"\xef\xbb\xbf\n\n" + ATOM.encode(), ["An entry"]),
        (b"<rss version='2.0'><channel><title>empty</title></channel></rss>", []),
    ],
)
def test_a_broken_feed_is_read_as_far_as_it_goes(broken: bytes, subjects: list[str]) -> None:
    assert [item["subject"] for _, item in feed_items(broken, "https://example.org/")] == subjects


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html><body>Log in</body></html>", "expected an RSS, Atom or JSON feed; found '<html><body>Log in"),
        (b"", "found ''"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><rss version='2.0'><channel/></rss>", "without entities of its own"),
    ],
)
def test_what_is_no_feed_is_said(content: bytes, said: str) -> None:
    with pytest.raises(LookError) as error:
        list(feed_items(content, "https://example.org/"))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(404), "the server answered 404 Not Found"),
        (Answer(410), "gone for good"),
        (Answer(200, b"x" * 5_000), "more than 4,000 bytes"),
        (Answer(200, gzip.compress(b"x" * 50_000_000), {"Content-Encoding": "gzip"}), "more than 4,000 bytes"),
        (Answer(200, b"no gzip", {"Content-Encoding": "gzip"}), "is not gzip"),
        (Answer(200, gzip.compress(b"x" * 900)[:-9], {"Content-Encoding": "gzip"}), "ends in the middle"),
        (Answer(200, b"x", {"Content-Encoding": "gzip, gzip"}), "not 'gzip, gzip'"),
        (Answer(302, headers={"Location": "/feed"}), "redirect"),
    ],
)
def test_a_failure_says_why(web: Web, reader: Any, answer: Answer, said: str) -> None:
    feed = reader(web.page("/feed", answer), size_bytes_max=4_000)
    with pytest.raises(AdapterError) as error:
        feed.next()
    assert said in str(error.value)
    assert "the next try is at" in str(error.value)


def test_after_a_failure_it_waits_longer_each_time_and_then_goes_on(web: Web, reader: Any) -> None:
    feed = reader(web.page("/feed", Answer(500)))
    waited = []
    for _ in range(3):
        with pytest.raises(AdapterError):
            feed.next()
        failure = feed.source.spool().state("failure")
        waited.append(failure["until"] - feed.now)
        feed.restart()
        with pytest.raises(AdapterError, match="500"):
            feed.next()  # not asked again before its time, also after a restart
        feed.now = failure["until"]
    assert len(web.asked) == 3
    assert all(5 * 2**step <= wait <= 5 * 2**step * 4 / 3 for step, wait in enumerate(waited))
    web.page("/feed", Answer(200, rss("g1")))
    assert len(feed.next()) == 1


def test_the_servers_own_wish_to_wait_counts(web: Web, reader: Any) -> None:
    feed = reader(web.page("/feed", Answer(429, headers={"Retry-After": "7200"})))
    with pytest.raises(AdapterError, match="429"):
        feed.next()
    assert feed.source.spool().state("failure")["until"] == feed.now + 7200


def test_a_feed_that_moved_for_good_is_asked_there(web: Web, reader: Any) -> None:
    web.page("/new", Answer(200, rss("g1")))
    feed = reader(web.page("/old", Answer(301, headers={"Location": "/new"})))
    assert len(feed.next()) == 1
    assert feed.later() == []
    assert [path for path, _ in web.asked] == ["/old", "/new", "/new"]


def test_a_failing_feed_does_not_stop_the_others_and_is_told_once(web: Web, reader: Any) -> None:
    good, bad = web.page("/good", Answer(200, rss("g1"))), web.page("/bad", Answer(503))
    feed = reader(f"{bad} {good}")
    rows = feed.next()
    assert [row.error for row in rows] == [f"{bad}: the server answered 503 Service Unavailable", None]
    web.page("/good", Answer(200, rss("g2", "g1")))
    assert [row.error for row in feed.later()] == [None]
    web.page("/bad", Answer(200, rss("b1")))
    assert [row.properties["message_id"] for row in feed.later(7_200)] == ["b1"]


def test_a_list_of_feeds_stands_in_a_file(web: Web, reader: Any, tmp_path: Path) -> None:
    (tmp_path / "feeds.txt").write_text(f"# ours\n{web.page('/a', Answer(200, rss('a')))}\n", encoding="utf-8")
    assert len(reader(f"@{tmp_path / 'feeds.txt'}").next()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "feed.xml"}, "begins with https:// or http://"),
        ({"url": "https://a:b@example.org/"}, "without a password"),
        ({"url": "http://example.org/", "token_env": "FEED_TOKEN"}, "needs https"),
        ({"url": "https://example.org/", "token_env": "NOT_SET"}, "NOT_SET is not set"),
        ({"url": "https://example.org/", "user": "jane"}, "expected user with password_env"),
        ({"url": "@nowhere"}, "nowhere"),
        ({"url": " "}, "there is none"),
    ],
)
def test_a_wrong_option_is_refused(monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str) -> None:
    monkeypatch.setenv("FEED_TOKEN", "hunter2")
    with pytest.raises(AdapterError) as error:
        FeedSource(FeedOptions(**options)).check()  # type: ignore[arg-type]
    assert said in str(error.value)


def test_a_secret_is_sent_and_a_test_of_the_adapter_changes_nothing(
    web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEED_TOKEN", "hunter2")
    url = web.page("/rss", Answer(200, rss("g1", "g2")))
    adapter = Adapter("news", "feed", url=url, token_env="FEED_TOKEN", spool=str(tmp_path / "spool"))
    assert "hunter2" not in str(adapter.options())
    health = adapter.test()
    assert (health.readable, health.sampled, health.reason) == (True, 2, None)
    assert health.newest_at == max(row.properties["date"] for row in adapter.source().sample(9) if row.properties)
    assert web.asked[0][1]["authorization"] == "Bearer hunter2"
    assert not (tmp_path / "spool").exists()


def test_two_runs_do_not_share_a_spool(web: Web, reader: Any) -> None:
    feed = reader(web.page("/rss", Answer(200, rss("g1"))))
    feed.next()
    with pytest.raises(AdapterError, match="another run of this adapter"):
        FeedSource(feed.options).latest(BEGINNING, None)


def test_a_spool_that_was_removed_is_told(web: Web, reader: Any) -> None:
    feed = reader(web.page("/rss", Answer(200, rss("g1"))))
    feed.next()
    feed.source.close()
    Path(feed.options.spool, "spool.sqlite").unlink()
    feed.open()
    with pytest.raises(AdapterError, match="the spool was removed"):
        feed.next()


def test_items_of_a_feed_that_moved_to_another_host_are_not_new(web: Web, reader: Any) -> None:
    web.page("/new", Answer(200, rss("g1")))
    old = web.page("/old", Answer(200, rss("g1")))
    feed = reader(old)
    assert len(feed.next()) == 1
    elsewhere = old.replace("127.0.0.1", "localhost").replace("/old", "/new")
    web.page("/old", Answer(301, headers={"Location": elsewhere}))
    assert feed.later() == []
    web.page("/new", Answer(200, rss("g2", "g1")))
    assert [row.properties["message_id"] for row in feed.later()] == ["g2"]


def test_an_item_with_a_broken_link_stops_no_other() -> None:
    content = rss("g1", "g2").replace(b"/items/g1", b"http://[broken/2")
    links = [item["link"] for _, item in feed_items(content, "https://example.org/rss")]
    assert links == ["http://[broken/2", "https://example.org/items/g2"]


def test_a_failure_of_a_wrong_clock_is_not_waited_for(web: Web, reader: Any) -> None:
    bad, good = web.page("/bad", Answer(503)), web.page("/good", Answer(200, rss("g1")))
    feed = reader(f"{bad} {good}")
    feed.now += 40_000_000
    assert len(feed.next()) == 2
    feed.now -= 40_000_000
    web.page("/bad", Answer(200, rss("b1")))
    assert [row.properties["message_id"] for row in feed.next()] == ["b1"]
