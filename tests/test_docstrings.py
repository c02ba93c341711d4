"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "tamis",
    "tamis.engine.engine",
    "tamis.errors",
    "tamis.loopback",
    "tamis.message",
    "tamis.name_hints",
    "tamis.notify.content",
    "tamis.query.languages",
    "tamis.reference.queries.bdd",
    "tamis.reference.queries.be_tree",
    "tamis.reference.queries.brute_force",
    "tamis.reference.queries.cacheable_units",
    "tamis.reference.queries.grouped",
    "tamis.reference.inverted_fields",
    "tamis.reference.topics.inverted_topics",
    "tamis.reference.queries.k_index",
    "tamis.reference.topics.lazy_dfa",
    "tamis.reference.queries.normal_form",
    "tamis.reference.numbering",
    "tamis.reference.queries.query_matcher",
    "tamis.reference.topics.topic_matcher",
    "tamis.reference.topics.trie",
    "tamis.reference.values",
    "tamis.reference.topics.word_cache",
    "tamis.reference.topics.word_index",
    "tamis.words.stop_words",
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
