"""Tests what is said of workers with another Python, without Spark."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tamis

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'tamis[spark]'")

from tamis.spark.interpreters import check_python


def session(python: str, master: str = "local[2]") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python))


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_workers_whose_python_lacks_tamis_are_told(tmp_path: Path) -> None:
    other = program(tmp_path / "python", "echo \"ModuleNotFoundError: No module named 'tamis'\" >&2; exit 1")
    expected = "\\(ModuleNotFoundError: No module named 'tamis'\\), and this program runs .* Set PYSPARK_PYTHON="
    with pytest.warns(RuntimeWarning, match=expected):
        check_python(session(other))


def test_workers_with_another_version_are_told(tmp_path: Path) -> None:
    other = program(tmp_path / "python", "echo 0.0.1 3 9")
    with pytest.warns(RuntimeWarning, match="\\(tamis 0.0.1, Python 3.9\\), and .*they need the same"):
        check_python(session(other))


def test_workers_with_the_same_python_are_no_matter(tmp_path: Path) -> None:
    version = f"{tamis.__version__} {sys.version_info[0]} {sys.version_info[1]}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_python(session(sys.executable))
        check_python(session(program(tmp_path / "python", f"echo {version}")))
        check_python(session("/nowhere/python", master="spark://host:7077"))  # only its workers know
