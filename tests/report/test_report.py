from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from tamis import QuerySpec
from tamis.report import RunFigures, write_report
from tamis.report.charts import _round_up
from tamis.report.data import COLUMNS, Excerpt, _excerpt, collect
from tamis.store import BatchResult, DeadLetter, MessageRow, Notification, Outcome, Store, notification_id

EVIL = "<script>alert('x')</script> & \"more\" \x00\ud800"


class Page(HTMLParser):
    """Collects the tags, and everything that could reach the network."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]


def fill(
    store: Store, dates: list[str | None], body: str, subject: str = "hello", deliveries: tuple[str, ...] = ()
) -> None:
    """Add one message per date, matched by one query."""
    store.add_query(QuerySpec("frost", "CONTAINS(body, 'frost')"))
    store.add_query(QuerySpec("silent", "price > 100"))
    messages, notifications = [], []
    for offset, date in enumerate(dates):
        properties = json.dumps({"author": "Ann <ann@x>", "subject": subject, "date": date})
        messages.append(MessageRow("inbox", "mail.mbox", offset, "00", "mail.inbox", properties, body, None))
        identity = ("frost", 1, "inbox", "mail.mbox", offset, "00")
        notifications.append(Notification(notification_id(*identity), *identity))
    dead = [
        DeadLetter(
            "inbox",
            "mail.mbox",
            999,
            "00",
            EVIL.encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
            b"\xff<b>",
        )
    ]
    store.pin_batch("s", 0)
    store.commit_batch("s", 0, BatchResult(messages, notifications, dead, len(dates) + 1, len(dates)), deliveries)


@pytest.fixture
def store(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Store.open(tmp_path / "tamis.sqlite") as opened:
        yield opened


def parsed(path: Path) -> tuple[str, Page]:
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    return text, page


def test_the_page_marks_what_matched_and_escapes_what_came_from_outside(store: Store, tmp_path: Path) -> None:
    fill(store, ["2002-08-22T12:00:00+00:00"], f"the first frost <b>tonight</b> {EVIL[:27]}", "<i>evil</i>")
    write_report(store, tmp_path / "report.html", RunFigures(1.5, 20.0, 41.0, 180.0))
    text, page = parsed(tmp_path / "report.html")
    assert "<mark>frost</mark>" in text
    assert {"script", "b", "i", "link", "img"} & set(page.tags) == {"b"}  # the tiles' own
    assert "&lt;i&gt;evil&lt;/i&gt;" in text
    assert page.addresses == []
    assert "1 messages went" not in text
    assert "svg" in page.tags


def test_the_page_of_an_empty_store_is_a_page(store: Store, tmp_path: Path) -> None:
    write_report(store, tmp_path / "report.html")
    text, _ = parsed(tmp_path / "report.html")
    assert "0 messages went through 0 standing queries" in text
    assert "Nothing has matched yet" in text


def test_a_failure_leaves_the_old_page(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "report.html"
    page.write_text("old")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_report(store, page)
    assert page.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".report")] == []


@pytest.mark.parametrize("days", [1, 30, 400, 4000])
def test_the_timeline_fits_and_loses_nothing(store: Store, days: int) -> None:
    years = [f"{2002 + day // 336:04}-{day // 28 % 12 + 1:02}-{day % 28 + 1:02}T00:00:00+00:00" for day in range(days)]
    fill(store, [*years, "0102-08-25T00:00:00+00:00", None, "no date"], "frost")
    timeline = collect(store).timeline
    assert len(timeline.starts) <= COLUMNS
    assert sum(map(sum, timeline.series.values())) + timeline.outside == days + 3
    assert timeline.outside >= 2


def test_an_excerpt_is_the_text_around_the_mark() -> None:
    body = "word " * 500 + "frost" + " word" * 500
    pieces = list(_excerpt(body, [(2500, 2505)]))
    assert [piece.text for piece in pieces if piece.marked] == ["frost"]
    assert pieces[0] == Excerpt("… ")
    assert pieces[1].text.startswith("word")
    assert sum(len(piece.text) for piece in pieces) < 500


@pytest.mark.parametrize(("value", "top"), [(0, 4), (1, 4), (5, 8), (20, 20), (83, 100), (101, 120), (999, 1000)])
def test_the_top_of_a_chart_has_whole_quarters(value: int, top: int) -> None:
    assert _round_up(value) == top


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        *(("ink", "card"), ("ink", "paper"), ("quiet", "card"), ("quiet", "paper")),
        *(("accent", "accent-soft"), ("accent", "card"), ("mark-ink", "mark"), ("bad", "card")),
    ],
)
def test_text_has_enough_contrast(mode: int, text: str, ground: str) -> None:
    """WCAG 2.1 asks for 4.5 between a text and what is behind it."""
    style = resources.files("tamis.report").joinpath("style.css").read_text(encoding="utf-8")
    colours = [re.findall(rf"--{name}: (#[0-9a-f]{{6}});", style)[mode] for name in (text, ground)]
    low, high = sorted(map(_luminance, colours))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_it_says_why_there_are_more_deliveries_than_notifications(store: Store, tmp_path: Path) -> None:
    fill(store, ["2002-08-22T12:00:00+00:00"], "frost", deliveries=("log", "mail"))
    for name in ("log", "mail"):
        (due,) = store.due_deliveries(name, 9)
        store.record_outcomes([Outcome(due.delivery_id, "delivered")])
    write_report(store, tmp_path / "report.html")
    text, _ = parsed(tmp_path / "report.html")
    assert "as 2 deliveries: 1 to log; 1 to mail" in text
