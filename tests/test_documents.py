"""The documents agree with the tree: links have targets, and ARCHITECTURE.md names every folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import tamis
import tamis.errors
import tamis.spark
import tamis.words
from tamis.config.pipeline import PipelineConfig
from tamis.query import LANGUAGES

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    [*PROJECT.glob("*.md")]
    + [path for folder in ("docs", "examples", "python") for path in (PROJECT / folder).rglob("*.md")]
)
ARCHITECTURE = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_link_leads_to_a_file_and_its_heading(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", document.read_text(encoding="utf-8"))
    targets = [(document.parent / link if link else document, anchor) for link, anchor in links]
    assert [target for target, _ in targets if not target.exists()] == []
    assert [(target, anchor) for target, anchor in targets if anchor and anchor not in anchors(target)] == []


def anchors(document: Path) -> list[str]:
    """Return what links may name after ``#``: the headings in lower case, with hyphens for spaces."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]


def test_the_readme_has_no_link_that_a_page_of_packages_would_break() -> None:
    """A package index shows the README without the repository, and no address of a repository is decided yet."""
    assert re.findall(r"\]\((?!https?:)[^)]*\)", (PROJECT / "README.md").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_file_and_folder_that_a_document_names_is_there(document: Path) -> None:
    named = re.findall(
        r"`((?:crates|python|tests|benches|benchmarks|examples|docs|reference)/[\w./-]*)`",
        document.read_text(encoding="utf-8"),
    )
    parents = (PROJECT, PROJECT / "python/tamis", document.parent)  # the papers' algorithms are named by their folder
    assert [name for name in named if not any((parent / name).exists() for parent in parents)] == []


@pytest.mark.parametrize("folder", ["crates/core/src", "python/tamis"])
def test_every_folder_has_its_place_in_the_architecture(folder: str) -> None:
    parts = [path for path in (PROJECT / folder).iterdir() if path.is_dir() and any(path.glob("*.*"))]
    names = [path.name for path in parts if not path.name.startswith("_")]
    headings = "".join(line for line in ARCHITECTURE.split("\n") if line.startswith("## "))
    assert [name for name in names if name not in headings] == []


def test_the_architecture_is_short_and_has_its_four_pictures() -> None:
    assert len(ARCHITECTURE.split()) <= 1_800
    assert len([block for block in fenced(ARCHITECTURE) if "─►" in block or "leaf 0" in block]) == 4


def test_every_file_that_the_architecture_names_is_there() -> None:
    tree = {
        path.name
        for part in ("crates", "python", "tests", "benches", "benchmarks")
        for path in (PROJECT / part).rglob("*.*")
    }
    named = set(re.findall(r"`(?:[\w./]*/)?(\w+\.(?:rs|pyi?))`", ARCHITECTURE))
    assert named - tree == set()


def test_decisions_are_numbered_one_after_another_and_have_three_parts() -> None:
    decisions = sorted((PROJECT / "docs/adr").glob("*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]}: ")
        assert [part for part in ("Context", "Decision", "Consequence") if f"**{part}.**" not in text] == []


SITE = PROJECT / "docs/site"


def test_the_site_has_a_place_for_every_page() -> None:
    index = (SITE / "index.md").read_text(encoding="utf-8")
    pages = [page.stem for page in (PROJECT / "docs").glob("*.md")]
    assert [page for page in pages if f"\n../{page}\n" not in index] == [], "not in docs/site/index.md"


def test_the_page_of_the_api_has_every_public_name() -> None:
    page = (SITE / "api.md").read_text(encoding="utf-8")
    public = [f"tamis.{name}" for name in tamis.__all__ if not name.startswith("_") and not name.endswith("Error")]
    public += [f"{module.__name__}.{name}" for module in (tamis.words, tamis.spark) for name in module.__all__]
    assert [name for name in public if f":: {name}\n" not in page] == []
    assert ".. automodule:: tamis.errors\n" in page


QUERIES = (PROJECT / "docs/queries.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Return the text below one heading of docs/queries.md."""
    return QUERIES.split(f"## {title}\n")[1].split("\n## ")[0]


def fenced(text: str) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("selector", fenced(section("Selectors"))[0].splitlines())
def test_every_selector_that_is_shown_can_be_read(selector: str) -> None:
    assert tamis.selector(str(tamis.selector(selector))) == tamis.selector(selector)


@pytest.mark.parametrize("function", re.findall(r"^\| (`.*`) \|", section("Selectors"), re.MULTILINE))
def test_every_function_that_is_shown_can_be_read(function: str) -> None:
    for example in re.findall(r"`([^`]+)`", function):
        assert isinstance(tamis.selector(example), tamis.Query)


@pytest.mark.parametrize("filter_text", fenced(section("Boolean"))[0].splitlines())
def test_every_boolean_filter_that_is_shown_can_be_read(filter_text: str) -> None:
    assert isinstance(tamis.boolean(filter_text), tamis.Query)


def test_every_call_that_is_shown_makes_a_query() -> None:
    calls = re.findall(r"`(tamis\.\w+\([^`]*\)(?: & [^`]*)?)`", QUERIES.replace("\\|", "|"))
    assert len(calls) >= 8
    for call in calls:
        assert isinstance(eval(call, {"tamis": tamis, "function": print}), (tamis.Query, tamis.Engine)), call


def test_the_function_that_is_shown_is_a_query() -> None:
    names = {"tamis": tamis, "my_list": {"DE000"}}
    exec(fenced(section("Your own functions"))[0], names)
    assert names["query"].evaluate({"deleted": False, "price": 12, "isin": "DE000"}) is True  # type: ignore[attr-defined]


@pytest.mark.parametrize(("suffix", "number", "keys"), [(".txt", 0, ["james", "frost"]), (".toml", 1, ["forex"])])
def test_both_files_of_queries_that_are_shown_can_be_read(
    tmp_path: Path, suffix: str, number: int, keys: list[str]
) -> None:
    path = tmp_path / f"queries{suffix}"
    path.write_text(fenced(section("Files of queries"))[number], encoding="utf-8")
    specs = tamis.load_queries(path)
    assert [spec.key for spec in specs] == keys
    assert all(isinstance(spec.compile(), tamis.Query) for spec in specs)


def test_every_language_of_query_files_is_in_the_table() -> None:
    table = QUERIES.split("## What a message is")[0]
    assert [name for name in LANGUAGES if f"`{name}`" not in table] == []


SEMANTICS = (PROJECT / "docs/semantics.md").read_text(encoding="utf-8")
ANSWERS = {"true": True, "false": False, "unknown": None}


def rows(*first_columns: str) -> list[list[str]]:
    """Return the rows of the tables in docs/semantics.md that begin with these columns, without the quotes of code."""
    return [row for header, row in table_rows(SEMANTICS) if header[: len(first_columns)] == list(first_columns)]


def table_rows(text: str) -> Iterator[tuple[list[str], list[str]]]:
    header: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells(line)
        elif not line.startswith("|---"):
            yield header, cells(line)


def cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [part.strip().removeprefix("`").removesuffix("`").replace("\\|", "|") for part in parts]


def evaluated(selector: str, message: str) -> Any:
    names = {"query": tamis.selector(selector), "tamis": tamis, "datetime": datetime}
    return eval(f"query.evaluate({message})", names)


@pytest.mark.parametrize("row", rows("selector", "message", "answer"), ids=lambda row: " of ".join(row[:2]))
def test_a_selector_of_the_semantics_has_the_answer_that_is_shown(row: list[str]) -> None:
    selector, message, answer = row[:3]
    if answer == "QueryError":
        with pytest.raises(tamis.QueryError):
            tamis.selector(selector)
    else:
        assert evaluated(selector, message) is ANSWERS[answer]


@pytest.mark.parametrize("row", rows("pattern", "topic"), ids=lambda row: " of ".join(row[:2]))
def test_a_topic_pattern_of_the_semantics_has_the_answers_that_are_shown(row: list[str]) -> None:
    pattern, topic, *answers = row
    for dialect, answer in zip(("amqp", "openamq", "openamq-program"), answers, strict=True):
        assert tamis.topic(pattern, dialect=dialect).evaluate(topic=topic) is ANSWERS[answer], dialect  # type: ignore[arg-type]


@pytest.mark.parametrize("row", rows("text", "body", "answer"), ids=lambda row: " of ".join(row[:2]))
def test_a_word_query_of_the_semantics_has_the_answer_that_is_shown(row: list[str]) -> None:
    assert tamis.text(row[0]).evaluate(body=row[1]) is ANSWERS[row[2]]


def test_the_other_languages_of_the_semantics_compile_to_the_selectors_that_are_shown() -> None:
    assert len(rows("Boolean text")) >= 8
    for text, selector in rows("Boolean text"):
        assert str(tamis.boolean(text)) == selector
    for text, selector in rows("the paper writes"):
        assert str(tamis.selector(text, dialect="cbm")) == selector


@pytest.mark.parametrize(
    "heading", ["Messages", "Values", "Lists", "Engine", "Hierarchies and expensive predicates", "Topics", "Text"]
)
def test_every_heading_of_the_semantics_that_the_code_cites_is_there(heading: str) -> None:
    assert re.search(rf"^## {heading}$", SEMANTICS, re.MULTILINE)


def test_every_public_name_is_in_the_semantics() -> None:
    assert [name for name in tamis.__all__ if not re.search(rf"\b{name}\b", SEMANTICS)] == []


def test_every_public_error_is_in_the_table_of_the_semantics() -> None:
    listed = [row[0].rpartition(".")[2] for row in rows("error", "when")]
    assert sorted(listed) == sorted(tamis.errors.__all__)
    assert [row[0] for row in rows("error", "when") if eval(row[0], {"tamis": tamis}) is None] == []


PIPELINE = (PROJECT / "docs/pipeline.md").read_text(encoding="utf-8")


def test_the_pipeline_that_is_shown_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(fenced(PIPELINE)[0], encoding="utf-8")
    config = PipelineConfig.load(path)
    assert [delivery.type for delivery in config.deliveries] == ["eml", "smtp"]


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Return the models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from models_in(part)


@pytest.mark.parametrize("table", ["pipeline", "queries", "hierarchy", "adapter", "delivery", "test"])
def test_the_page_of_the_pipeline_has_exactly_the_keys_that_there_are(table: str) -> None:
    (text,) = re.findall(rf"^## `\[+{table}\]+`\n(.*?)(?=^## |\Z)", PIPELINE, re.MULTILINE | re.DOTALL)
    shown = {name for header, row in table_rows(text) if header[0] == "key" for name in re.split(r"`?, `", row[0])}
    (known,) = (field for name, field in PipelineConfig.model_fields.items() if (field.alias or name) == table)
    models = models_in(known.annotation)
    assert shown == {field.alias or name for model in models for name, field in model.model_fields.items()}
