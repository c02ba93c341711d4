"""`tamis hierarchy`, and every command that follows a hierarchy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tamis

TREE = '{"American": "Options", "European": "Options", "Options": null}'
TOML = """\
[[query]]
key = "options"
text = "grp UNDER 'Options'"
[[hierarchy]]
attribute = "grp"
parents = { American = "Options", European = "Options", Options = "" }
"""
MESSAGES = '{"grp": "American"}\n{"grp": "Futures"}\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tree.json").write_text(TREE)
    (tmp_path / "queries.txt").write_text("options: grp UNDER 'Options'\n")
    (tmp_path / "queries.toml").write_text(TOML)
    (tmp_path / "messages.jsonl").write_text(MESSAGES)
    return tmp_path


def test_a_hierarchy_is_set_shown_listed_and_removed(tamis: Tamis, folder: Path) -> None:
    done = tamis("hierarchy", "set", "grp", "tree.json")
    assert (done.returncode, done.stderr) == (0, "the hierarchy of grp is stored, version 1: 3 values\n")
    (folder / "tree.toml").write_text('Options = ""\n"An American" = "Options"\n')
    assert tamis("hierarchy", "set", "grp", "tree.toml").returncode == 0
    assert tamis("hierarchy", "show", "grp").stdout == "Options\n  An American\n"
    shown = json.loads(tamis("hierarchy", "show", "grp", "--version", "1", "--json").stdout)
    assert (shown["version"], shown["valid"], shown["parents"]) == (1, False, json.loads(TREE))
    tamis("hierarchy", "set", "other", "-", stdin="{}")
    listed = [json.loads(line) for line in tamis("hierarchy", "list", "--json").stdout.splitlines()]
    assert [(it["attribute"], it["version"], it["origin"]) for it in listed] == [("grp", 2, None), ("other", 1, None)]
    assert "hand" in tamis("hierarchy", "list").stdout
    assert tamis("hierarchy", "remove", "grp").returncode == 0
    assert tamis("hierarchy", "show", "grp").returncode == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "b"}', "stdin: 'a': its parent 'b' is not a value of the hierarchy"),
        ('{"a": 5}', "stdin: 'a': expected its parent as text, or null, not 5"),
        ("[]", "stdin: expected a table"),
        ("{", "stdin: Expecting property name"),
        ('{"a": null, "a": "b", "b": null}', "stdin: 'a' occurs twice; a value has only one parent"),
    ],
)
def test_what_is_no_hierarchy_is_refused(tamis: Tamis, text: str, expected: str) -> None:
    done = tamis("hierarchy", "set", "grp", "-", stdin=text)
    assert done.returncode == 2
    assert expected in done.stderr
    assert tamis("hierarchy", "show", "grp").returncode == 2


NEEDS_ONE = "UNDER needs a hierarchy of 'grp', and there is none"


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "queries.txt", "messages.jsonl"],
        ["explain", "queries.txt", "--message", '{"grp": "American"}'],
        ["analyze", "queries.txt"],
        ["backtest", "grp UNDER 'Options'", "messages.jsonl"],
        ["check", "grp UNDER 'Options'"],
        ["check", "queries.txt"],
    ],
)
def test_under_without_a_hierarchy_is_refused_and_with_one_is_followed(tamis: Tamis, arguments: list[str]) -> None:
    done = tamis(*arguments)
    assert done.returncode == 2
    assert NEEDS_ONE in done.stderr
    assert tamis(*arguments, "--hierarchy", "grp=tree.json").returncode == 0
    refused = tamis(*arguments, "--hierarchy", "grp")
    assert "--hierarchy: expected ATTRIBUTE=FILE, not 'grp'" in refused.stderr


@pytest.mark.parametrize("queries", ["queries.toml", "tamis.sqlite"])
def test_the_hierarchies_of_a_file_and_of_a_store_count_for_every_command(tamis: Tamis, queries: str) -> None:
    assert tamis("query", "apply", "queries.toml").returncode == 0
    matched = [json.loads(line) for line in tamis("match", queries, "messages.jsonl").stdout.splitlines()]
    assert [(it["line"], it["keys"]) for it in matched] == [(1, ["options"])]
    assert "options: yes" in tamis("explain", queries, "--message", '{"grp": "European"}').stdout
    done = tamis("backtest", "options", "messages.jsonl", "--queries", queries)
    assert "would have matched once in 2 messages" in done.stdout
    done = tamis("analyze", queries, "--messages", "messages.jsonl", "--json")
    assert json.loads(done.stdout)["unmatched"] == []
    assert tamis("check", queries).returncode == 0


def test_a_store_takes_under_only_with_a_hierarchy(tamis: Tamis) -> None:
    for arguments in (["add", "options", "grp UNDER 'Options'"], ["apply", "queries.txt"], ["import", "queries.txt"]):
        done = tamis("query", *arguments)
        assert done.returncode == 2
        assert NEEDS_ONE in done.stderr
    tamis("hierarchy", "set", "grp", "tree.json")
    assert tamis("query", "apply", "queries.txt").returncode == 0
    done = tamis("hierarchy", "remove", "grp")
    assert done.returncode == 2
    assert "query 'options': UNDER needs" in done.stderr
