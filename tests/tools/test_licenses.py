"""The licence texts of the crates are collected, and a crate that must not be given away is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tools.licenses import collect, is_allowed, texts

ALLOWED = {"MIT", "Zlib", "Unicode-3.0"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("Apache-2.0 OR MIT", True),
        ("Apache-2.0/MIT", True),
        ("Apache-2.0 AND MIT", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("Apache-2.0 WITH LLVM-exception", False),
    ],
)
def test_licences_outside_the_list_are_refused(expression: str, expected: bool) -> None:
    assert is_allowed(expression, ALLOWED) is expected


def test_one_of_several_licences_is_enough_and_notices_are_kept(tmp_path: Path) -> None:
    for name in ("LICENSE-APACHE", "LICENSE-MIT", "NOTICE.txt", "README.md"):
        (tmp_path / name).write_text(f"{name}  \n")
    assert texts(tmp_path, "Apache-2.0 OR MIT") == ["LICENSE-MIT", "NOTICE.txt"]
    assert texts(tmp_path, "Apache-2.0 AND MIT") == ["LICENSE-APACHE", "LICENSE-MIT", "NOTICE.txt"]


def package(folder: Path, name: str, expression: str, text: str = "") -> dict[str, Any]:
    (folder / name).mkdir()
    if text:
        (folder / name / "LICENSE").write_text(text)
    manifest = os.fspath(folder / name / "Cargo.toml")
    return {
        "id": name,
        "name": name,
        "version": "1.0",
        "license": expression,
        "manifest_path": manifest,
        "source": "registry",
    }


def test_each_text_stands_once_and_builds_and_tests_do_not_count(tmp_path: Path) -> None:
    packages = [
        package(tmp_path, "tamis-python", "MIT") | {"source": None},
        package(tmp_path, "one", "MIT", "words of a licence"),
        package(tmp_path, "two", "GPL-3.0", "words of a licence"),
        package(tmp_path, "three", "Zlib"),
        package(tmp_path, "for-builds", "GPL-3.0", "another"),
    ]
    deps = {"tamis-python": [("one", None), ("for-builds", "build")], "one": [("two", None), ("three", None)]}
    nodes = [
        {"id": p["id"], "deps": [{"pkg": dep, "dep_kinds": [{"kind": kind}]} for dep, kind in deps.get(p["id"], [])]}
        for p in packages
    ]
    content, faults = collect({"packages": packages, "resolve": {"nodes": nodes}}, ALLOWED)
    assert content.count("words of a licence") == 1
    assert "one 1.0 (MIT)\ntwo 1.0 (GPL-3.0)" in content
    assert faults == [
        "three 1.0: the package carries no licence text",
        "two 1.0: the licence 'GPL-3.0' is not in the list of deny.toml",
    ]


def test_the_licence_of_a_library_inside_a_crate_is_given_too(tmp_path: Path) -> None:
    packages = [
        package(tmp_path, "tamis-python", "MIT") | {"source": None},
        package(tmp_path, "alloc-sys", "MIT", "of the crate"),
    ]
    (tmp_path / "alloc-sys" / "alloc").mkdir()
    (tmp_path / "alloc-sys" / "alloc" / "COPYING").write_text("of the library")
    nodes = [
        {"id": "tamis-python", "deps": [{"pkg": "alloc-sys", "dep_kinds": [{"kind": None}]}]},
        {"id": "alloc-sys", "deps": []},
    ]
    content, faults = collect({"packages": packages, "resolve": {"nodes": nodes}}, ALLOWED)
    assert not faults
    assert "of the crate" in content
    assert "of the library" in content
