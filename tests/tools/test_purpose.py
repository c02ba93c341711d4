"""Every file says in its first line what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.tree import PROJECT, draw, faults, offenders, purpose


def test_every_source_file_says_in_one_sentence_what_it_is_for() -> None:
    found = offenders(PROJECT)
    assert not found, f"{len(found)} first lines are not one plain sentence:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.rs", "//! Reads frames.\n\nfn f() {}\n", []),
        ("a.rs", "use x;\n", ["has no purpose in its first line"]),
        ("a.rs", "//! reads frames.\n", ["does not start with a capital"]),
        ("a.py", '"""Reads frames, for tests.\n\nMore."""\n', []),
        ("a.py", '#!/usr/bin/env python3\n"""Reads frames."""\n', []),
        ("a.py", '"""Reads frames"""\n', ["does not end with a full stop"]),
        ("a.py", '"""AMQP frames. Pure: no socket."""\n', ["is more than one sentence"]),
        ("a.pyi", f'"""R{"x" * 120}."""\n', ["is longer than 120 characters"]),
        ("a.rs", "", ["has no purpose in its first line"]),
    ],
)
def test_a_first_line_is_one_plain_sentence(tmp_path: Path, name: str, text: str, expected: list[str]) -> None:
    (tmp_path / name).write_text(text)
    assert faults(tmp_path / name) == expected


def test_a_file_without_suffix_has_its_purpose_in_a_comment(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/usr/bin/env bash\n# What must hold.\n")
    assert purpose(tmp_path / "run") == "What must hold."


def test_the_tree_shows_folders_and_purposes() -> None:
    lines = draw(PROJECT)
    assert "tools/" in lines
    assert any(line.split(maxsplit=1)[0] == "tree.py" and "Prints the tree" in line for line in lines)
    assert len([line for line in lines if line.strip() == "selector/"]) == len(set(PROJECT.glob("crates/**/selector/")))
