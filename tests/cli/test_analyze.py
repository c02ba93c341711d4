from __future__ import annotations

import json
from pathlib import Path

import pytest

import tamis as library
from tests.cli.conftest import Tamis

MORE = """\
costlier: price > 200
again:  price > 100
never:  a = 1 AND NOT a = 1
cheap:  pirce < 3
"""


@pytest.fixture
def queries(files: Path) -> Path:
    path = files / "queries.txt"
    path.write_text(path.read_text() + MORE)
    return path


@pytest.mark.usefixtures("queries")
def test_the_report_is_printed_as_tables(tamis: Tamis) -> None:
    done = tamis("analyze", "queries.txt")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("7 subscriptions with 6 distinct queries")
    tables = done.stdout.split("\n\n")
    assert "covered: whenever KEY matches, so does BY (1)\nKEY       BY\ncostlier  expensive" in tables
    assert "duplicates: equal queries (1)\nCOUNT  KEYS\n    2  expensive, again" in tables
    assert "never true (1)\nKEY\nnever" in tables


@pytest.mark.usefixtures("queries")
def test_json_has_all_of_it(tamis: Tamis) -> None:
    done = tamis("analyze", "queries.txt", "--json")
    report = json.loads(done.stdout)
    assert report["covered"] == [{"key": "costlier", "by": "expensive"}]
    assert report["duplicates"] == [["expensive", "again"]]
    assert report["never_true"] == ["never"]
    assert "unmatched" not in report


@pytest.mark.usefixtures("queries")
def test_with_messages_it_names_queries_that_match_none_and_names_that_no_message_has(tamis: Tamis) -> None:
    done = tamis("analyze", "queries.txt", "--messages", "messages.jsonl")
    assert done.returncode == 0
    assert "matched none of 3 messages (3)\nKEY\ncostlier\nnever\ncheap" in done.stdout
    assert "hint: no message has 'pirce'; did you mean 'price'?" in done.stderr
    done = tamis("analyze", "queries.txt", "--messages", "-", "--json", stdin='{"pirce": 2}\nno json\n')
    assert done.returncode == 2
    assert "error: stdin, line 2: not a message: " in done.stderr
    found = json.loads(done.stdout)
    assert (found["messages"], found["hints"]) == (1, ["no message has 'price'; did you mean 'pirce'?"])
    assert "cheap" not in found["unmatched"]


@pytest.mark.usefixtures("queries")
def test_queries_may_come_from_a_snapshot_or_a_store(tamis: Tamis, tmp_path: Path) -> None:
    engine = library.Engine()
    engine.add(("tuple", 1), library.selector("price > 100"))
    engine.add("b", library.selector("price > 101"))
    engine.save(tmp_path / "engine.tamis")
    done = tamis("analyze", "engine.tamis", "--json")
    assert json.loads(done.stdout)["covered"] == [{"key": "b", "by": ["tuple", 1]}]
    assert tamis("match", "engine.tamis", "messages.jsonl", "--count").stdout == "1\n"
    assert tamis("explain", "engine.tamis", "--message", '{"price": 200}', "--key", "b").returncode == 0
    pytest.importorskip("sqlalchemy")
    assert tamis("query", "import", "queries.txt", "--store", "store.sqlite").returncode == 0
    assert json.loads(tamis("analyze", "store.sqlite", "--json").stdout)["subscriptions"] == 7
    assert tamis("match", "store.sqlite", "messages.jsonl", "--count").stdout == "2\n"


def test_mistakes_are_explained(tamis: Tamis, tmp_path: Path) -> None:
    assert tamis("analyze", "nowhere.txt").returncode == 2
    (tmp_path / "bad.txt").write_text("one: price >> 3\n")
    done = tamis("analyze", "bad.txt")
    assert (done.returncode, "bad.txt, line 1, query 'one': expected" in done.stderr) == (2, True)
    (tmp_path / "broken").write_bytes(b"TAMIS\r\n\x1a" + bytes(100))
    assert tamis("analyze", "broken").returncode == 2
