"""Circles of files are found, also through re-exports, and code that only tests use does not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.circles import groups, main, python_graphs, rust_graphs

CIRCLE_OF_FOUR = {
    "crates/core/Cargo.toml": "[package]\n",
    "crates/core/src/lib.rs": "pub mod index;\n",
    "crates/core/src/index/mod.rs": "mod a;\nmod b;\nmod c;\nmod d;\npub use a::{First, self};\npub(crate) use d::*;\n",
    "crates/core/src/index/a.rs": "use super::b::Second;\npub struct First(Second);\n",
    "crates/core/src/index/b.rs": "pub struct Second(crate::index::c::Third);\n",
    "crates/core/src/index/c.rs": "use super::{Fourth as Next};\npub struct Third(Next);\n",
    "crates/core/src/index/d.rs": "use crate::index;\npub struct Fourth(index::First);\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def names(folder: Path) -> list[list[str]]:
    graphs = [*rust_graphs(folder).values(), *python_graphs(folder).values()]
    return [[path.stem for path in group] for graph in graphs for group in groups(graph)]


def test_a_circle_of_four_rust_files_is_caught_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path, CIRCLE_OF_FOUR)) == 1
    printed = capsys.readouterr().out
    assert "crates/core/src: 4 files import each other in a circle" in printed
    assert "    index/c.rs -> index/d.rs" in printed


def test_three_rust_files_may_know_each_other(tmp_path: Path) -> None:
    shorter = CIRCLE_OF_FOUR | {"crates/core/src/index/b.rs": "pub struct Second(super::Fourth);\n"}
    assert names(write(tmp_path, shorter)) == [["a", "b", "d"]]
    assert main(tmp_path) == 0


@pytest.mark.parametrize(
    "harmless",
    [
        "#[cfg(test)]\nmod tests {\n    use super::super::c::Third;\n}\n",
        "#[cfg(test)]\nuse super::c::{Third, Other};\n",
        "struct Second {\n    #[cfg(test)]\n    third: super::c::Third,\n}\n",
        '// super::c::Third\n/* crate::index::c::Third */ const TEXT: &str = "super::c::Third";\n',
        "use std::c::Third;\nfn f() -> c::Third {}\n",
        "use super::c;\n",
    ],
)
def test_tests_comments_texts_and_other_crates_are_no_edges(tmp_path: Path, harmless: str) -> None:
    write(tmp_path, CIRCLE_OF_FOUR | {"crates/core/src/index/b.rs": harmless + "pub struct Second;\n"})
    assert names(tmp_path) == []


def test_modules_of_tests_are_left_out(tmp_path: Path) -> None:
    files = {
        "crates/core/src/index/a.rs": "#[cfg(test)]\nmod tests;\npub struct First;\n",
        "crates/core/src/index/a/tests.rs": "use super::super::b::Second;\n",
    }
    assert names(write(tmp_path, CIRCLE_OF_FOUR | files)) == []


def test_a_type_in_the_file_of_a_folder_is_an_edge_to_that_file(tmp_path: Path) -> None:
    files = {
        "crates/core/src/index/mod.rs": "mod a;\nmod b;\nstruct Engine(a::First);\n",
        "crates/core/src/index/a.rs": "use super::Engine;\npub struct First;\nimpl Engine {}\n",
    }
    assert names(write(tmp_path, CIRCLE_OF_FOUR | files)) == [["a", "mod"]]


def test_python_files_are_followed_through_their_packages(tmp_path: Path) -> None:
    files = {
        "python/p/__init__.py": '"""P."""\nfrom p.parts import First\n',
        "python/p/parts/__init__.py": "from .a import First\nfrom p.parts.b import second\n",
        "python/p/parts/a.py": "from p.parts import second\nclass First: ...\n",
        "python/p/parts/b.py": "def second():\n    from .c import third\n",
        "python/p/parts/c.py": "from p.parts import d\n",
        "python/p/parts/d.py": "from p import First\n",
    }
    assert names(write(tmp_path, files)) == [["a", "b", "c", "d"]]
    types_only = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import First\n"
    assert names(write(tmp_path, {"python/p/parts/d.py": types_only})) == []
