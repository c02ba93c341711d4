"""Every program in examples/ runs, and prints something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


def needs_spark(path: Path) -> bool:
    return "tamis.spark" in path.read_text(encoding="utf-8")


def marked(path: Path) -> object:
    return pytest.param(path, id=path.name, marks=[pytest.mark.spark] if needs_spark(path) else [])


@pytest.mark.parametrize("path", [marked(path) for path in EXAMPLES])
def test_an_example_runs_and_prints_something(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
