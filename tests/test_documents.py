"""The documents agree with the tree: links lead somewhere, every folder has its place in ARCHITECTURE.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
ARCHITECTURE = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("folder", ["crates/core/src", "python/tamis"])
def test_every_folder_has_its_place_in_the_architecture(folder: str) -> None:
    parts = [path for path in (PROJECT / folder).iterdir() if path.is_dir() and any(path.glob("*.*"))]
    names = [path.name for path in parts if not path.name.startswith("_")]
    headings = "".join(line for line in ARCHITECTURE.split("\n") if line.startswith("## "))
    assert [name for name in names if name not in headings] == []


def test_every_file_that_the_architecture_names_is_there() -> None:
    tree = {path.name for part in ("crates", "python", "tests") for path in (PROJECT / part).rglob("*.*")}
    named = set(re.findall(r"`(?:[\w./]*/)?(\w+\.(?:rs|pyi?))`", ARCHITECTURE))
    assert named - tree == set()


def test_decisions_are_numbered_one_after_another_and_have_three_parts() -> None:
    decisions = sorted((PROJECT / "docs/adr").glob("*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]}: ")
        assert [part for part in ("Context", "Decision", "Consequence") if f"**{part}.**" not in text] == []
