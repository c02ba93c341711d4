"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "tamis",
    "tamis.engine",
    "tamis.errors",
    "tamis.message",
    "tamis.query",
    "tamis.reference.brute_force",
    "tamis.words.stop_words",
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
