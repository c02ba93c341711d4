"""The version is the same everywhere, and the package's metadata is true."""

from __future__ import annotations

import tomllib
from importlib.metadata import metadata
from pathlib import Path

import tamis

PROJECT = Path(__file__).resolve().parent.parent
CARGO = tomllib.loads((PROJECT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
PYTHON = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_of_the_workspace_is_the_version_of_everything() -> None:
    assert tamis.__version__ == CARGO["version"]
    assert metadata("tamis")["Version"] == CARGO["version"]
    assert "version" in PYTHON["dynamic"]
    for manifest in (PROJECT / "crates").glob("*/Cargo.toml"):
        assert tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["version"] == {"workspace": True}


def test_crates_and_package_have_one_licence_and_one_author() -> None:
    assert PYTHON["license"] == CARGO["license"] == metadata("tamis")["License-Expression"]
    assert [author["name"] for author in PYTHON["authors"]] == CARGO["authors"]


def test_the_oldest_python_is_the_same_everywhere() -> None:
    oldest = PYTHON["requires-python"].removeprefix(">=")
    listed = [
        name.rpartition(" ")[2]
        for name in PYTHON["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert listed[0] == oldest
    assert f'"abi3-py{oldest.replace(".", "")}"' in (PROJECT / "crates/python/Cargo.toml").read_text(encoding="utf-8")
