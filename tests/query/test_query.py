"""Compares queries with a second evaluator in plain Python, and with docs/semantics.md line by line."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
import tamis.words
from tests import oracle


@settings(max_examples=1500)
@given(oracle.trees, oracle.messages)
def test_a_selector_means_what_the_second_evaluator_says(tree: oracle.Tree, message: dict[str, object]) -> None:
    query = tamis.selector(oracle.render(tree))
    assert query.evaluate(message) is oracle.truth(tree, message), str(query)


@settings(max_examples=500)
@given(oracle.trees)
def test_the_text_of_a_query_parses_to_the_same_query(tree: oracle.Tree) -> None:
    query = tamis.selector(oracle.render(tree))
    again = tamis.selector(str(query))
    assert again == query
    assert str(again) == str(query)
    assert hash(again) == hash(query)
    assert pickle.loads(pickle.dumps(query)) == query


@given(oracle.trees, oracle.trees, oracle.messages)
def test_combinations_follow_kleene(left: oracle.Tree, right: oracle.Tree, message: dict[str, object]) -> None:
    p, q = tamis.selector(oracle.render(left)), tamis.selector(oracle.render(right))
    assert (p & q).evaluate(message) is oracle.truth(("and", left, right), message)
    assert (p | q).evaluate(message) is oracle.truth(("or", left, right), message)
    assert (~p).evaluate(message) is oracle.truth(("not", left), message)
    for combined in (p & q, p | q, ~p, ~(p | q) & q):
        assert tamis.selector(str(combined)) == combined


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused_with_a_place(text: str) -> None:
    for parse in (
        tamis.selector,
        tamis.boolean,
        lambda t: tamis.selector(t, dialect="cbm"),
        tamis.regex,
        tamis.text,
    ):
        try:
            query = parse(text)
        except tamis.QueryError as error:
            assert 0 <= error.position <= len(text)
            assert error.expected
            assert str(error)
        else:
            assert tamis.selector(str(query)) == query


QUERIES = [
    tamis.topic("forex.*.usd"),
    tamis.topic("forex.*", dialect="openamq"),
    tamis.topic("it's.#", dialect="openamq-program"),
    tamis.prefix("forex."),
    tamis.prefix("it's", on="body"),
    tamis.regex(r"^forex\.('|\d)", on="topic"),
    tamis.regex("(?i)garlic", on="body"),
    tamis.regex("x", on="Trading enabled"),
    tamis.fields({"currency": "USD", "urgent": tamis.ANY}),
    tamis.fields({"currency": "USD", "urgent": tamis.ANY}, require="any"),
    tamis.fields({"topic": "x", "body": True, "n": -5, "f": 1e300, "order": float("-inf")}),
    tamis.fields({"when": datetime(2002, 8, 22, 18, 26, 25, 123456, tzinfo=UTC)}),
    tamis.fields({'quo"te': "it's", "and": 1, "": 2}),
    tamis.boolean("deleted = false && (CFI == OXXXX || CFI == FXXXX) && Trading enabled == true"),
    tamis.boolean("group == (American || European) || ! x in {1, 2.5, 'a b'}"),
    tamis.boolean("group UNDER Options"),
    tamis.selector('Author = "James" and source = "CNN"', dialect="cbm"),
    tamis.selector("Body LIKE %garlic%", dialect="cbm"),
    tamis.text("exact phrase"),
    tamis.near("daffodils", "rhubarb", 5),
    tamis.selector("a LIKE '50!%' ESCAPE '!' AND b LIKE '_' ESCAPE ''''"),
    tamis.selector("- a * (b + 2) - (c - d) / -2 > -9223372036854775808"),
    tamis.selector("d > DATE '2002-08-22' OR d = TIMESTAMP '2002-08-22T18:26:25Z'"),
    tamis.selector("\"topic\" = topic AND NEAR(body, 'a', 'b') AND \"IN\" IS NULL"),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_every_kind_of_query_has_a_text_that_parses_to_it(query: tamis.Query) -> None:
    assert tamis.selector(str(query)) == query
    restored = pickle.loads(pickle.dumps(query))
    assert restored == query


def test_absent_null_and_valueless_differ() -> None:
    name = tamis.selector("x = 1")
    assert name.evaluate({}) is None
    assert name.evaluate({"x": None}) is None
    assert name.evaluate({"x": tamis.PRESENT}) is None
    assert tamis.selector("x IS NULL").evaluate({"x": None}) is True
    assert tamis.selector("x IS NULL").evaluate({"x": tamis.PRESENT}) is False
    there = tamis.fields({"x": tamis.ANY})
    assert [there.evaluate(m) for m in ({}, {"x": None}, {"x": tamis.PRESENT}, {"x": 0}, {"x": []})] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_dotted_names_reach_into_mappings_and_lists_of_them() -> None:
    query = tamis.selector("a.b = 1")
    assert query.evaluate({"a": {"b": 1}}) is True
    assert query.evaluate({"a": {"b": 1}, "a.b": 2}) is False  # the literal key wins
    assert query.evaluate({"a": [{"b": 2}, {"b": 1}, {"c": 3}]}) is True
    assert query.evaluate({"a": [{"b": 2}, {"b": None}]}) is None
    assert query.evaluate({"a": [{"c": 2}]}) is None
    assert tamis.selector("a.b.c = 1").evaluate({"a.b": {"c": 1}}) is True


def test_a_datetime_compares_with_a_datetime_only() -> None:
    moment = datetime(2002, 8, 22, 18, 26, 25, tzinfo=timezone(timedelta(hours=7)))
    assert tamis.selector("d = TIMESTAMP '2002-08-22T11:26:25Z'").evaluate({"d": moment}) is True
    assert tamis.selector("d > DATE '2002-08-22'").evaluate({"d": datetime(2002, 8, 22, 0, 0, 1)}) is True
    assert tamis.selector("d = '2002-08-22'").evaluate({"d": moment}) is False
    assert tamis.selector("d > 0").evaluate({"d": moment}) is False


def test_values_of_other_types_are_refused_by_name() -> None:
    query = tamis.selector("a = 1")
    with pytest.raises(TypeError, match=r"property 'a\.b'"):
        query.evaluate({"a": {"b": object()}})
    with pytest.raises(ValueError, match="property 'n'.*64 bits"):
        query.evaluate({"n": 2**63})
    with pytest.raises(TypeError, match="body"):
        query.evaluate({}, body=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="mapping"):
        query.evaluate([1])  # type: ignore[arg-type]
    assert query.evaluate({"a": Decimal("1.0")}) is True
    assert tamis.selector("a = 'é'").evaluate({"a": "é".encode()}) is True
    deep: dict[str, object] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="nesting"):
        query.evaluate(deep)  # type: ignore[arg-type]


def test_a_body_that_is_no_text_is_unknown_to_text_predicates() -> None:
    for query in (tamis.text("x"), tamis.regex("x", on="body"), tamis.selector("body LIKE '%x%'")):
        assert query.evaluate(body=b"\xff x") is None
        assert query.evaluate(body=None) is None
        assert query.evaluate(body=b"an x") is True


def test_lists_are_true_of_an_element_and_not_is_applied_after() -> None:
    message = {"a": [1, 2], "b": [1, None], "s": ["xy", 3]}
    assert tamis.selector("a = 2").evaluate(message) is True
    assert tamis.selector("a <> 2").evaluate(message) is True
    assert tamis.selector("NOT a = 2").evaluate(message) is False
    assert tamis.selector("a NOT IN (2, 3)").evaluate(message) is False
    assert tamis.selector("b = 2").evaluate(message) is None
    assert tamis.selector("s LIKE 'x%'").evaluate(message) is True
    assert tamis.selector("a + 1 = 2").evaluate(message) is None
    assert tamis.selector("a = a").evaluate(message) is None


def test_a_hierarchy_is_followed_as_it_is_now() -> None:
    tree = {"American": "Options", "European": "Options", "Options": None}
    query = tamis.selector("group UNDER 'Options'")
    hierarchies = {"group": tree}
    assert query.evaluate({"group": "American"}) is None
    assert query.evaluate({"group": "American"}, hierarchies=hierarchies) is True
    assert query.evaluate({"group": "Options"}, hierarchies=hierarchies) is True
    assert query.evaluate({"group": "Futures"}, hierarchies=hierarchies) is False
    assert query.evaluate({}, hierarchies=hierarchies) is None
    with pytest.raises(ValueError, match="cycle"):
        query.evaluate({}, hierarchies={"group": {"a": "b", "b": "a"}})


def test_a_name_without_regard_to_case_has_the_hierarchy_of_its_attribute() -> None:
    query = tamis.selector('GROUP UNDER "Options"', dialect="cbm")
    options, futures = {"European": "Options", "Options": None}, {"European": "Futures", "Futures": None}
    assert query.evaluate({"Group": "European"}, hierarchies={"Group": options}) is True
    assert query.evaluate({"Group": "European"}, hierarchies={"GROUP": options, "group": futures}) is False
    assert query.evaluate({"Group": "European"}, hierarchies={"groups": options}) is None
    assert (
        tamis.selector("GROUP UNDER 'Options'").evaluate({"GROUP": "European"}, hierarchies={"group": options}) is None
    )
    engine = tamis.Engine()
    engine.add("options", query)
    engine.hierarchy("Group", options)
    assert engine.match({"group": "European"}) == ["options"]


class _Lost(tzinfo):
    def utcoffset(self, _instant: datetime | None) -> timedelta:
        raise ValueError("no zone")


@pytest.mark.parametrize("value", [Decimal("sNaN"), datetime(2002, 8, 22, tzinfo=_Lost())])
def test_a_value_that_cannot_be_converted_is_refused_with_its_name(value: object) -> None:
    with pytest.raises(ValueError, match=r"property 'a\.b': ") as caught:
        tamis.selector("a = 1").evaluate({"a": {"b": value}})
    assert isinstance(caught.value.__cause__, ValueError)


def test_field_criteria_say_what_they_take() -> None:
    with pytest.raises(ValueError, match="at least one"):
        tamis.fields({})
    with pytest.raises(TypeError, match="tamis.ANY"):
        tamis.fields({"x": None})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="'x'"):
        tamis.fields({"x": [1]})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="NaN"):
        tamis.fields({"x": float("nan")})
    before_the_year_1 = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    with pytest.raises(ValueError, match="'x'"):
        tamis.fields({"x": before_the_year_1})  # selector text has no such year


def test_equal_queries_have_one_hash_and_one_text() -> None:
    for text in ("a = {}", "a IN (1, {})", "a > b - {}", "a BETWEEN {} AND 2"):
        below, above = tamis.selector(text.format("-0.0")), tamis.selector(text.format("0.0"))
        assert below == above
        assert hash(below) == hash(above)
        assert str(below) == str(above)
    assert len({tamis.fields({"a": 0.0}), tamis.fields({"a": -0.0})}) == 1


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("price >> 3", 7),
        ("a == 1", 3),
        ("a = 'x", 4),
        ("a = 1 AMD b = 2", 6),
        ("a IN ()", 6),
        ("(a = 1", 6),
        ("é = = 1", 4),
    ],
)
def test_an_error_points_at_its_place(text: str, position: int) -> None:
    with pytest.raises(tamis.QueryError) as caught:
        tamis.selector(text)
    assert caught.value.position == position
    assert caught.value.text == text
    lines = str(caught.value).splitlines()
    assert lines[1] == "  " + text
    assert lines[2].index("^") == 2 + position


BOMBS = {
    "depth": "(" * 100_000 + "a" + ")" * 100_000,
    "not": "NOT " * 30_000 + "a",
    "minus": "a > " + "-" * 30_000 + "b",
    "long": "a = '" + "x" * 70_000 + "'",
    "terms": " OR ".join(["a = 1"] * 1_001),
    "values": "a IN (" + ",".join(["1"] * 10_001) + ")",
    "sum": "a > " + "+".join(["1"] * 20_000),
    "integer": "a = 9223372036854775808",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_query_over_the_limits_is_refused(bomb: str) -> None:
    with pytest.raises(tamis.QueryError):
        tamis.selector(BOMBS[bomb])


def test_a_query_within_the_limits_is_taken() -> None:
    tamis.selector("(" * 99 + "a" + ")" * 99)
    tamis.selector(" OR ".join(["a = 1"] * 1_000))
    assert tamis.selector("a IN (" + ",".join(["1"] * 10_000) + ")").evaluate({"a": 1}) is True
    assert tamis.selector("a = -9223372036854775808").evaluate({"a": -(2**63)}) is True


def test_combining_stays_within_the_limits() -> None:
    query = tamis.selector("a = 1")
    with pytest.raises(tamis.QueryError):
        for _ in range(200):
            query = ~query
    wide = tamis.selector("a = 1")
    with pytest.raises(tamis.QueryError):
        for _ in range(1_001):
            wide = wide | tamis.selector("b = 2")


def test_a_signature_never_changes_the_answer() -> None:
    body = "The garlic and the rhubarb"
    short = tamis.words.Signature(body, tamis.words.stop_words("english"))
    for query in (tamis.text("the garlic"), tamis.text("and"), tamis.near("garlic", "the", 1), tamis.text("thyme")):
        assert query.evaluate(body=body, signature=short) is query.evaluate(body=body)


def test_highlight_gives_the_characters_that_matched() -> None:
    body = "é garlic, und Garlic bread"
    query = tamis.text("garlic bread") | tamis.regex("und", on="body")
    assert [body[a:b] for a, b in query.highlight(body=body)] == ["und", "Garlic", "bread"]


def test_a_query_says_which_hierarchies_it_needs() -> None:
    query = tamis.selector("b UNDER 'x' AND (NOT a UNDER 'y' OR c = 1) AND b UNDER 'z' AND \"d e\" UNDER 'w'")
    assert query.hierarchies == ("a", "b", "d e")
    assert tamis.boolean("group UNDER A && price > 1").hierarchies == ("group",)
    assert tamis.selector("Group UNDER 'A'", dialect="cbm").hierarchies == ("group",)
    assert tamis.selector("a = 'UNDER'").hierarchies == ()
