from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.query import QuerySpec
from tamis.store import Store
from tests.cli.conftest import Tamis


def test_a_query_is_added_listed_shown_changed_and_removed(tamis: Tamis) -> None:
    added = tamis(
        "query", "add", "expensive", "price > 100", "--owner", "ann", "--delivery", "mail", "--delivery", "log"
    )
    assert added.returncode == 0, added.stderr
    assert added.stderr.endswith("expensive is stored, version 1\n")
    (listed,) = [json.loads(line) for line in tamis("query", "list", "--json").stdout.splitlines()]
    assert (listed["key"], listed["version"], listed["owner"], listed["deliveries"]) == (
        "expensive",
        1,
        "ann",
        ["mail", "log"],
    )
    assert tamis("query", "add", "expensive", "price > 200").stderr == "expensive is stored, version 2\n"
    assert tamis("query", "add", "expensive", "price > 200").stderr == "expensive is stored, version 2\n"
    shown = tamis("query", "show", "expensive")
    assert "version:    1 (no longer valid)" in shown.stdout
    assert "text:       price > 200" in shown.stdout
    assert tamis("query", "remove", "expensive").returncode == 0
    assert tamis("query", "list", "--json").stdout == ""
    versions = [json.loads(line) for line in tamis("query", "show", "expensive", "--json").stdout.splitlines()]
    assert [(it["version"], it["valid"]) for it in versions] == [(1, False), (2, False)]


def test_a_query_is_paused_resumed_and_expires(tamis: Tamis) -> None:
    tamis("query", "add", "a", "price > 1", "--expires", "2w")
    tamis("query", "add", "b", "price > 1")
    assert tamis("query", "pause", "b").stderr == "b is paused, version 2\n"
    listed = [json.loads(line) for line in tamis("query", "list", "--json").stdout.splitlines()]
    assert [(it["key"], it["state"], it["paused"], bool(it["expires_at"])) for it in listed] == [
        ("a", "active", False, True),
        ("b", "paused", True, False),
    ]
    matched = tamis("match", "tamis.sqlite", stdin='{"price": 2}\n')
    assert json.loads(matched.stdout)["keys"] == ["a"]
    assert "1 query left out: paused or expired" in matched.stderr
    assert tamis("query", "expire", "a", "2020-01-31").stderr == "a is expired since 2020-02-01 00:00, version 2\n"
    assert "expired since 2020-02-01 00:00" in tamis("query", "list").stdout
    assert "state:      paused" in tamis("query", "show", "b").stdout
    assert tamis("query", "expire", "a", "never").stderr == "a is active, version 3\n"
    assert tamis("query", "undo", "a").stderr.startswith("a is again: price > 1 (version 4, expired since")
    assert tamis("query", "resume", "b").stderr == "b is active, version 3\n"


def test_an_owner_changes_only_their_own_queries(tamis: Tamis) -> None:
    tamis("query", "add", "a", "price > 1", "--as", "ann", "--tag", "x", "--tag", "y")
    for arguments in (["add", "a", "price > 2"], ["remove", "a"], ["undo", "a"], ["pause", "a"], ["expire", "a", "1d"]):
        done = tamis("query", *arguments, "--as", "ben")
        assert (done.returncode, done.stdout) == (2, "")
        assert "query 'a' is ann's; ben may only change queries of their own" in done.stderr
    assert tamis("query", "pause", "a", "--as", "ann").returncode == 0
    tamis("query", "add", "b", "price > 1", "--tag", "x")
    listed = tamis("query", "list", "--tag", "x", "--tag", "y").stdout
    assert ("x, y" in listed, len(listed.splitlines())) == (True, 2)
    assert "expected the name of an owner" in tamis("query", "remove", "a", "--as", "").stderr


def test_a_query_in_another_language_is_shown_as_selector_text_too(tamis: Tamis) -> None:
    tamis("query", "add", "paper", "currency=USD, urgent", "--language", "fields")
    shown = json.loads(tamis("query", "show", "paper", "--json").stdout)
    assert shown["canonical"] == "currency = 'USD' AND EXISTS(urgent)"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["add", "bad", "price >> 3"], "         ^"),
        (["add", "bad", "x", "--language", "selecter"], "did you mean 'selector'?"),
        (["add", "", "price > 3"], "key"),
        (["show", "nobody"], "no query has the key 'nobody'"),
        (["remove", "nobody"], "no query has the key 'nobody'"),
        (["pause", "nobody"], "no query has the key 'nobody'"),
        (["expire", "one", "tomorrow"], "'tomorrow': expected a date as 2026-12-31, a time"),
        (["import", "nowhere.txt"], "nowhere.txt"),
        (["list", "--store", "no/such/folder/x.sqlite"], "no/such/folder"),
    ],
)
def test_a_mistake_is_one_message_and_exit_2(tamis: Tamis, arguments: list[str], expected: str) -> None:
    tamis("query", "add", "one", "a = 1")
    done = tamis("query", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr
    assert done.stdout == ""


def test_import_is_all_or_nothing_and_says_what_changed(tamis: Tamis, files: Path) -> None:
    assert "3 added, 0 changed, 0 unchanged" in tamis("query", "import", "queries.txt").stderr
    (files / "queries.txt").write_text("james: a = 1\nbad: b ==\n")
    done = tamis("query", "import", "queries.txt")
    assert done.returncode == 2
    assert "queries.txt, line 2" in done.stderr
    assert "author = 'James'" in tamis("query", "list").stdout
    (files / "queries.txt").write_text("james: a = 1\n")
    counts = json.loads(tamis("query", "import", "queries.txt", "--json").stdout)
    assert counts == {"added": 0, "changed": 1, "unchanged": 0}


def test_the_queries_of_another_store_are_copied(tamis: Tamis, tmp_path: Path) -> None:
    with Store.open(tmp_path / "old.sqlite") as old:
        old.set_hierarchy("grp", {"American": "Options", "Options": None})
        old.add_queries([QuerySpec("opt", "grp UNDER 'Options'", tags=("market",)), QuerySpec("frost", "a = 1")])
        old.pause_query("frost")
        wanted = [record.spec() for record in old.list_queries()]
    tamis("query", "add", "frost", "a = 2", "--store", "new.sqlite")
    told = tamis("query", "import", "old.sqlite", "--store", "new.sqlite").stderr
    assert "1 added, 1 changed, 0 unchanged" in told
    assert "2 unchanged" in tamis("query", "import", "old.sqlite", "--store", "new.sqlite").stderr
    with Store.open(tmp_path / "new.sqlite") as new:
        assert {it.key: it.spec() for it in new.list_queries()} == {it.key: it for it in wanted}
        assert [it.attribute for it in new.list_hierarchies()] == ["grp"]


def test_the_store_is_the_option_s_then_the_variable_s_then_the_pipeline_s(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text('[pipeline]\nstore = "of-pipeline.sqlite"\n')
    tamis("query", "add", "a", "x = 1")
    assert (tmp_path / "of-pipeline.sqlite").is_file()
    tamis("query", "add", "a", "x = 1", TAMIS_STORE="of-variable.sqlite")
    assert (tmp_path / "of-variable.sqlite").is_file()
    tamis("query", "add", "a", "x = 1", "--store", "of-option.sqlite", TAMIS_STORE="of-variable.sqlite")
    assert (tmp_path / "of-option.sqlite").is_file()


def test_listing_a_store_that_is_absent_makes_none(tamis: Tamis, tmp_path: Path) -> None:
    done = tamis("query", "list")
    assert done.returncode == 2
    assert "tamis.sqlite: no store here" in done.stderr
    assert not (tmp_path / "tamis.sqlite").exists()


def test_a_store_from_a_newer_version_is_refused_in_words(tamis: Tamis, tmp_path: Path) -> None:
    tamis("query", "add", "a", "x = 1")
    with sqlite3.connect(tmp_path / "tamis.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    for arguments in (["query", "list"], ["query", "add", "b", "x = 2"]):
        done = tamis(*arguments)
        assert done.returncode == 2
        assert "the store is of version 9999, and this tamis knows up to" in done.stderr
        assert "update tamis" in done.stderr


def test_a_file_that_is_no_store_is_refused_in_words(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "tamis.sqlite").write_text("these are my notes, not a database\n" * 100)
    done = tamis("query", "list")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) <= 2


def test_a_key_with_control_characters_cannot_move_the_cursor(tamis: Tamis) -> None:
    tamis("query", "add", "evil\x1b[2J", "x = 1")
    assert "\x1b" not in tamis("query", "list").stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_one_message(tamis: Tamis, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        (tmp_path / "many.txt").write_text("".join(f"key-{n}: a = '{'x' * 200}{n}'\n" for n in range(5000)))
        done = tamis("query", "import", "many.txt", "--store", str(small / "tamis.sqlite"))
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert "full" in done.stderr or "No space left" in done.stderr
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_without_the_extra_the_command_says_how_to_get_it() -> None:
    program = (
        "import sys; sys.modules['typer'] = None\n"  # what importing finds where typer is not installed
        "from tamis.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'tamis[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_whose_extra_is_absent_names_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None; from tamis.cli import run; sys.exit(run(['query', 'list']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "pip install 'tamis[store]'" in done.stderr


def test_a_bug_is_one_line_unless_asked_for_more(tmp_path: Path) -> None:
    program = (
        "import sys, tamis.store; tamis.store.Store.open = lambda *a, **k: 1 / 0\n"
        "from tamis.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    call = [sys.executable, "-c", program]
    done = subprocess.run([*call, "query", "list"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 70
    assert "error: this is a bug in tamis: ZeroDivisionError: division by zero" in done.stderr
    assert "Traceback" not in done.stderr
    done = subprocess.run(
        [*call, "--debug", "query", "list"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 70
    assert "Traceback" in done.stderr


def test_apply_shows_what_it_changes_and_a_dry_run_changes_nothing(tamis: Tamis, files: Path) -> None:
    planned = tamis("query", "apply", "queries.txt", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "+ expensive: price > 100\n" in planned.stdout
    assert planned.stderr == "3 added, 0 changed, 0 removed, 0 unchanged (dry run: nothing is changed)\n"
    assert not (files / "tamis.sqlite").exists()
    assert tamis("query", "apply", "queries.txt").returncode == 0
    tamis("query", "add", "mine", "a = 1")
    (files / "queries.txt").write_text("expensive: price > 200\nfrost: NEAR(body, 'garlic', 'frost', 5)\n")
    applied = tamis("query", "apply", "queries.txt")
    assert (
        applied.stdout
        == "~ expensive: text: price > 100 -> price > 200\n- james: author = 'James' AND source = 'CNN'\n"
    )
    assert applied.stderr == "0 added, 1 changed, 1 removed, 1 unchanged\n"
    listed = [json.loads(line) for line in tamis("query", "list", "--json").stdout.splitlines()]
    assert [(it["key"], it["origin"] and Path(it["origin"]).name) for it in listed] == [
        *(("expensive", "queries.txt"), ("frost", "queries.txt")),
        ("mine", None),
    ]
    (files / "queries.txt").write_text("frost: NEAR(body, 'garlic', 'frost', 5)\n")
    (change,) = [json.loads(line) for line in tamis("query", "apply", "queries.txt", "--json").stdout.splitlines()]
    assert (change["action"], change["kind"], change["name"], change["after"]) == (
        "removed",
        "query",
        "expensive",
        None,
    )


def test_a_query_of_a_file_is_neither_changed_nor_removed_by_hand(tamis: Tamis, files: Path) -> None:
    tamis("query", "apply", "queries.txt")
    for arguments in (["add", "frost", "a = 1"], ["remove", "frost"]):
        done = tamis("query", *arguments)
        assert done.returncode == 2
        assert f"query 'frost' belongs to the file {files / 'queries.txt'}; change it there" in done.stderr
    assert f"from:       {files / 'queries.txt'}" in tamis("query", "show", "frost").stdout


DELIVERIES = '[[delivery]]\nname = "mail"\ntype = "store"\n'


def test_a_delivery_that_the_pipeline_does_not_have_is_refused(tamis: Tamis, tmp_path: Path) -> None:
    unknown = tamis("query", "add", "a", "x = 1", "--delivery", "mial")
    assert unknown.returncode == 0
    assert (
        "no pipeline of this store is known here, so only `tamis run` will check that 'mial' exists" in unknown.stderr
    )
    (tmp_path / "pipeline.toml").write_text(DELIVERIES)
    (tmp_path / "q.toml").write_text('[[query]]\nkey = "b"\ntext = "x = 1"\ndeliveries = ["mial"]\n')
    for arguments in (["add", "b", "x = 1", "--delivery", "mial"], ["apply", "q.toml"], ["import", "q.toml"]):
        done = tamis("query", *arguments)
        assert done.returncode == 2
        assert "query 'b': pipeline.toml has no [[delivery]] named 'mial'; did you mean 'mail'?" in done.stderr
    assert tamis("query", "add", "b", "x = 1", "--delivery", "mail").stderr == "b is stored, version 1\n"


def test_the_deliveries_are_those_of_the_pipeline_that_ran_last(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "pipeline.toml").write_text(f'[pipeline]\nstore = "{tmp_path}/s.sqlite"\n{DELIVERIES}')
    with Store.open(tmp_path / "s.sqlite") as store:
        store.take_lease(tmp_path / "far" / "pipeline.toml")
    done = tamis("query", "add", "b", "x = 1", "--delivery", "pager", "--store", "s.sqlite")
    assert done.returncode == 2
    assert "has no [[delivery]] named 'pager'; there are: mail" in done.stderr


def test_a_folder_is_applied_and_a_file_that_is_gone_takes_its_queries_along(tamis: Tamis, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "a.txt").write_text("a: x = 1\n")
    (rules / "b.txt").write_text("b: x = 2\n")
    assert tamis("apply", "rules").stdout.splitlines() == ["+ a: x = 1", "+ b: x = 2"]
    (rules / "b.txt").unlink()
    planned = tamis("apply", "rules", "--dry-run")
    assert planned.stdout == "- b: x = 2\n"
    assert planned.stderr == "0 added, 0 changed, 1 removed, 1 unchanged (dry run: nothing is changed)\n"
    assert tamis("apply", "rules").returncode == 0
    assert [json.loads(line)["key"] for line in tamis("query", "list", "--json").stdout.splitlines()] == ["a"]


def test_a_change_is_undone(tamis: Tamis) -> None:
    tamis("query", "add", "q", "x = 1")
    tamis("query", "add", "q", "x = 2")
    assert tamis("query", "undo", "q").stderr == "q is again: x = 1 (version 3, active)\n"
    assert json.loads(tamis("query", "undo", "q", "--json").stdout)["text"] == "x = 2"
    tamis("query", "add", "new", "x = 3")
    assert tamis("query", "undo", "new").stderr == "removed new, which had no version before\n"
    assert tamis("query", "undo", "new").stderr == "new is again: x = 3 (version 2, active)\n"
    assert "no query has the key 'nothing'" in tamis("query", "undo", "nothing").stderr
