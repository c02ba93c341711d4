"""The Python in the documents and examples passes mypy --strict, and what needs no server runs as it says."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fenced import python_of, run_python

PROJECT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    PROJECT / "README.md",
    *sorted((PROJECT / "docs").glob("*.md")),
    *sorted((PROJECT / "docs/start").glob("*.md")),
]
PAGES = [page for page in DOCUMENTS if python_of(page)]
ALONE = [
    page
    for page in PAGES
    if page.parent.name != "start"
    and not any(part in python_of(page) for part in ("spark", "pika", "tamis.client", "adapters"))
]


def test_the_programs_of_documents_and_examples_pass_mypy_strict(tmp_path: Path) -> None:
    for page in PAGES:
        (tmp_path / f"{page.stem.replace('-', '_')}_page.py").write_text(python_of(page), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *tmp_path.glob("*.py"), *(PROJECT / "examples").glob("*.py")],
        cwd=PROJECT,  # whose settings and cache the run shares with `make lint`
        env=os.environ | {"MYPYPATH": str(PROJECT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_knows_the_type_of_the_keys(tmp_path: Path) -> None:
    program = (
        "import tamis\n"
        "engine: tamis.Engine[str] = tamis.Engine()\n"
        "matched: list[str] = engine.match({})\n"
        "for key in engine: key.upper()\n"
        "hits: list[tuple[str, int, int]] = engine.hits()\n"
        "opened: tamis.Engine[int] = tamis.Engine.open('x')\n"
        "numbers: list[int] = opened.keys([1]) + opened.near_misses() + opened.report().never_true\n"
        "engine.add(3, tamis.selector('a = 1'))\n"
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", tmp_path / "program.py"],
        cwd=PROJECT,
        env=os.environ | {"MYPYPATH": str(PROJECT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()[:-1]] == [
        'error: Argument 1 to "add" of "Engine" has incompatible type "int"; expected "str"  [arg-type]'
    ], done.stdout + done.stderr


@pytest.mark.parametrize("page", ALONE, ids=lambda page: page.name)
def test_the_programs_of_a_page_give_what_they_say(page: Path) -> None:
    seen = run_python(python_of(page))
    assert seen
    for code, value, promised in seen:
        assert value == ast.literal_eval(promised), code
