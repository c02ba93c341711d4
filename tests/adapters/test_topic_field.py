"""The option `topic_field`: a message says its topic itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tamis.adapters.options import FileOptions, MailOptions
from tamis.adapters.sources.documents import TextSource
from tamis.adapters.sources.eml import EmlSource
from tamis.adapters.sources.journal import JournalOptions
from tamis.adapters.sources.live.feed import FeedSource
from tamis.adapters.sources.live.nntp import NntpSource
from tamis.adapters.sources.live.spool import Item
from tamis.adapters.sources.mbox import MboxSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import readers
from tests.adapters.reading import join_mbox, mail, read_all

ARTICLE = b"From: a@example.org\nX-Topic: garden.roses\nNewsgroups: comp.lang.c,comp.lang.misc\n\nText\n"


@pytest.mark.parametrize(
    ("field", "topic"),
    [("newsgroup", "comp.lang.c"), ("header.x-topic", "garden.roses"), ("list", "news"), ("header.x-none", "news")],
)
def test_a_property_or_a_header_of_a_mail_is_its_topic(tmp_path: Path, field: str, topic: str) -> None:
    (tmp_path / "a.eml").write_bytes(ARTICLE)
    (tmp_path / "b.mbox").write_bytes(join_mbox([ARTICLE, mail(1)]))
    options = {"topic": "news", "topic_field": field}
    (row,) = read_all(EmlSource(MailOptions(path=str(tmp_path), **options)))
    first, second = read_all(MboxSource(MailOptions(path=str(tmp_path / "b.mbox"), **options)))
    assert (row.topic, first.topic, second.topic) == (topic, topic, "news")


def test_the_folder_of_a_document_is_its_topic(tmp_path: Path) -> None:
    folder = tmp_path / "orders.eu"
    folder.mkdir()
    (folder / "a.txt").write_text("Seven\n")
    (row,) = read_all(TextSource(FileOptions(path=str(tmp_path), topic_field="source")))
    assert row.topic == "orders.eu"


@pytest.fixture
def news(tmp_path: Path) -> Iterator[NntpSource]:
    with readers(NntpSource, tmp_path) as make:
        yield make(host="127.0.0.1", groups="comp.*", topic_field="newsgroup").source


def test_the_group_of_an_article_is_its_topic(news: NntpSource) -> None:
    assert news.row(Item("key", "place", ARTICLE)).topic == "comp.lang.c"
    assert news.row(Item("key", "place", b"", error="gone")).topic == "news"


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedSource]:
    with readers(FeedSource, tmp_path) as make:
        yield make(url="http://127.0.0.1:1/rss", topic_field="category").source


@pytest.mark.parametrize(("categories", "topic"), [(["frost", "garlic"], "frost"), ([], "news"), (None, "news")])
def test_the_first_category_of_a_feeds_item_is_its_topic(feed: FeedSource, categories: Any, topic: str) -> None:
    members = {"body": "b", "date": None, "updated": None, "source": "s", "category": categories}
    assert feed.row(Item("key", "place", json.dumps(members).encode())).topic == topic


@pytest.mark.parametrize("field", ["newsgroups", "date", "header", "header.", "price"])
def test_what_can_never_be_a_topic_is_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(AdapterError, match=r"^topic_field: expected one of author, .*, header\.NAME, not"):
        EmlSource(MailOptions(path=str(tmp_path), topic_field=field))


def test_a_stream_has_no_such_option() -> None:
    with pytest.raises(AdapterError, match="unknown option 'topic_field'"):
        JournalOptions.of({"path": "x", "topic_field": "a"})
