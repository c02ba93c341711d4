"""The first ten minutes of four people: each page of docs/start runs as it says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.documents_runner import playing
from tests.fenced import blocks, run_python
from tests.free_port import free_port
from tests.postgres_server import why_not

START = Path(__file__).resolve().parent.parent / "docs" / "start"
PAGES = sorted(START.glob("*.md"))
IN_SHELL = [
    page for page in PAGES if any(block.language == "console" and "spark" not in block.info for block in blocks(page))
]
IN_PYTHON = [page for page in PAGES if any(block.language == "python" and not block.title for block in blocks(page))]
ON_SPARK = [page for page in PAGES if any("spark" in block.info for block in blocks(page))]


DATABASE = "postgresql://tamis@localhost/tamis"  # as pages write it


def play(page: Path, folder: Path, *, spark: bool, database: str | None = None) -> int:
    replaced = {port: str(free_port()) for port in ("5680", "8780", "7077")}
    if database is not None:
        replaced[DATABASE] = database
    with playing(folder, replaced) as player:
        return player.play(page, spark=spark, without="" if database else "postgres")


def test_there_is_a_page_for_each_reader() -> None:
    assert [page.stem for page in PAGES] == [
        "coming-from-elasticsearch",
        "coming-from-rabbitmq",
        "events",
        "library",
        "mail",
        "spark",
        "watching",
    ]


@pytest.mark.parametrize("page", [page for page in IN_SHELL if page.stem != "spark"], ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert play(page, tmp_path, spark=False) > 0


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", ON_SPARK, ids=lambda page: page.stem)
def test_the_commands_of_a_page_with_spark_print_what_it_shows(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tamis.spark.java import find_java

    monkeypatch.setenv("JAVA_HOME", str(find_java().home))  # for Spark's own programs
    database = None
    if any("postgres" in block.info for block in blocks(page)) and why_not() is None:
        database = request.getfixturevalue("postgres").new_database()
    assert play(page, tmp_path, spark=True, database=database) > 0


@pytest.mark.parametrize("page", IN_PYTHON, ids=lambda page: page.stem)
def test_the_python_of_a_page_gives_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = run_python("\n".join(block.text for block in blocks(page) if block.language == "python"))
    assert seen
    for code, value, promised in seen:
        assert value == ast.literal_eval(promised), code
