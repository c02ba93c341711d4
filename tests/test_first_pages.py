"""The first ten minutes of four people: each page of docs/start runs as it says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.documents_runner import playing
from tests.fenced import blocks, run_python
from tests.free_port import free_port

START = Path(__file__).resolve().parent.parent / "docs" / "start"
PAGES = sorted(START.glob("*.md"))
IN_SHELL = [page for page in PAGES if any(block.language == "console" for block in blocks(page))]
IN_PYTHON = [page for page in PAGES if any(block.language == "python" and not block.title for block in blocks(page))]
ON_SPARK = [page for page in PAGES if any("spark" in block.info for block in blocks(page))]


def play(page: Path, folder: Path, *, spark: bool) -> int:
    ports = {port: free_port() for port in ("5680", "8780")}
    with playing(folder, ports) as player:
        return player.play(page, spark=spark)


def test_there_is_a_page_for_each_reader() -> None:
    assert [page.stem for page in PAGES] == [
        "coming-from-elasticsearch",
        "coming-from-rabbitmq",
        "events",
        "library",
        "mail",
        "spark",
    ]


@pytest.mark.parametrize("page", [page for page in IN_SHELL if page.stem != "spark"], ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert play(page, tmp_path, spark=False) > 0


@pytest.mark.spark
@pytest.mark.parametrize("page", ON_SPARK, ids=lambda page: page.stem)
def test_the_commands_of_a_page_with_spark_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert play(page, tmp_path, spark=True) > 0


@pytest.mark.parametrize("page", IN_PYTHON, ids=lambda page: page.stem)
def test_the_python_of_a_page_gives_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = run_python("\n".join(block.text for block in blocks(page) if block.language == "python"))
    assert seen
    for code, value, promised in seen:
        assert value == ast.literal_eval(promised), code
