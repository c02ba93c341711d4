from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis import Engine, selector
from tests.cli.conftest import Tamis


def test_a_query_that_can_be_read_is_printed_as_selector_text(tamis: Tamis) -> None:
    done = tamis("check", "author == James && source == CNN", "--language", "boolean")
    assert done.returncode == 0
    assert done.stdout == "author = 'James' AND source = 'CNN'\n"


def test_a_mistake_has_a_caret_and_a_hint(tamis: Tamis) -> None:
    done = tamis("check", "author = 'James' AND source == 'CNN'")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[1:] == [
        "  author = 'James' AND source == 'CNN'",
        "                               ^ did you mean `=`?",
    ]


def test_the_shown_text_of_a_expensive_predicate_is_refused_with_the_reason(tamis: Tamis) -> None:
    done = tamis("check", "OPAQUE('in_my_list') AND a = 1")
    assert done.returncode == 2
    assert "a function cannot be read from text" in done.stderr


def test_json_has_the_place(tamis: Tamis) -> None:
    done = tamis("check", "price >> 3", "--json")
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert not found["ok"]
    assert (found["errors"][0]["text"], found["errors"][0]["position"]) == ("price >> 3", 7)


@pytest.mark.usefixtures("files")
def test_a_file_of_queries_is_well(tamis: Tamis) -> None:
    done = tamis("check", "queries.txt")
    assert (done.returncode, done.stderr) == (0, "queries.txt: ok (3 queries)\n")


def test_every_bad_query_of_a_file_is_reported(tamis: Tamis, tmp_path: Path) -> None:
    queries = {"a": "x = ", "b": "y = 1", "c": "= 2"}
    text = "".join(f'[[query]]\nkey = "{key}"\ntext = "{query}"\n\n' for key, query in queries.items())
    (tmp_path / "q.toml").write_text(text)
    done = tamis("check", "q.toml")
    assert done.returncode == 2
    assert "q.toml, line 3, query 'a': expected" in done.stderr
    assert "q.toml, line 11, query 'c': expected" in done.stderr
    errors = json.loads(tamis("check", "q.toml", "--json").stdout)["errors"]
    assert [(it["line"], it["key"]) for it in errors] == [(3, "a"), (11, "c")]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("q.toml", '[[query]]\nkey = "a"\ntxt = "x = 1"\n', "did you mean 'text'?"),
        ("q.txt", "no colon here\n", "q.txt, line 1: expected `key: selector text`"),
        ("q.txt", "a: x = 1\na: x = 2\n", "q.txt, line 2"),
        ("pipeline.toml", '[pipeline]\nname = "x"\n[[adapter]]\nname = "a"\ntype = "mbox"\npth = "m"\n', "line 6"),
        ("pipeline.toml", '[pipeline]\nname = "x\n', "pipeline.toml, line 2"),
    ],
)
def test_a_mistake_in_a_file_has_its_line(tamis: Tamis, tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    done = tamis("check", name)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr


def test_a_missing_file_is_not_taken_for_a_query(tamis: Tamis) -> None:
    done = tamis("check", "nowhere.txt")
    assert done.returncode == 2
    assert "nowhere.txt" in done.stderr
    assert "No such file" in done.stderr


def test_a_query_longer_than_any_file_name_is_a_query(tamis: Tamis) -> None:
    assert tamis("check", " OR ".join(f"a = {n}" for n in range(900))).returncode == 0


def test_the_demo_s_own_pipeline_is_well(tamis: Tamis, tmp_path: Path) -> None:
    from tamis.demo import lay_out

    lay_out(tmp_path / "demo")
    done = tamis("check", "demo/pipeline.toml")
    assert done.returncode == 0, done.stderr


def test_a_test_block_that_does_not_hold_is_an_error(tamis: Tamis, files: Path) -> None:
    (files / "mail").mkdir()
    (files / "pipeline.toml").write_text(
        '[queries]\nfile = "queries.txt"\n[[adapter]]\nname = "inbox"\ntype = "mbox"\npath = "mail"\n'
        '[[test]]\nmessage = { price = 7 }\nmatch = ["expensive"]\n'
    )
    done = tamis("check", "pipeline.toml")
    assert done.returncode == 2
    assert "expensive" in done.stderr


def test_an_empty_query_is_a_query_and_a_folder_is_neither(tamis: Tamis, tmp_path: Path) -> None:
    for text in ("", " "):
        done = tamis("check", text)
        assert (done.returncode, done.stdout) == (0, "TRUE\n"), done.stderr
    (tmp_path / "folder").mkdir()
    done = tamis("check", "folder")
    assert done.returncode == 2
    assert "folder: expected a file or a query, not a folder" in done.stderr


MAILBOX = '[[adapter]]\nname = "inbox"\ntype = "mbox"\npath = "inbox.mbox"\n[queries]\nfile = "q.txt"\n'


def test_a_name_that_no_source_has_is_a_warning(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "inbox.mbox").touch()
    (tmp_path / "pipeline.toml").write_text(MAILBOX)
    (tmp_path / "q.txt").write_text("frost: bdy LIKE '%frost%'\n")
    told = "query 'frost': no adapter gives a property 'bdy'; did you mean body?"
    done = tamis("check", "pipeline.toml")
    assert done.returncode == 0, done.stderr
    assert f"warning: q.txt, line 1, {told}" in done.stderr
    (warning,) = json.loads(tamis("check", "pipeline.toml", "--json").stdout)["warnings"]
    assert (warning["file"], warning["line"], warning["key"]) == ("q.txt", 1, "frost")
    assert warning["message"] in told
    added = tamis("query", "add", "frost", "bdy LIKE '%frost%'", "--json")
    assert added.returncode == 0
    assert f"warning: {told}" in added.stderr
    assert [it["message"] for it in json.loads(added.stdout)["warnings"]] == [warning["message"]]
    applied = tamis("query", "apply", "q.txt", "--json")
    assert f"warning: {told}" in applied.stderr


def test_what_can_hardly_be_meant_is_a_warning(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_text('good: a = 1\nodd: author = "James"\n')
    done = tamis("check", "odd.txt")
    assert done.returncode == 0
    assert "warning: odd.txt, line 2, query 'odd': \"James\" in double quotes is a name" in done.stderr
    found = json.loads(tamis("check", "price > '100'", "--json").stdout)
    assert (found["ok"], [it["position"] for it in found["warnings"]]) == (True, [8])
    assert tamis("check", "").stderr.startswith("warning: an empty query is true of every message")


def test_a_query_with_groupings_is_read_by_the_name_of_its_language(tamis: Tamis) -> None:
    done = tamis("check", "group == (A || B)", "--language", "boolean:region")
    assert (done.returncode, done.stdout) == (0, "group IN ('A', 'B')\n")
    assert "boolean:NAMES" in tamis("check", "group == A", "--language", "boolean:").stderr


def test_every_byte_of_a_snapshot_is_checked(tamis: Tamis, tmp_path: Path) -> None:
    engine = Engine[str]()
    engine.add_many((f"q{number}", selector(f"a{number % 7} > {number}")) for number in range(2_000))
    engine.save(tmp_path / "queries.tamis")
    assert tamis("check", "queries.tamis").stderr == "queries.tamis: ok (2,000 queries)\n"
    content = bytearray((tmp_path / "queries.tamis").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "queries.tamis").write_bytes(content)
    damaged = tamis("check", "queries.tamis")
    assert (damaged.returncode, damaged.stdout) == (2, "")
    assert "queries.tamis' is damaged: the checksum of the page at byte" in damaged.stderr
    assert not json.loads(tamis("check", "queries.tamis", "--json").stdout)["ok"]
