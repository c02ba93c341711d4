"""Calls the command line as a shell would, for its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import pytest

from tamis.cli import run

Tamis = Callable[..., "subprocess.CompletedProcess[str]"]

VARIABLES = {"NO_COLOR": "1", "COLUMNS": "120"}

QUERIES = """\
# key: selector text
james: author = 'James' AND source = 'CNN'
expensive:  price > 100
frost: NEAR(body, 'garlic', 'frost', 5)
"""

MESSAGES = """\
{"author": "James", "source": "CNN", "price": 120}
{"author": "Jane", "body": "Cover the garlic: frost tonight."}

{"author": "Jane", "price": 7}
"""


@pytest.fixture
def tamis(tmp_path: Path) -> Tamis:
    """Run ``tamis ARGUMENTS`` in a separate folder, in this process: a new one would take longer than most commands."""

    def call(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        with ExitStack() as open_files, pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            patch.delenv("TAMIS_STORE", raising=False)
            for name, value in {**VARIABLES, **variables}.items():
                patch.setenv(name, value)
            files = {name: open_files.enter_context(_file()) for name in ("stdin", "stdout", "stderr")}
            files["stdin"].write(stdin)
            files["stdin"].seek(0)
            for name, file in files.items():
                patch.setattr(sys, name, file)
            code = run(arguments)
            return _completed(arguments, code, _written(files["stdout"]), _written(files["stderr"]))

    return call


@pytest.fixture
def tamis_process(tmp_path: Path) -> Tamis:
    """Run ``tamis ARGUMENTS`` in a separate folder and a separate process, as a shell does."""

    def call(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **VARIABLES, **variables}
        environment.pop("TAMIS_STORE", None) if "TAMIS_STORE" not in variables else None
        done = subprocess.run(
            [sys.executable, "-m", "tamis", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=240,
            check=False,
        )
        return _completed(arguments, done.returncode, done.stdout, done.stderr)

    return call


def _file() -> IO[str]:
    """Return an empty file for a standard stream; commands ask these for their file numbers."""
    return NamedTemporaryFile("w+", encoding="utf-8", newline="")


def _written(file: IO[str]) -> str:
    """Return what was written to a file until now, also when a command has put something else under its number."""
    file.flush()
    return Path(file.name).read_bytes().decode()


def _completed(arguments: Sequence[str], code: int, out: str, err: str) -> subprocess.CompletedProcess[str]:
    """Return what a command did; a traceback fails the test."""
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(arguments, code, out, err)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with queries.txt and messages.jsonl."""
    (tmp_path / "queries.txt").write_text(QUERIES)
    (tmp_path / "messages.jsonl").write_text(MESSAGES)
    return tmp_path
