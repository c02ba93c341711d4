"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "tamis",
    "tamis.engine.engine",
    "tamis.errors",
    "tamis.message",
    "tamis.name_hints",
    "tamis.query.languages",
    "tamis.reference.bdd",
    "tamis.reference.be_tree",
    "tamis.reference.brute_force",
    "tamis.reference.cacheable_units",
    "tamis.reference.grouped",
    "tamis.reference.inverted_fields",
    "tamis.reference.inverted_topics",
    "tamis.reference.k_index",
    "tamis.reference.lazy_dfa",
    "tamis.reference.normal_form",
    "tamis.reference.numbering",
    "tamis.reference.query_matcher",
    "tamis.reference.topic_matcher",
    "tamis.reference.trie",
    "tamis.reference.values",
    "tamis.reference.word_cache",
    "tamis.reference.word_index",
    "tamis.words.stop_words",
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
