"""``tamis check``: whether a query, a file of queries or a pipeline.toml holds together: builds what a run builds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli import output
from tamis.errors import QueryError, TamisError

FILE_SUFFIXES = (".toml", ".txt", ".queries", ".conf", ".jsonl")
"""A target that ends so, or has a folder in it, is meant as a file even when it is not there."""


def check(
    target: Annotated[str, typer.Argument(help="A pipeline.toml, a file of queries, or the text of one query.")],
    language: Annotated[str, typer.Option(help="Of a query given as text.")] = "selector",
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> int:
    """Say whether it can be used, and if not, what is wrong where, with a caret under the place.

    A query that can be read is printed as selector text. Exit code: 0 when all is well, 2 when something is not.
    """
    path = Path(target)
    if _is_file(path, target):
        problems, told = _check_pipeline(path) if _is_pipeline(path) else _check_queries(path)
        canonical = None
    else:
        problems, told, canonical = _check_text(target, language)
    if as_json:
        output.data_json({"ok": not problems, "checked": told, "selector": canonical, "errors": problems})
    else:
        for problem in problems:
            output.error(problem["shown"])
        if canonical is not None:
            output.data(canonical)
        elif not problems:
            output.well(f"{target}: well ({told})")
    return 2 if problems else 0


def _is_file(path: Path, target: str) -> bool:
    """Whether the target is meant as a file rather than as a query."""
    try:
        if path.exists():
            return True
    except (OSError, ValueError):  # a long query is no possible file name
        return False
    return target.endswith(FILE_SUFFIXES) and " " not in target


def _is_pipeline(path: Path) -> bool:
    """Whether a TOML file is a pipeline rather than queries; one that is no TOML is judged by its name."""
    if path.suffix != ".toml":
        return False
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "pipeline" in path.name
    return "query" not in document


def _check_queries(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The problems of a file of queries: all of them, and how many queries there are."""
    from tamis.cli.queries import compile_all
    from tamis.query import load_queries

    try:
        specs = load_queries(path)
    except TamisError as error:
        return [_problem(error)], "no queries"
    _, bad = compile_all(specs, path)
    return [{**it.to_dict(), "shown": str(it)} for it in bad], _count(len(specs), "query", "queries")


def _check_text(text: str, language: str) -> tuple[list[dict[str, Any]], str, str | None]:
    """The problem of one query, if it has one, and its canonical text."""
    from tamis.query import compile_query

    try:
        return [], "1 query", str(compile_query(text, language))
    except (QueryError, TamisError, ValueError) as error:
        return [_problem(error)], "1 query", None


def _problem(error: Exception) -> dict[str, Any]:
    from tamis.cli.queries import describe

    return {**describe(error), "shown": str(error)}


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _check_pipeline(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The problems of a pipeline: configuration, queries, deliveries, adapters, and its ``[[test]]`` blocks."""
    from tamis.config import pipeline_check
    from tamis.config.pipeline import PipelineConfig

    try:
        config = PipelineConfig.load(path)
    except TamisError as error:
        return [{"message": line, "shown": line} for line in str(error).splitlines()], "no pipeline"
    found = pipeline_check.check(config)
    return [{**it.to_dict(), "shown": str(it)} for it in found], pipeline_check.describe(config)
