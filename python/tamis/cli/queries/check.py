"""The command `tamis check`, which checks queries, a snapshot or a pipeline by building what a run builds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, OK
from tamis.cli.options import HierarchyOption
from tamis.cli.queries.against_pipeline import query_warnings
from tamis.errors import ConfigError, QueryError, TamisError

if TYPE_CHECKING:
    from tamis.query import Query
    from tamis.query.hierarchy import Parents

FILE_SUFFIXES = (".toml", ".txt", ".queries", ".conf", ".jsonl")
"""A target with such an ending is taken for a file even if the file does not exist."""


def check(
    target: Annotated[
        str, typer.Argument(help="A pipeline.toml, a file of queries, a store, a snapshot, or one query.")
    ],
    language: Annotated[str, typer.Option(help="The language of a query given as text.")] = "selector",
    hierarchy: HierarchyOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> int:
    """Check whether the target can be used, and if not, print every error with a caret at its position.

    A query that can be parsed is printed as selector text. Every byte of a snapshot is checked. Probable mistakes are
    warnings. Exit code: 0 without errors, 2 with some.
    """
    path, told = Path(target), _Warnings()
    if _is_file(path, target):
        problems, checked = _check_pipeline(path, told) if _is_pipeline(path) else _check_queries(path, hierarchy, told)
        canonical = None
    else:
        problems, checked, canonical = _check_text(target, language, hierarchy, told)
    if as_json:
        found = {"errors": problems, "warnings": told.found}
        output.data_json({"ok": not problems, "checked": checked, "selector": canonical, **found})
    else:
        for problem in problems:
            output.error(problem["shown"])
        if canonical is not None:
            output.data(canonical)
        elif not problems:
            output.success(f"{target}: ok ({checked})")
    return ERROR if problems else OK


class _Warnings:
    """The warnings of the target, for JSON; people see them at once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def of_query(self, query: Query, **place: Any) -> None:
        """Add and show those of a compiled query."""
        line = f", line {place['line']}" if place.get("line") else ""
        where = f"{place['file']}{line}, query '{place['key']}': " if place else ""
        self.found += [{**place, **it} for it in query_warnings(query, where)]

    def of_name(self, message: str, **place: Any) -> None:
        """Add and show that no adapter gives a name."""
        output.warning(f"{place['file']}, line {place['line']}, query '{place['key']}': {message}")
        self.found.append({**place, "message": message, "position": None, "hint": None})


def _is_file(path: Path, target: str) -> bool:
    """Return whether the target is a file rather than a query."""
    if not target.strip():
        return False
    try:
        if path.is_dir():
            raise TamisError(f"{target}: expected a file or a query, not a folder")
        if path.exists():
            return True
    except (OSError, ValueError):  # a long query is not a possible file name
        return False
    return target.endswith(FILE_SUFFIXES) and " " not in target


def _is_pipeline(path: Path) -> bool:
    """Return whether a TOML file is a pipeline rather than queries; its name decides if it is not valid TOML."""
    if path.suffix != ".toml":
        return False
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "pipeline" in path.name
    return "query" not in document


def _check_queries(path: Path, hierarchy: list[str] | None, told: _Warnings) -> tuple[list[dict[str, Any]], str]:
    """Return all problems of a file of queries, a store or a snapshot, and what was checked."""
    from tamis.cli.queries.load import compile_all, hierarchies_given, is_snapshot, read_queries

    given = hierarchies_given(hierarchy)
    if is_snapshot(path):
        return _check_snapshot(path, given)
    try:
        specs, held = read_queries(path)
    except TamisError as error:
        return [_problem(error)], "no queries"
    good, bad = compile_all(specs, path, {**held, **given})
    for spec, query in good:
        told.of_query(query, file=str(path), line=spec.line, key=spec.key)
    return [{**it.to_dict(), "shown": str(it)} for it in bad], output.counted(len(specs), "query", "queries")


def _check_snapshot(path: Path, given: dict[str, Parents]) -> tuple[list[dict[str, Any]], str]:
    """Return the problem of a snapshot, if it has one, and what was checked."""
    from tamis.cli.queries.load import open_snapshot

    try:
        engine = open_snapshot(path, given, verify=True)
    except TamisError as error:
        return [_problem(error)], "no queries"
    return [], output.counted(len(engine), "query", "queries")


def _check_text(
    text: str, language: str, hierarchy: list[str] | None, told: _Warnings
) -> tuple[list[dict[str, Any]], str, str | None]:
    """Return the problem of one query, if it has one, what was checked, and its canonical text."""
    from tamis.cli.queries.load import hierarchies_given
    from tamis.query import compile_query
    from tamis.query.hierarchy import missing

    given = hierarchies_given(hierarchy)
    try:
        query = compile_query(text, language)
        told.of_query(query)
        if problem := missing(query, given):
            raise ConfigError(problem)
        return [], "1 query", str(query)
    except (QueryError, TamisError, ValueError) as error:
        return [_problem(error)], "1 query", None


def _problem(error: Exception) -> dict[str, Any]:
    from tamis.cli.queries.load import describe

    return {**describe(error), "shown": str(error)}


def _check_pipeline(path: Path, told: _Warnings) -> tuple[list[dict[str, Any]], str]:
    """Return the problems of a pipeline, in configuration, queries, deliveries, adapters and ``[[test]]`` blocks."""
    from tamis.config import pipeline_check
    from tamis.config.pipeline import PipelineConfig
    from tamis.config.source_names import name_warnings

    try:
        config = PipelineConfig.load(path)
    except TamisError as error:
        return [{"message": line, "shown": line} for line in str(error).splitlines()], "no pipeline"
    check = pipeline_check.PipelineCheck(config)
    problems = list(check.problems())
    for where, spec, query in check.queries():
        told.of_query(query, file=where, line=spec.line, key=spec.key)
        for message in name_warnings(config, spec):
            told.of_name(message, file=where, line=spec.line, key=spec.key)
    return [{**it.to_dict(), "shown": str(it)} for it in problems], check.description()
