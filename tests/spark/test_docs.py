"""The programs of docs/spark.md run, on mail and rules of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fenced import blocks, run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def test_the_programs_of_the_page_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.mbox").write_text("From a\nSubject: Garden\n\nfrost tonight\n")
    (tmp_path / "queries.txt").write_text("frost: CONTAINS(body, 'frost')\n")
    monkeypatch.chdir(tmp_path)
    programs = [
        block.text
        for block in blocks(PAGE)
        if block.language == "python" and not re.search(r"remote\(|@dp", block.text)
    ]
    assert len(programs) >= 3
    # Spark's processes have another current folder than the test.
    run_python("\n".join(programs).replace('"mail/"', repr(str(tmp_path / "a.mbox"))))
    printed = capsys.readouterr().out
    assert "Garden|[frost]" in printed
    assert "[{CONTAINS(body, " in printed
    assert spark.table("offers").count() == 2
