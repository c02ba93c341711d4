from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tamis.cli import run
from tamis.demo import lay_out
from tamis.errors import ConfigError
from tamis.query import LANGUAGES, load_queries
from tests.demo.oracle import expected_matches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SILENT = {"openamq-topic-1", "amqp-stock", "feeds"}
"""Queries that match nothing on purpose; queries.toml says why."""


def test_every_query_finds_something_or_is_silent_on_purpose(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    found, dead = expected_matches(folder)
    keys = {spec.key for spec in load_queries(folder.queries)}
    assert keys - set(found) == SILENT
    assert dead == 1


def test_there_are_about_sixty_queries_in_every_language(tmp_path: Path) -> None:
    specs = load_queries(lay_out(tmp_path).queries)
    assert 55 <= len(specs) <= 65
    # A predicate is a function that somebody has installed: there is none in the demo.
    assert {spec.language for spec in specs} == set(LANGUAGES) - {"predicate"}


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("cbm", 'Author = "James" and source = "CNN"'),
        ("cbm", 'From = "Someone (Someone@yahoo.com)"'),
        ("cbm", 'Subject LIKE "%question%"'),
        ("cbm", "Body LIKE %garlic%"),
        ("cbm", "Body LIKE %warmer%"),
        ("topic:openamq", "forex.*"),
        ("topic:openamq", "*.usd"),
        ("topic:openamq", "*.eur"),
        ("fields", "currency=USD, urgent"),
        ("fields", "currency=EUR"),
        ("fields", "market=forex, currency=EUR"),
        ("fields", "urgent"),
        ("topic", "*.stock.#"),
        (
            "boolean",
            "deleted = false && (CFI == OXXXX || CFI == FXXXX) && group == (American || European) "
            "&& Trading enabled == true",
        ),
    ],
)
def test_the_papers_own_queries_are_there_as_printed(tmp_path: Path, language: str, text: str) -> None:
    assert (language, text) in {(spec.language, spec.text) for spec in load_queries(lay_out(tmp_path).queries)}


def test_laying_out_again_changes_nothing_and_keeps_what_was_changed(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    assert folder.messages >= 500
    folder.queries.write_text('[[query]]\nkey = "mine"\ntext = "a = 1"\n')
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.rglob("*")}
    lay_out(tmp_path)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.rglob("*")} == before


def test_the_pipeline_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text('[pipeline]\nname = "mine"\n')
    with pytest.raises(ConfigError, match="not the demo's"):
        lay_out(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.toml"]


def test_single_messages_are_as_they_were_before_the_mailbox(tmp_path: Path) -> None:
    messages = sorted((lay_out(tmp_path).path / "mail" / "junk").iterdir())
    assert len(messages) == 200
    assert not any(path.read_bytes().startswith((b"From ", b"\n")) for path in messages)


def demo(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tamis", "demo", "--folder", str(folder), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_outbox_is_what_brute_force_gives_and_a_second_run_adds_nothing(
    tmp_path: Path, lasting_spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    from tamis.store import Store

    folder = lay_out(tmp_path)
    expected, dead = expected_matches(folder)
    wanted = set().union(*expected.values())

    *progress, result = demo(tmp_path)
    assert {event["event"] for event in progress} == {"progress"}
    summary = result["summary"]
    assert (summary["read"], summary["dead"]) == (folder.messages, dead)
    assert {query["key"]: query["matches"] for query in result["queries"] if query["matches"]} == {
        key: len(ids) for key, ids in expected.items()
    }
    with Store.open(folder.store, create=False) as store:
        assert store.notification_ids() == wanted
    in_rows = {spec.key for spec in load_queries(folder.queries) if spec.deliveries == ("rows",)}
    as_mail = set().union(*(ids for key, ids in expected.items() if key not in in_rows))
    assert {path.stem for path in folder.outbox.iterdir()} == as_mail
    assert folder.report.read_text().count("<mark>") >= 5

    capsys.readouterr()
    assert run(["demo", "--folder", str(tmp_path), "--json"]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (again["summary"]["read"], again["summary"]["notifications"], again["summary"]["delivered"]) == (0, 0, 0)
    assert again["counts"] == result["counts"]
    with Store.open(folder.store, create=False) as store:
        assert store.notification_ids() == wanted
    assert {path.stem for path in folder.outbox.iterdir()} == as_mail
