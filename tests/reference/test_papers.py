"""The papers' examples have their printed results in the algorithms that the papers describe."""

from __future__ import annotations

import random

import pytest

import tamis
from tamis import reference
from tamis.reference.queries.normal_form import conjunctions
from tests.test_papers import (
    EXPENSE_LEVELS,
    FIELD_MESSAGES,
    FIELD_SUBSCRIPTIONS,
    FIGURE_5,
    FIGURE_5_BODY,
    REAL_FILTER,
    TOPIC_SUBSCRIPTIONS,
    TOPIC_TABLE,
    TRADED,
    rows,
)

from .kinds import QUERY_MATCHERS, TOPIC_MATCHERS

# ---- the OpenAMQ paper ----------------------------------------------------------------------------------------

FIELD_TABLE = [
    ("currency", tamis.ANY, [0, 0, 0, 0]),
    ("currency", "USD", [1, 0, 0, 0]),
    ("currency", "EUR", [0, 1, 1, 0]),
    ("market", tamis.ANY, [0, 0, 0, 0]),
    ("market", "forex", [0, 0, 1, 0]),
    ("urgent", tamis.ANY, [1, 0, 0, 1]),
    ("currency", "JPY", [0, 0, 0, 0]),
    ("slow", tamis.ANY, [0, 0, 0, 0]),
]
LEVELS = [
    ["gold", "oil", "pork", "chips", "bonds", "debt"],
    ["lon", "ny", "hk", "jo", "tk", "sg", "mo"],
    ["usd", "eur", "gbp", "jpy", "chy", "aud"],
    ["buy", "sell", "hold", "short", "long"],
    ["spot", "early", "late", "open", "close", "future"],
]


@pytest.mark.parametrize("name", TOPIC_MATCHERS)
def test_every_algorithm_for_topics_gives_the_printed_table(name: str) -> None:
    matcher = TOPIC_MATCHERS[name]()
    for number, pattern in enumerate(TOPIC_SUBSCRIPTIONS):
        matcher.add(number, pattern, "openamq")
    for topic, bits in rows(TOPIC_TABLE):
        assert matcher.match(topic) == [number for number, bit in enumerate(bits) if bit]
    assert [matcher.match(topic) for topic in ("forex.eur", "forex", "trade.jpy")] == [[0, 2, 3], [0, 3], [3]]


def test_a_topic_name_is_compiled_once_and_again_for_a_new_subscription() -> None:
    table = reference.InvertedTopics()
    table.add("first", "forex.*", "openamq")
    assert table.row("forex.chf") == [1]
    table.add("second", "*.chf", "openamq")
    assert table.row("forex.chf") == [1, 1]


def test_the_table_of_fields_is_the_printed_one() -> None:
    table = reference.InvertedFields()
    for number, criteria in enumerate(FIELD_SUBSCRIPTIONS):
        table.add(number, criteria)
    for name, value, bits in FIELD_TABLE:
        assert table.row(name, value) == bits
    for message, hits in FIELD_MESSAGES.values():
        assert table.hits(message) == [(n, hit, len(FIELD_SUBSCRIPTIONS[n])) for n, hit in enumerate(hits) if hit]
        assert table.match(message) == [n for n, hit in enumerate(hits) if hit == len(FIELD_SUBSCRIPTIONS[n])]


def test_any_hit_is_an_or_match() -> None:
    table = reference.InvertedFields()
    for number, criteria in enumerate(FIELD_SUBSCRIPTIONS):
        table.add(number, criteria, require="any")
    for message, hits in FIELD_MESSAGES.values():
        assert table.match(message) == [number for number, hit in enumerate(hits) if hit]


def topic_of_the_program(chance: random.Random) -> str:
    """Return a topic with a random word per level; the extra choice ends it."""
    chosen: list[str] = []
    for level in LEVELS:
        number = chance.randrange(len(level) + 1)
        if number == len(level):
            break
        chosen.append(level[number])
    return ".".join(chosen)


def subscription_of_the_program(chance: random.Random) -> str:
    """Return a pattern: at each level 1 in 10 is `*`, else 1 in 10 is `#`, which ends it, else a word."""
    chosen: list[str] = []
    for level in LEVELS:
        if chance.randrange(10) == 0:
            chosen.append("*")
        elif chance.randrange(10) == 0:
            chosen.append("#")
            break
        else:
            chosen.append(chance.choice(level))
    return ".".join(chosen)


@pytest.mark.parametrize("name", TOPIC_MATCHERS)
def test_the_sample_program_finds_what_the_engine_finds(name: str) -> None:
    """The paper's program, a tenth as large: 200 topics, 200 subscriptions."""
    chance = random.Random(2005)
    names = {topic_of_the_program(chance) for _ in range(400)} - {""}
    patterns = [subscription_of_the_program(chance) for _ in range(200)]
    matcher, engine = TOPIC_MATCHERS[name](), tamis.Engine()
    for number, pattern in enumerate(patterns):
        matcher.add(number, pattern, "openamq-program")
        engine.add(number, tamis.topic(pattern, dialect="openamq-program"))
    found = [matcher.match(topic) for topic in sorted(names)[:200]]
    assert found == [engine.match(topic=topic) for topic in sorted(names)[:200]]
    assert sum(map(len, found)) > 200


# ---- the RabbitMQ paper ---------------------------------------------------------------------------------------

BINDINGS = ["a.b.c", "a.*.b.c", "a.#.c", "b.b.c"]


@pytest.mark.parametrize("name", TOPIC_MATCHERS)
def test_every_algorithm_for_topics_reads_the_printed_patterns(name: str) -> None:
    matcher = TOPIC_MATCHERS[name]()
    for pattern in [*BINDINGS, "*.stock.#"]:
        matcher.add(pattern, pattern)
    assert matcher.match("a.d.d.d.c") == ["a.#.c"]
    assert matcher.match("a.b.c") == ["a.b.c", "a.#.c"]
    assert matcher.match("a.d.b.c") == ["a.*.b.c", "a.#.c"]
    assert matcher.match("b.b.c") == ["b.b.c"]
    assert matcher.match("usd.stock") == matcher.match("eur.stock.db") == ["*.stock.#"]
    assert matcher.match("stock.nasdaq") == []


def test_the_dfa_needs_no_backtracking_where_the_trie_would_never_end() -> None:
    dfa = reference.LazyDfa()
    dfa.add("hashes", ".".join(["#.a"] * 12 + ["#.z"]))
    assert dfa.match(".".join(["a"] * 200)) == []
    assert dfa.match(".".join(["a"] * 200 + ["z"])) == ["hashes"]
    assert dfa.state_count < 20


def test_a_new_binding_drops_the_whole_dfa() -> None:
    dfa = reference.LazyDfa()
    for pattern in BINDINGS:
        dfa.add(pattern, pattern)
    dfa.match("a.d.d.d.c")
    assert dfa.state_count == 5
    dfa.add("new", "a.d.#")
    assert dfa.state_count == 0
    assert dfa.match("a.d.d.d.c") == ["a.#.c", "new"]


# ---- the PNNL paper -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("printed", EXPENSE_LEVELS, ids=["level 1", "level 2", "level 3", "level 4"])
def test_a_hundred_subscribers_with_one_selector_cost_one_evaluation(printed: str) -> None:
    matcher = reference.CacheableUnits()
    for number in range(100):
        matcher.add(number, tamis.selector(printed, dialect="cbm"))
    assert matcher.match(FIGURE_5, body=FIGURE_5_BODY) == list(range(100))
    assert len(matcher.units) == len(matcher.evaluated) == 1


def test_the_printed_selector_is_broken_down_into_its_two_units() -> None:
    matcher = reference.CacheableUnits()
    matcher.add("james", tamis.selector('Author = "James" and source = "CNN"', dialect="cbm"))
    units = [tamis.selector(text, dialect="cbm") for text in ('Author = "James"', 'source = "CNN"')]
    assert matcher.units == units
    assert matcher.match({"author": "James", "source": "CNN"}) == ["james"]
    assert matcher.evaluated == units
    assert matcher.match({"author": "Jane", "source": "CNN"}) == []


# ---- the ITMO paper -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERY_MATCHERS)
def test_every_algorithm_for_queries_sends_the_printed_messages(name: str) -> None:
    matcher = QUERY_MATCHERS[name]()
    matcher.add("first", tamis.boolean("stock == IBM && MIC == XEUR"))
    matcher.add("real", tamis.boolean(REAL_FILTER))
    assert matcher.match({"stock": "IBM", "MIC": "XEUR", "bid": 239}) == ["first"]
    assert matcher.match(TRADED) == ["real"]
    assert matcher.match(TRADED | {"CFI": "FXXXX", "group": "American"}) == ["real"]
    assert matcher.match(TRADED | {"deleted": True}) == []
    assert matcher.match(TRADED | {"group": None}) == []


SMART = "deleted = false && smart != no"


def test_counting_evaluates_the_smart_condition_of_a_deleted_instrument_and_grouping_does_not() -> None:
    counting, grouped = reference.KIndex(), reference.Grouped()
    deleted = {"deleted": True, "smart": "yes"}
    for matcher in (counting, grouped):
        matcher.add("smart", tamis.boolean(SMART))
        assert matcher.match(deleted) == []
    assert [str(predicate) for predicate in counting.evaluated] == ["smart <> 'no'"]
    assert [str(predicate) for predicate in grouped.evaluated] == ["deleted = FALSE"]


def test_a_normal_form_multiplies_the_filters_to_be_checked() -> None:
    parts = conjunctions(tamis.boolean(REAL_FILTER).tree(), 64)
    assert parts is not None
    assert [len(part) for part in parts] == [4, 4]  # one for each CFI; a group of two values is one predicate
    exponential = " && ".join(f"(a{n} == 1 || b{n} == 1)" for n in range(7))
    assert conjunctions(tamis.boolean(exponential).tree(), 128) is not None
    assert conjunctions(tamis.boolean(exponential).tree(), 127) is None


def test_a_expensive_predicate_is_evaluated_once_for_all_groups() -> None:
    matcher = reference.Grouped(identifiers=["stock"])
    matcher.add("by stock", tamis.boolean("smart != no && stock == IBM"))
    matcher.add("by group", tamis.boolean("deleted = false && smart != no"))
    matcher.add("of no group", tamis.boolean("(a == 1 || smart != no) && b == 2"))
    assert matcher.groups == ["deleted = FALSE", ""]
    assert matcher.match({"stock": "IBM", "smart": "yes", "deleted": False, "b": 2}) == [
        "by stock",
        "by group",
        "of no group",
    ]
    assert [str(predicate) for predicate in matcher.evaluated].count("smart <> 'no'") == 1
    assert "stock = 'IBM'" not in map(str, matcher.evaluated)
