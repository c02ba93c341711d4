"""The examples that the five papers print have exactly their printed results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.reference import BruteForce

# ---- the OpenAMQ paper, and the same examples again in the Malamute paper (appendix A) -----------------------

TOPIC_SUBSCRIPTIONS = ["forex.*", "*.usd", "*.eur", "#"]
TOPIC_TABLE = """
forex           1 0 0 1
forex.gbp       1 0 0 1
forex.eur       1 0 1 1
forex.usd       1 1 0 1
trade           0 0 0 1
trade.usd       0 1 0 1
trade.jpy       0 0 0 1
"""
FIELD_SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"currency": "USD", "urgent": tamis.ANY},
    {"currency": "EUR"},
    {"market": "forex", "currency": "EUR"},
    {"urgent": tamis.ANY},
]
FIELD_MESSAGES = {
    "currency=JPY, market=forex, slow": ({"currency": "JPY", "market": "forex", "slow": tamis.PRESENT}, [0, 0, 1, 0]),
    "currency=JPY, urgent": ({"currency": "JPY", "urgent": tamis.PRESENT}, [1, 0, 0, 1]),
    "market=forex, currency=EUR": ({"market": "forex", "currency": "EUR"}, [0, 1, 2, 0]),
}


def rows(table: str) -> list[tuple[str, list[int]]]:
    """Return the lines of a printed table: a name, and its bits from left to right."""
    return [(line.split()[0], [int(bit) for bit in line.split()[1:]]) for line in table.split("\n") if line]


def engine_of(queries: list[tamis.Query]) -> tamis.Engine:
    engine = tamis.Engine()
    engine.add_many(enumerate(queries))
    return engine


@pytest.mark.parametrize(("topic", "bits"), rows(TOPIC_TABLE))
def test_the_table_of_topics_is_the_printed_one(topic: str, bits: list[int]) -> None:
    queries = [tamis.topic(pattern, dialect="openamq") for pattern in TOPIC_SUBSCRIPTIONS]
    assert [int(query.evaluate(topic=topic) is True) for query in queries] == bits
    assert engine_of(queries).match(topic=topic) == [number for number, bit in enumerate(bits) if bit]


@pytest.mark.parametrize(("topic", "subscriptions"), [("forex.eur", [0, 2, 3]), ("forex", [0, 3]), ("trade.jpy", [3])])
def test_the_three_messages_reach_the_printed_subscriptions(topic: str, subscriptions: list[int]) -> None:
    engine = engine_of([tamis.topic(pattern, dialect="openamq") for pattern in TOPIC_SUBSCRIPTIONS])
    assert engine.match(topic=topic) == subscriptions


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("forex.*", ["forex.gbp", "forex.eur", "forex.usd"]),  # `*` exactly one word: not forex itself
        ("*.usd", ["forex.usd", "trade.usd"]),
        ("*.eur", ["forex.eur"]),
        ("#", ["forex", "forex.gbp", "forex.eur", "forex.usd", "trade", "trade.usd", "trade.jpy"]),
    ],
)
def test_the_program_differs_from_the_table_in_a_final_star(pattern: str, matches: list[str]) -> None:
    topics = [topic for topic, _ in rows(TOPIC_TABLE)]
    for dialect in ("openamq-program", "amqp"):
        query = tamis.topic(pattern, dialect=dialect)  # type: ignore[arg-type]
        assert [topic for topic in topics if query.evaluate(topic=topic)] == matches


@pytest.mark.parametrize(("message", "hits"), FIELD_MESSAGES.values(), ids=FIELD_MESSAGES)
def test_the_hits_of_the_fields_are_the_printed_ones(message: dict[str, Any], hits: list[int]) -> None:
    criteria_counts = [2, 1, 2, 1]
    engine = engine_of([tamis.fields(criteria) for criteria in FIELD_SUBSCRIPTIONS])
    expected = [(number, hit, criteria_counts[number]) for number, hit in enumerate(hits) if hit]
    assert engine.hits(message) == expected


@pytest.mark.parametrize(("message", "hits"), FIELD_MESSAGES.values(), ids=FIELD_MESSAGES)
def test_any_hit_is_an_or_match_and_all_hits_are_an_and_match(message: dict[str, Any], hits: list[int]) -> None:
    any_of = engine_of([tamis.fields(criteria, require="any") for criteria in FIELD_SUBSCRIPTIONS])
    all_of = engine_of([tamis.fields(criteria, require="all") for criteria in FIELD_SUBSCRIPTIONS])
    assert any_of.match(message) == [number for number, hit in enumerate(hits) if hit]
    assert all_of.match(message) == [
        number for number, hit in enumerate(hits) if hit == len(FIELD_SUBSCRIPTIONS[number])
    ]


def test_the_opening_examples_of_openamq_hold() -> None:
    assert tamis.topic("forex.*").evaluate(topic="forex.usd") is True
    either = tamis.selector("currency = 'USD' OR currency = 'GBP'")  # "currency = USD or GBP"
    assert [either.evaluate({"currency": name}) for name in ("USD", "GBP", "EUR")] == [True, True, False]


# ---- the RabbitMQ paper ---------------------------------------------------------------------------------------


def test_the_quoted_pattern_of_the_specification_matches_the_quoted_keys() -> None:
    query = tamis.topic("*.stock.#")
    assert query.evaluate(topic="usd.stock") is True
    assert query.evaluate(topic="eur.stock.db") is True
    assert query.evaluate(topic="stock.nasdaq") is False


def test_only_the_hash_of_the_printed_trie_matches_its_key() -> None:
    patterns = ["a.b.c", "a.*.b.c", "a.#.c", "b.b.c"]
    engine = tamis.Engine()
    engine.add_many((pattern, tamis.topic(pattern)) for pattern in patterns)
    assert engine.match(topic="a.d.d.d.c") == ["a.#.c"]
    assert engine.match(topic="a.b.c") == ["a.b.c", "a.#.c"]
    assert engine.match(topic="a.d.b.c") == ["a.*.b.c", "a.#.c"]
    assert engine.match(topic="a.c") == ["a.#.c"]


# ---- the PNNL paper -------------------------------------------------------------------------------------------

FIGURE_5 = {
    "author": "Someone (Someone@yahoo.com)",
    "date": "2002-12-28 21:04:22 PST",
    "subject": "I have a question...",
}
FIGURE_5_BODY = """I covered my daffodils, garlic, and rhubarb
last night in hopes of saving them from freezing.
Should one uncover them during the day if the temp
is above freezing, and re-cover them in the late
afternoon? Or can I just leave them covered for a
few days till the nights get warmer? (may be a moot
point after I look at them...) """
EXPENSE_LEVELS = [
    'From = "Someone (Someone@yahoo.com)"',
    'Subject LIKE "%question%"',
    "Body LIKE %garlic%",
    "Body LIKE %warmer%",
]


@pytest.mark.parametrize("printed", ['Author = "James" and source = "CNN"', 'Author = "James"', 'source = "CNN"'])
def test_the_printed_selector_and_its_two_units_match_james_of_cnn_only(printed: str) -> None:
    query = tamis.selector(printed, dialect="cbm")
    assert query.evaluate({"author": "James", "source": "CNN"}) is True
    assert query.evaluate({"Author": "James", "SOURCE": "CNN"}) is True  # names without regard to case
    assert query.evaluate({"author": "Jane", "source": "BBC"}) is False
    assert query.evaluate({}) is None


@pytest.mark.parametrize("printed", EXPENSE_LEVELS, ids=["level 1", "level 2", "level 3", "level 4"])
def test_each_level_of_expense_matches_the_message_of_figure_5(printed: str) -> None:
    query = tamis.selector(printed, dialect="cbm")
    assert query.evaluate(FIGURE_5, body=FIGURE_5_BODY) is True
    assert query.evaluate({"author": "Jane", "subject": "Hello"}, body="Nothing of that kind") is False
    assert engine_of([query]).match(FIGURE_5, body=FIGURE_5_BODY) == [0]
    assert tamis.selector(str(query)) == query


def test_a_hundred_subscribers_with_the_same_selector_all_get_the_message() -> None:
    for printed in EXPENSE_LEVELS:
        engine = engine_of([tamis.selector(printed, dialect="cbm")] * 100)
        assert engine.match(FIGURE_5, body=FIGURE_5_BODY) == list(range(100))


def test_a_signature_answers_how_near_two_words_are() -> None:
    """Section 3.2: signatures omit stop words, but positions count them."""
    assert tamis.near("daffodils", "rhubarb", 3).evaluate(body=FIGURE_5_BODY) is True
    assert tamis.near("daffodils", "rhubarb", 2).evaluate(body=FIGURE_5_BODY) is False
    assert tamis.text("saving them from freezing").evaluate(body=FIGURE_5_BODY) is True


# ---- the ITMO paper -------------------------------------------------------------------------------------------

REAL_FILTER = (
    "deleted = false && (CFI == OXXXX || CFI == FXXXX) && group == (American || European) && Trading enabled == true"
)
TRADED = {"deleted": False, "CFI": "OXXXX", "group": "European", "Trading enabled": True}


def test_the_first_filter_sends_the_printed_message() -> None:
    query = tamis.boolean("stock == IBM && MIC == XEUR")
    assert query.evaluate({"stock": "IBM", "MIC": "XEUR", "bid": 239}) is True
    assert query.evaluate({"stock": "IBM", "MIC": "XNYS", "bid": 239}) is False


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, True),
        ({"CFI": "FXXXX", "group": "American"}, True),
        ({"deleted": True}, False),
        ({"CFI": "ESXXXX"}, False),
        ({"group": "Asian"}, False),
        ({"Trading enabled": False}, False),
        ({"group": None}, None),
    ],
)
def test_the_filter_of_a_real_system_reads_as_printed(change: dict[str, Any], answer: bool | None) -> None:
    query = tamis.boolean(REAL_FILTER)
    message = TRADED | change
    assert query.evaluate(message) is answer
    assert (engine_of([query]).match(message) == [0]) is (answer is True)
    assert tamis.selector(str(query)) == query


def test_a_deleted_instrument_is_refused_whatever_the_smart_condition_says() -> None:
    """ "deleted = false && smart condition": with deleted = true, the condition cannot matter, unknown or not."""
    assert tamis.boolean("deleted = false && smart == yes").evaluate({"deleted": True}) is False


def test_brute_force_agrees_on_every_printed_query() -> None:
    queries = (
        [tamis.topic(pattern, dialect="openamq") for pattern in TOPIC_SUBSCRIPTIONS]
        + [tamis.fields(criteria) for criteria in FIELD_SUBSCRIPTIONS]
        + [tamis.selector(printed, dialect="cbm") for printed in EXPENSE_LEVELS]
        + [tamis.boolean(REAL_FILTER)]
    )
    engine, oracle = engine_of(queries), BruteForce()
    for key, query in enumerate(queries):
        oracle.add(key, query)
    messages = [(TRADED, "", None), (FIGURE_5, "forex.eur", FIGURE_5_BODY)]
    messages += [(message, "trade.usd", None) for message, _ in FIELD_MESSAGES.values()]
    for properties, topic, body in messages:
        assert engine.match(properties, topic, body) == oracle.match(properties, topic, body)


# ---- the tests that docs/papers.md names -----------------------------------------------------------------------

PROJECT = Path(__file__).resolve().parent.parent
PAGE = (PROJECT / "docs/papers.md").read_text(encoding="utf-8")


def named_tests() -> list[tuple[str, str]]:
    """Return (file, test) of every test that the page names; a cell names the file before its tests."""
    found: list[tuple[str, str]] = []
    for table in re.split(r"\n\n", PAGE):
        header = table.partition("\n")[0]
        if "the test" not in header:
            continue
        in_header = re.findall(r"`(test_\w+\.py)`", header)
        for row in table.splitlines()[2:]:
            file = in_header[0] if in_header else ""
            for name in re.findall(r"`([\w.]+)`", row.rsplit("|", 2)[1]):
                if name.endswith((".py", ".rs")):
                    file = name
                else:
                    found.append((file, name))
    return found


def test_the_page_of_the_papers_names_many_tests() -> None:
    assert len(named_tests()) >= 35
    assert {"test_malamute_reports.py", "live_readers.rs"} <= {file for file, _ in named_tests()}


@pytest.mark.parametrize(("file", "name"), sorted(set(named_tests())))
def test_every_test_that_the_page_of_the_papers_names_is_there(file: str, name: str) -> None:
    files = [path for part in ("tests", "crates") for path in (PROJECT / part).rglob(file)]
    declared = re.compile(rf"^\s*(?:async )?(?:def|fn) {name}\b", re.MULTILINE)
    assert any(declared.search(path.read_text(encoding="utf-8")) for path in files), f"{file}: {name}"
