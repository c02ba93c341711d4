"""Calls the command line as a shell would, for its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Tamis = Callable[..., "subprocess.CompletedProcess[str]"]

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
    """Run ``tamis ARGUMENTS`` in a separate folder; a traceback fails the test."""

    def call(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **variables}
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
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return call


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with queries.txt and messages.jsonl."""
    (tmp_path / "queries.txt").write_text(QUERIES)
    (tmp_path / "messages.jsonl").write_text(MESSAGES)
    return tmp_path
