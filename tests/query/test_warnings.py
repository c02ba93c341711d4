"""Tests what is said of queries that can hardly be meant, and of their truth without a message."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis
from tests import oracle

ODD = [
    ('author = "James"', 9, "'James'"),
    ("date > '2002-01-01'", 7, "DATE '2002-01-01'"),
    ("price > '100'", 8, "100"),
    ("header.X-Mailer = 'x'", 0, '"header.X-Mailer"'),
    ("subject LIKE '*x*'", 13, "'%x%'"),
    ("CONTAINS(bdy, 'x')", 9, "`body`"),
    ("", 0, "TRUE"),
]


@pytest.mark.parametrize(("text", "position", "hint"), ODD)
def test_what_can_hardly_be_meant_is_named_with_its_place(text: str, position: int, hint: str) -> None:
    (warning,) = tamis.selector(text).warnings
    assert isinstance(warning, tamis.QueryWarning)
    assert (warning.text, warning.position) == (text, position)
    assert warning.message
    assert hint in (warning.hint or "")
    message, line, caret = str(warning).split("\n")
    assert (message, line) == (warning.message, f"  {text}")
    assert caret.index("^") == position + 2


def test_an_engine_shows_the_warnings_of_what_is_added() -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        engine.add("james", tamis.selector('author = "James"'))
        engine.add_many({"many": tamis.selector("price > '5'")}.items())
    assert [(warning.category, warning.filename) for warning in shown] == [(tamis.QueryWarning, __file__)] * 2
    assert len(engine) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.add("well", tamis.selector("author = 'James'"))
        with pytest.raises(tamis.QueryWarning):
            engine.add("odd", tamis.selector("price > '5'"))
    assert "odd" in engine


def test_a_combination_has_the_warnings_of_its_parts() -> None:
    odd, well = tamis.selector("price > '5'"), tamis.topic("a.b")
    assert well.warnings == ()
    assert [warning.position for warning in (~(odd & well) | odd).warnings] == [8, 8]
    assert tamis.boolean("price > '5'").warnings[0].hint == odd.warnings[0].hint


def test_a_query_is_neither_true_nor_false() -> None:
    one, other = tamis.selector("a = 1"), tamis.selector("b = 2")
    for combine in (lambda: one and other, lambda: one or other, lambda: not one, lambda: bool(one)):
        with pytest.raises(TypeError, match=r"`&`.*`\|`.*`~`"):
            combine()


@given(oracle.trees)
def test_a_warning_points_into_the_text(tree: oracle.Tree) -> None:
    text = oracle.render(tree)
    for warning in tamis.selector(text).warnings:
        assert 0 <= warning.position < len(text)
        assert str(warning)


names = st.sampled_from(["group", "region", "a"])
groups = st.lists(st.sampled_from(["American", "European", "Weekly", "5", "Other"]), min_size=1, max_size=3)
TREE = {"Weekly": "American", "American": "Options", "European": "Options", "Options": None, "5": "Options"}


@given(names, groups, st.sampled_from(["== ({})", "in {{{}}}", "!= ({})", "not in {{{}}}"]), st.booleans())
def test_equality_of_a_grouping_is_being_under_one_of_the_values(
    name: str, values: list[str], form: str, is_grouping: bool
) -> None:
    joined = (" || " if "(" in form else ", ").join(values)
    query = tamis.boolean(f"{name} {form.format(joined)}", groupings={name} if is_grouping else {"other"})
    assert tamis.selector(str(query)) == query
    assert query.hierarchies == ((name,) if is_grouping else ())
    is_negated = "!" in form or "not" in form
    for value in ("Weekly", "American", "Options", "Other"):
        lineage = [value]
        while is_grouping and (parent := TREE.get(lineage[-1])):
            lineage.append(parent)
        is_in = any(one in values for one in lineage) and (value in TREE or not is_grouping)
        assert query.evaluate({name: value}, hierarchies={name: TREE}) is (is_in != is_negated)


def test_groupings_are_names_and_reach_every_face_by_the_name_of_the_language() -> None:
    with pytest.raises(TypeError, match="groupings"):
        tamis.boolean("a == b", groupings="a")
    text = "group == (American || European) && Trading venue == X && a == 1"
    expected = tamis.boolean(text, groupings=["group", "Trading venue"])
    assert tamis.compile_query(text, "boolean:group, Trading venue") == expected
    assert expected.hierarchies == ("Trading venue", "group")
    with pytest.raises(tamis.ConfigError, match="boolean:NAMES"):
        tamis.compile_query(text, "boolean:")


def test_hierarchies_say_what_is_missing() -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    with pytest.raises(ValueError, match="the parent 'b' is not declared"):
        engine.hierarchy("g", {"a": "b"})
    with pytest.raises(ValueError, match="cycle"):
        engine.hierarchy("g", {"a": "b", "b": "a"})
