from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(*command: str | Path, folder: Path = EXAMPLES) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_match_says_what_matched_and_why() -> None:
    assert run("first_match.py").splitlines() == [
        "['james-cnn', 'world-news', 'frost']",
        "big-tick: no: price > 100 is true (120); symbol IN ('A', 'B') is FALSE ('C')",
        "['james-cnn', 'world-news']",
    ]


def test_the_papers_answers_are_those_they_print() -> None:
    words = [line.split(maxsplit=40) for line in run("papers.py").splitlines()]
    assert [line[-1] for line in words[:4]] == ["True"] * 4
    text = run("papers.py")
    assert "subscriptions [0, 2, 3]" in text
    assert "subscriptions [0, 3]" in text
    assert "subscriptions [3]" in text
    assert "hits [(1, 1, 1), (2, 2, 2)] all [1, 2]" in text


def test_an_arrow_table_is_matched_row_by_row() -> None:
    pytest.importorskip("pyarrow")
    assert [line.rpartition("} ")[2] for line in run("arrow_table.py").splitlines()] == [
        "['expensive', 'european']",
        "['european']",
        "[]",
    ]


def test_the_files_for_the_command_line_match() -> None:
    folder = EXAMPLES / "command_line"
    text = run("-m", "tamis", "match", "queries.toml", "readings.jsonl", folder=folder)
    assert text.count("\n") == 4
    run("-m", "tamis", "check", "queries.toml", folder=folder)


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_column_of_a_dataframe_counts_matches(
    lasting_spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / "spark_column.py"), run_name="__main__")
    assert "razor-or-spamassassin" in capsys.readouterr().out
