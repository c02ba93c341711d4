"""The option `fields` of mail, feeds and documents: properties have further names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tamis.adapters.datasource import data_sources
from tamis.adapters.options import FileOptions, MailOptions
from tamis.adapters.sources.documents import TextSource
from tamis.adapters.sources.eml import EmlSource
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.sources.live.feed import FeedSource
from tamis.adapters.sources.live.spool import Item
from tamis.errors import AdapterError
from tests.adapters.live_reader import readers
from tests.adapters.reading import mail, read_all

MAIL = b"From: ann@example.org\nDate: Thu, 22 Aug 2002 12:00:00 +0000\nX-Ticker: ACME\nX-Ticker: XYZ\n\nText\n"
FIELDS = "by=author, ticker=header.x-ticker, sent=date"


def test_a_mail_has_properties_under_both_names(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(MAIL)
    (tmp_path / "b.eml").write_bytes(mail(1))
    first, second = read_all(EmlSource(MailOptions(path=str(tmp_path), fields=FIELDS, xml=True)))
    assert isinstance(first.properties, dict)
    assert isinstance(second.properties, dict)
    assert (first.properties["by"], first.properties["author"]) == ("ann@example.org",) * 2
    assert (first.properties["ticker"], second.properties["ticker"]) == ("ACME", None)
    assert first.properties["sent"] == first.properties["date"] == datetime(2002, 8, 22, 12, tzinfo=UTC)
    assert first.xml is not None
    assert "ACME</property>" in first.xml


def test_the_columns_have_the_types_of_what_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(MAIL)
    (eml,) = (one for one in data_sources() if one.name() == "tamis.eml")
    names = f"{FIELDS}, groups=newsgroup"
    properties = eml({"path": str(tmp_path), "fields": names}).schema()["properties"].dataType
    types = {one.name: one.dataType.simpleString() for one in properties}  # type: ignore[attr-defined]
    new = {name: types[name] for name in ("by", "ticker", "sent", "groups")}
    assert new == {"by": "string", "ticker": "string", "sent": "timestamp", "groups": "array<string>"}


def test_a_document_has_them_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Seven\n")
    (row,) = read_all(TextSource(FileOptions(path=str(tmp_path), fields="title=subject")))
    assert isinstance(row.properties, dict)
    assert row.properties["title"] == "Seven"


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedSource]:
    with readers(FeedSource, tmp_path) as make:
        yield make(url="http://127.0.0.1:1/rss", fields="tags=category").source


def test_an_item_of_a_feed_has_them_too(feed: FeedSource) -> None:
    members = {"body": "b", "date": None, "updated": None, "source": "s", "category": ["frost"]}
    row = feed.row(Item("key", "place", json.dumps(members).encode()))
    assert isinstance(row.properties, dict)
    assert row.properties["tags"] == ["frost"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("by", "expected new=old, not 'by'"),
        ("by=", "expected new=old, not 'by='"),
        ("by=writer", r"expected by= and one of author, .*, header\.NAME, not 'writer'"),
        ("by=header", r"expected by= and one of author, .*, header\.NAME, not 'header'"),
        ("subject=author", "expected a name without a dot that no property has, not 'subject'"),
        ("by=author,by=list", "expected a name without a dot that no property has, not 'by'"),
        ("a.b=author", "expected a name without a dot that no property has, not 'a.b'"),
    ],
)
def test_what_can_never_be_is_refused(tmp_path: Path, fields: str, told: str) -> None:
    with pytest.raises(AdapterError, match=f"^fields: {told}"):
        EmlSource(MailOptions(path=str(tmp_path), fields=fields))


def test_a_list_that_is_none_is_refused_for_json_too_before_a_line_is_read(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="^fields: expected new=old, not 'price'"):
        JsonlSource(JsonlOptions(path=str(tmp_path / "none.jsonl"), fields="price"))
