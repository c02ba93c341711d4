"""`check` passes exactly the pipelines that run, and changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tamis.cli.pipeline.run import warn_of_queries_elsewhere
from tamis.config.apply import apply_config, queries_elsewhere
from tamis.config.pipeline import PipelineConfig
from tamis.config.pipeline_check import PipelineCheck, check
from tamis.query import QuerySpec
from tamis.store import Store
from tamis.store.models import SCHEMA_VERSION

GOOD = """\
[queries]
file = "queries.txt"
deliveries = ["outbox"]
[[adapter]]
name = "inbox"
type = "mbox"
path = "mail/"
[[delivery]]
name = "outbox"
type = "eml"
folder = "outbox"
[[test]]
message = { author = "James", when = 2002-08-22T18:26:25Z }
topic = "mail"
body = "first frost"
match = ["james", "frost"]
[[test]]
match = []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a pipeline that runs."""
    (tmp_path / "mail").mkdir()
    (tmp_path / "queries.txt").write_text("james: author = 'James'\nfrost: CONTAINS(body, 'frost')\n")
    (tmp_path / "pipeline.toml").write_text(GOOD)
    return tmp_path


def _problems(folder: Path, there: str = "", instead: str = "") -> list[str]:
    path = folder / "pipeline.toml"
    text = path.read_text()
    assert there in text
    path.write_text(text.replace(there, instead, 1))
    return [str(problem).replace(f"{folder}/", "") for problem in check(PipelineConfig.load(path))]


def test_a_good_pipeline_passes_and_nothing_is_made(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    assert _problems(folder) == []
    assert sorted(folder.rglob("*")) == before
    assert described(folder) == "2 queries, 1 adapter, 1 delivery, 2 tests"


def test_queries_of_the_store_are_counted_too(folder: Path) -> None:
    with Store.open(folder / "tamis.sqlite") as store:
        store.add_queries([QuerySpec("james", "author = 'J'"), QuerySpec("by-hand", "subject = 'x'")])
    assert described(folder).startswith("3 queries, ")


def described(folder: Path) -> str:
    checked = PipelineCheck(PipelineConfig.load(folder / "pipeline.toml"))
    assert list(checked.problems())[1:] == []
    return checked.description()


HIERARCHY = """\
[[hierarchy]]
attribute = "grp"
parents = { American = "Options", Options = "" }
[[adapter]]"""


def test_under_needs_a_hierarchy_which_the_file_may_give(folder: Path) -> None:
    (folder / "queries.txt").write_text(
        "james: author = 'James'\nfrost: CONTAINS(body, 'frost')\nopt: grp UNDER 'Options'\n"
    )
    (problem,) = _problems(folder)
    assert problem.startswith("queries.txt, line 3: query 'opt': UNDER needs a hierarchy of 'grp', and there is none")
    assert _problems(folder, "[[adapter]]", HIERARCHY) == []
    assert _problems(folder, "match = []\n", 'message = { grp = "American" }\nmatch = ["opt"]\n') == []


def test_the_topic_of_a_message_is_one_of_its_properties(folder: Path) -> None:
    assert _problems(folder, 'path = "mail/"', 'path = "mail/"\ntopic_field = "newsgroup"') == []
    (problem,) = _problems(folder, '"newsgroup"', '"newsgroups"')
    expected = "topic_field: expected one of author, subject, source, newsgroup, list, message_id, header.NAME"
    assert problem == f"pipeline.toml, line 8: {expected}, not 'newsgroups'"


def test_a_further_name_is_one_of_a_property(folder: Path) -> None:
    assert _problems(folder, 'path = "mail/"', 'path = "mail/"\nfields = "by=author"') == []
    (problem,) = _problems(folder, '"by=author"', '"by"')
    assert problem == "pipeline.toml, line 8: fields: expected new=old, not 'by'"


def test_what_a_run_would_remove_is_not_checked(folder: Path) -> None:
    assert _problems(folder) == []
    config = PipelineConfig.load(folder / "pipeline.toml")
    with Store.open(folder / "tamis.sqlite") as store:
        store.apply_files(config.query_files())
        assert {record.origin for record in store.list_queries()} == {str(folder / "queries.txt")}
    (folder / "queries.txt").write_text("frost: CONTAINS(body, 'frost')\n")
    assert _problems(folder, '["james", "frost"]', '["frost"]') == []


def test_every_bad_query_is_told_with_a_caret(folder: Path) -> None:
    (folder / "queries.txt").write_text("a: x >> 3\n# fine\nb: y = 1\nc: z LIKE 5\n")
    first, second = _problems(folder)
    assert first.startswith("queries.txt, line 1: query 'a': expected")
    assert "^" in first
    assert second.startswith("queries.txt, line 4: query 'c': expected")


@pytest.mark.parametrize(
    ("there", "instead", "expected"),
    [
        ('"queries.txt"', '"nowhere.txt"', "pipeline.toml, line 2: nowhere.txt: the file of queries cannot be read"),
        (
            "[[delivery]]",
            '[[adapter]]\nname = "news"\ntype = "feed"\nurl = "ftp://x"\n[[delivery]]',
            "pipeline.toml, line 11: url: expected an address that begins with https:// or http://, not 'ftp://x'",
        ),
        ('"mail/"', '"mial/"', "pipeline.toml, line 7: mial: no such file or folder"),
        ('"mail/"', '"mial/*.mbox"', "pipeline.toml, line 7: mial: no such file or folder"),
        ('folder = "outbox"', 'folder = "queries.txt"', "pipeline.toml, line 11: queries.txt: not a folder"),
        ('folder = "outbox"', 'folder = "queries.txt/x"', "pipeline.toml, line 11: queries.txt: not a folder"),
        (
            'type = "eml"\nfolder = "outbox"',
            'type = "jsonl"\npath = "mail"',
            "pipeline.toml, line 11: mail: not a file",
        ),
        (
            'type = "eml"\nfolder = "outbox"',
            'type = "smtp"\nhost = "h"\nfrom = "a@b"\nto = "c@d"\nuser = "u"\npassword_env = "TAMIS_UNSET"',
            "pipeline.toml, line 15: delivery 'outbox': the environment variable TAMIS_UNSET is not set",
        ),
        (
            "[queries]",
            '[pipeline]\nstore = "nowhere/s.sqlite"\n[queries]',
            "pipeline.toml, line 2: nowhere/s.sqlite: the folder nowhere does not exist",
        ),
        (
            "[queries]",
            '[pipeline]\nwork = "queries.txt"\n[queries]',
            "pipeline.toml, line 2: queries.txt: not a folder",
        ),
        ('["james", "frost"]', '["james"]', "pipeline.toml, line 16: the test did not expect 'frost' to match: yes"),
        ("match = []", 'match = ["james"]', "pipeline.toml, line 18: the test expected 'james' to match:"),
        ("match = []", 'match = ["jams"]', "pipeline.toml, line 18: no query is named 'jams'; did you mean 'james'?"),
        (
            "match = []",
            "message = {x = 07:32:00}\nmatch = []",
            "pipeline.toml, line 19: the message cannot be matched:",
        ),
    ],
)
def test_what_would_not_run_is_told_with_its_line(folder: Path, there: str, instead: str, expected: str) -> None:
    (problem,) = _problems(folder, there, instead)
    assert problem.startswith(expected)


def test_queries_of_the_store_count_as_they_do_in_a_run(folder: Path) -> None:
    with Store.open(folder / "tamis.sqlite") as store:
        store.add_query(QuerySpec("any", "author IS NOT NULL", deliveries=("pager",)))
    delivery, test = _problems(folder)
    assert delivery == "tamis.sqlite: query 'any': no [[delivery]] is named 'pager'"
    assert test.startswith("pipeline.toml, line 16: the test did not expect 'any' to match")


def test_a_profile_that_a_query_names_must_be_there(folder: Path) -> None:
    owners = '[[owner]]\nname = "ann"\nto = "a@b.org"\n[[owner.profile]]\nname = "urgent"\n[[delivery]]'
    with Store.open(folder / "tamis.sqlite") as store:
        store.add_query(QuerySpec("one", "author = 'James'", owner="ann/urgnt"))
        store.add_query(QuerySpec("two", "author = 'James'", owner="ann/urgent"))
        store.add_query(QuerySpec("three", "author = 'James'", owner="ben/any"))
    found = [problem for problem in _problems(folder, "[[delivery]]", owners) if "the test" not in problem]
    assert found == [
        "tamis.sqlite: query 'one': no [[owner.profile]] of 'ann' is named 'urgnt'; did you mean 'urgent'?"
    ]


def test_a_store_of_a_newer_version_is_told(folder: Path) -> None:
    Store.open(folder / "tamis.sqlite").close()
    connection = sqlite3.connect(folder / "tamis.sqlite", isolation_level=None)
    connection.execute("UPDATE alembic_version SET version_num = ?", (f"{SCHEMA_VERSION + 1:04}",))
    connection.close()
    (problem,) = _problems(folder)
    assert problem.startswith(f"pipeline.toml: tamis.sqlite: the store is of version {SCHEMA_VERSION + 1}")


def test_a_pipeline_of_nothing_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text("")
    assert _problems(tmp_path) == [
        "pipeline.toml: no queries: expected some in a file or in the store",
        "pipeline.toml: no [[adapter]]: there is nothing to read",
    ]


def test_queries_of_a_file_that_is_not_named_any_more_are_pointed_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, old = folder / "pipeline.toml", folder / "queries.txt"
    before = PipelineConfig.load(path)
    warn_of_queries_elsewhere(before)  # there is no store yet
    before.store_path.parent.mkdir(parents=True, exist_ok=True)
    with Store.open(before.store_path) as store:
        apply_config(before, store)
        store.add_query(QuerySpec("by hand", "x = 1", deliveries=("outbox",)))
        assert queries_elsewhere(before, store) == {}
        path.write_text(GOOD.replace("queries.txt", "new.txt"))
        (folder / "new.txt").write_text("new: x = 2\n")
        now = PipelineConfig.load(path)
        assert queries_elsewhere(now, store) == {str(old): 2}
    warn_of_queries_elsewhere(now)
    assert f"2 queries from {old} still match" in capsys.readouterr().err
    old.unlink()
    warn_of_queries_elsewhere(now)
    assert "tamis query remove KEY" in capsys.readouterr().err
