"""Every program in examples/ runs and prints what it is about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PRINTED = {
    "alerts.py": ["ticks.asia.tokyo -> ann:dear, ann:asia, ben:moves", "ann:dear no:"],
    "arrow_table.py": ["['dear', 'urgent dollars']", "['urgent dollars']", "[]"],
}


def run(name: str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs_and_prints_what_it_is_about(name: str) -> None:
    printed = run(name)
    assert [text for text in PRINTED[name] if text not in printed] == []


@pytest.mark.spark
def test_the_example_on_spark_shows_the_column() -> None:
    assert "[dear, james]" in run("spark_column.py")


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*PRINTED, "spark_column.py"}
