"""The README is true: its Python has the results in its comments, and its commands run with its files."""

from __future__ import annotations

import ast
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest

import tamis
import tamis.cli
from tests.broker.conftest import RunningBroker
from tests.fenced import Block, blocks, run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).resolve().parent.parent
PIPELINE_COMMANDS = ("tamis run", "tamis query", "tamis check pipeline.toml")


BLOCKS = blocks(PROJECT / "README.md")
PYTHON = [block for block in BLOCKS if block.language == "python"]
COMMANDS = [
    line.removeprefix("$ ")
    for block in BLOCKS
    if block.language == "console"
    for line in block.text.splitlines()
    if line.startswith("$ ")
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a current folder with the files that the README shows and some real mail."""
    for block in BLOCKS:
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    (tmp_path / "mail").mkdir()
    sample = PROJECT / "python/tamis/demo/mail/news.mbox.gz"
    with gzip.open(sample) as packed, (tmp_path / "mail" / "news.mbox").open("wb") as mailbox:
        shutil.copyfileobj(packed, mailbox)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(line: str) -> subprocess.CompletedProcess[str]:
    """Run one command of the README as a shell would, without its comment."""
    command, _, _ = line.partition("    #")
    words = shlex.split(command)
    assert words[0] == "tamis", line
    source = None
    if "<" in words:
        place = words.index("<")
        source = Path(words[place + 1]).read_text(encoding="utf-8")
        del words[place : place + 2]
    return subprocess.run(
        [sys.executable, "-m", *words], input=source, capture_output=True, text=True, check=False, env=os.environ
    )


def exit_code_promised(line: str) -> int:
    found = re.search(r"# exit (\d+)", line)
    return int(found.group(1)) if found else 0


@pytest.mark.parametrize("block", [block for block in PYTHON if not block.info.strip()], ids=lambda b: b.text[:40])
def test_python_of_the_readme_gives_what_it_says(block: Block, folder: Path) -> None:
    for code, value, promised in run_python(block.text):
        assert value == ast.literal_eval(promised), code


def test_what_the_readme_does_with_the_broker_gives_what_it_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = RunningBroker(folder)
    monkeypatch.setattr(pika.connection.Parameters, "DEFAULT_PORT", running.port)
    for block in PYTHON:
        if "broker" in block.info:
            for code, value, promised in run_python(block.text):
                assert value == ast.literal_eval(promised), code
    (shown,) = (block for block in BLOCKS if block.language == "toml" and "journal" in block.text)
    path = Path(tomllib.loads(shown.text)["adapter"][0]["path"])
    assert (running.data / path.relative_to("tamis-data")).is_dir(), "the log that the pipeline is to read"
    running.kill()


@pytest.mark.parametrize("line", [line for line in COMMANDS if not line.startswith(PIPELINE_COMMANDS)])
def test_a_command_of_the_readme_ends_as_it_says(line: str, folder: Path) -> None:
    done = run_command(line)
    assert done.returncode == exit_code_promised(line), done.stderr
    assert "Traceback" not in done.stderr


def test_the_queries_of_the_readme_can_be_read(folder: Path) -> None:
    assert [spec.key for spec in tamis.load_queries("queries.txt")] == ["james", "expensive", "frost"]


@pytest.mark.spark
def test_the_pipeline_of_the_readme_runs_command_by_command(folder: Path, lasting_spark: SparkSession) -> None:
    for line in COMMANDS:
        if line.startswith("tamis run"):
            # Spark's processes have another current folder than the test.
            absolute = line.replace("pipeline.toml", str(folder / "pipeline.toml"))
            _, *arguments = shlex.split(absolute.partition("    #")[0])
            assert tamis.cli.run(arguments) == exit_code_promised(line), line
        elif line.startswith(PIPELINE_COMMANDS):
            done = run_command(line)
            assert done.returncode == exit_code_promised(line), done.stderr
            assert "Traceback" not in done.stderr


@pytest.mark.spark
@pytest.mark.parametrize("block", [block for block in PYTHON if "spark" in block.info], ids=lambda b: b.text[:40])
def test_spark_of_the_readme_shows_subjects_and_matches(
    block: Block, folder: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    # Spark's processes have another current folder than the test.
    run_python(block.text.replace('"mail/"', repr(str(folder / "mail"))))
    assert "matched" in capsys.readouterr().out
