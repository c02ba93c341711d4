from __future__ import annotations

import json
from pathlib import Path

import pytest

import tamis
from tamis.adapters.message_time import time_of
from tamis.cli.queries.timeline import bar, shown_time
from tamis.engine.backtest.samples import Samples
from tamis.engine.backtest.timeline import BINS_MAX, ROWS_MAX, Timeline
from tamis.engine.comparison import Comparison, compare
from tests.cli.conftest import Tamis


@pytest.fixture
def trades(tmp_path: Path) -> None:
    """Return four days with a trade every hour, the most expensive ones at noon."""
    with (tmp_path / "trades.jsonl").open("w") as file:
        for hour in range(96):
            date = f"2026-11-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"
            file.write(json.dumps({"price": 200 if hour % 24 == 12 else 10, "date": date}) + "\n")


@pytest.mark.usefixtures("trades")
def test_it_says_how_often_when_and_what(tamis: Tamis) -> None:
    done = tamis("backtest", "price > 100", "trades.jsonl")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[:2] == ["price > 100", "would have matched 4 times in 96 messages, 1.0 per day"]
    assert sum("█" in line for line in lines) == 4
    assert 'line 13 (2026-11-01 12:00): {"price": 200, "date": "2026-11-01T12:00:00Z"}' in lines
    assert lines[-1].startswith("cost: ")
    assert done.stderr.startswith("96 messages read in ")


@pytest.mark.usefixtures("trades")
def test_json_has_the_histogram_the_samples_and_the_cost(tamis: Tamis) -> None:
    done = tamis("backtest", "price > 100", "trades.jsonl", "--json", "--samples", "2")
    found = json.loads(done.stdout)
    assert (found["read"], found["matched"], found["bad"], found["over"]) == (96, 4, 0, "time")
    assert sum(row["messages"] for row in found["histogram"]) == 96
    assert sum(row["matched"] for row in found["histogram"]) == 4
    assert [sample["line"] for sample in found["samples"]] == [13, 85]
    assert 0 < found["cost"]["p50_us"] <= found["cost"]["p99_us"]
    assert done.stderr.splitlines() == []


@pytest.mark.usefixtures("files")
def test_the_query_may_be_one_of_a_file_and_of_any_language(tamis: Tamis) -> None:
    done = tamis("backtest", "expensive", "messages.jsonl", "--queries", "queries.txt", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert (found["query"], found["matched"], found["over"]) == ("price > 100", 1, "position")
    done = tamis("backtest", "expensiv", "messages.jsonl", "--queries", "queries.txt")
    assert (done.returncode, "no query has the key 'expensiv'; did you mean 'expensive'?" in done.stderr) == (2, True)
    done = tamis("backtest", "garlic frost", "messages.jsonl", "--language", "near")
    assert "would have matched once in 3 messages" in done.stdout


@pytest.mark.usefixtures("files")
def test_exit_codes_are_those_of_grep_and_a_mistyped_name_is_hinted_at(tamis: Tamis) -> None:
    done = tamis("backtest", "pirce > 100", "messages.jsonl")
    assert done.returncode == 1
    assert "hint: no message has 'pirce'; did you mean 'price'?" in done.stderr
    assert tamis("backtest", "price >> 1", "messages.jsonl").returncode == 2
    assert tamis("backtest", "price > 1", "nowhere.jsonl").returncode == 2
    done = tamis("backtest", "price > 1", stdin='{"price": 2}\nno json\n')
    assert done.returncode == 2
    assert "error: stdin, line 2: not a message: " in done.stderr
    assert "would have matched once in 1 message" in done.stdout
    assert tamis("backtest", "price > 1", stdin="").returncode == 1


def test_samples_are_the_first_the_last_and_some_between_in_order() -> None:
    samples = Samples(5)
    for line in range(1_000):
        samples.add({"line": line})
    kept = [int(found["line"]) for found in samples.all()]
    assert len(kept) == 5
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (0, 999)
    for wanted in (0, 1, 2):
        few = Samples(wanted)
        few.add({"line": 1})
        few.add({"line": 2})
        assert [found["line"] for found in few.all()] == [1, 2][:wanted]


def test_a_timeline_keeps_every_count_and_few_bins() -> None:
    timeline = Timeline.of_positions()
    for position in range(3 * BINS_MAX):
        timeline.add(position, position % 3 == 0)
        assert len(timeline.bins) <= BINS_MAX
    rows = timeline.rows()
    assert len(rows) <= ROWS_MAX
    assert sum(messages for _, messages, _ in rows) == 3 * BINS_MAX
    assert sum(matched for _, _, matched in rows) == BINS_MAX


def test_a_timeline_of_years_has_no_more_rows_than_one_of_hours() -> None:
    timeline = Timeline.of_times()
    for at in (0.0, 1e9, 4e10, -1e9):
        timeline.add(at, True)
    assert len(timeline.rows()) <= ROWS_MAX
    assert sum(matched for _, _, matched in timeline.rows()) == 4
    assert Timeline.of_times().rows() == []


def test_times_are_read_as_people_write_them() -> None:
    noon = 1_040_731_200.0
    for value in ("2002-12-24T12:00:00Z", "2002-12-24 12:00", "Tue, 24 Dec 2002 13:00:00 +0100", noon, noon * 1_000):
        assert time_of({"date": value}, ("received", "date")) == noon, value
    for value in (None, True, "soon", float("nan"), 1e300, {}, [1]):
        assert time_of({"date": value}, ("date",)) is None
    assert shown_time(noon) == "2002-12-24 12:00"
    assert shown_time(noon, 86_400) == "2002-12-24"
    assert shown_time(1e20) == "100000000000000000000 s"


def test_bars_are_as_long_as_their_counts() -> None:
    assert bar(10, 10, width=4) == "████"
    assert bar(5, 10, width=4) == "██"
    assert bar(1, 1_000_000, width=4) == "▏"
    assert bar(0, 10) == bar(0, 0) == ""


@pytest.mark.usefixtures("trades")
def test_it_says_what_a_new_text_would_gain_and_lose(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("noon: price > 100\nother: price = 1\n")
    new = [
        "backtest",
        "price < 100 AND date < '2026-11-02'",
        "trades.jsonl",
        "--queries",
        "q.txt",
        "--replaces",
        "noon",
    ]
    done = tamis(*new, "--samples", "1")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "instead of noon: price > 100" in lines
    assert "gains 23, loses 4, keeps 0" in lines
    assert '+ line 1 (2026-11-01 00:00): {"price": 10, "date": "2026-11-01T00:00:00Z"}' in lines
    assert '- line 13 (2026-11-01 12:00): {"price": 200, "date": "2026-11-01T12:00:00Z"}' in lines
    told = json.loads(tamis(*new, "--json").stdout)["replaces"]
    assert (told["key"], told["gained"], told["lost"], told["kept"], len(told["lost_samples"])) == ("noon", 23, 4, 0, 4)


@pytest.mark.usefixtures("trades")
def test_what_cannot_be_replaced_is_refused(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("noon: price > 100\n")
    assert "--replaces names a query of --queries" in tamis("backtest", "a = 1", "x", "--replaces", "noon").stderr
    beside = ["trades.jsonl", "--queries", "q.txt", "--replaces"]
    assert "noon" in tamis("backtest", "a = 1", *beside, "non").stderr
    assert "there is none" in tamis("backtest", "a UNDER 'b'", *beside, "noon").stderr


def test_two_queries_are_compared_over_records() -> None:
    records = [{"n": n} for n in range(10)]
    found = compare(tamis.selector("n < 4"), tamis.selector("n > 2 AND n < 9"), records)
    assert found == Comparison(gained=5, lost=3, kept=1, neither=1)
