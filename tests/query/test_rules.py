"""Tests the forms in which programs may give queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

import tamis
from tamis.errors import ConfigError
from tamis.query.rules import compile_rules

WANTED = [("cheap", tamis.selector("price < 10")), ("frost", tamis.text("frost"))]


class Rule(NamedTuple):
    key: str
    text: str
    language: str = "selector"


@pytest.mark.parametrize(
    "rules",
    [
        {"cheap": "price < 10", "frost": ("frost", "text")},
        {"cheap": tamis.selector("price < 10"), "frost": tamis.text("frost")},
        [("cheap", "price < 10"), ("frost", "frost", "text")],
        (rule for rule in WANTED),
        [
            {"key": "cheap", "text": "price < 10", "language": None},
            {"text": "frost", "key": "frost", "language": "text"},
        ],
        [Rule("cheap", "price < 10"), Rule("frost", "frost", "text")],
        [tamis.QuerySpec("cheap", "price < 10"), tamis.QuerySpec("frost", "frost", "text")],
        pd.DataFrame({"key": ["cheap", "frost"], "text": ["price < 10", "frost"], "language": [None, "text"]}),
        pa.table({"language": [None, "text"], "key": ["cheap", "frost"], "text": ["price < 10", "frost"]}),
    ],
)
def test_rules_are_read_in_the_forms_that_programs_have(rules: Any) -> None:
    assert compile_rules(rules) == WANTED


def test_a_query_and_keys_that_are_numbers() -> None:
    assert compile_rules(WANTED[0][1]) == [("price < 10", WANTED[0][1])]
    assert compile_rules([(7, "a = 1")])[0][0] == "7"


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ("a: b = 1", "rules: expected a file, an engine, .*, not 'a: b = 1'"),
        (7, "rules: expected a file, an engine, a mapping, tuples, rows or a table, not 7"),
        ([("a", "b = 1"), "c"], "rule 2: expected \\(key, text\\) or \\(key, text, language\\), not 'c'"),
        ([{"id": 1, "rule": "a = 1"}], "rule 1: expected columns 'key' and 'text', .*; found 'id', 'rule'"),
        (pa.table({"k": ["a"]}), "rule 1: expected columns 'key' and 'text'"),
        ([(None, "a = 1")], "rule 1: expected a key that is text or a whole number, not None"),
        ({"a": None}, "rule 1, 'a': expected the text of a query, not None"),
        ({"a": ("b = 1", "selectr")}, "query 'a': unknown language 'selectr'; did you mean 'selector'"),
    ],
)
def test_a_rule_of_another_form_is_named(rules: Any, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        compile_rules(rules)


def test_an_error_in_a_text_names_its_key() -> None:
    with pytest.raises(tamis.QueryError) as caught:
        compile_rules({"good": "a = 1", "bad": "a >> 1"})
    assert caught.value.__notes__ == ["in the query 'bad'"]
