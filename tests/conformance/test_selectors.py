"""Selectors of ActiveMQ, Artemis, Qpid, Joram and RabbitMQ have the results that their own suites expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tamis

from . import skips
from .cases import SelectorCase, selector_cases
from .matchers import MATCHERS

FILES = [
    "activemq_SelectorTest.jsonl",
    "activemq_UnknownHandlingSelectorTest.jsonl",
    "artemis_FilterTest.jsonl",
    "artemis_SelectorTest.jsonl",
    "joram_jms_conform.jsonl",
    "qpid_JMSSelectorFilterSyntaxTest.jsonl",
    "qpid_SelectorParserTest.jsonl",
    "rabbitmq_amqp_filter_sql_unit.jsonl",
    "cloudevents_cesql_tck.jsonl",
]


def runnable(cases: list[SelectorCase]) -> list[SelectorCase]:
    return [case for case in cases if skips.reason(case) is None]


def compiled(case: SelectorCase) -> tamis.Query | str:
    """Return the query of a case, or the text of its error."""
    try:
        return tamis.selector(case.selector)
    except tamis.QueryError as error:
        return error.expected


def show(failures: list[str]) -> str:
    return f"{len(failures)} cases differ:\n" + "\n".join(failures)


@pytest.mark.parametrize("file", FILES)
def test_what_parses_elsewhere_parses_here_and_what_is_refused_is_refused(
    shared: Path, file: str, count: Callable[[str, int, Counter[str]], None]
) -> None:
    cases = selector_cases(shared / "conformance" / "selectors" / file)
    skipped = Counter(reason for case in cases if (reason := skips.reason(case)))
    count(file, len(cases) - skipped.total(), skipped)
    if file in skips.FILES:
        pytest.skip(skips.FILES[file])
    failures = []
    for case in runnable(cases):
        query = compiled(case)
        if (case.expect == "error") != isinstance(query, str):
            failures.append(f"{case} -> {query!r}")
    assert not failures, show(failures)


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize("file", [file for file in FILES if file not in skips.FILES])
def test_every_matcher_gives_the_answer_that_the_suite_gives(shared: Path, file: str, matcher: str) -> None:
    cases = [
        case
        for case in runnable(selector_cases(shared / "conformance" / "selectors" / file))
        if not case.asks_for_parsing_only
    ]
    selectors = {case.selector: tamis.selector(case.selector) for case in cases}
    subject = MATCHERS[matcher](selectors)
    failures = [
        str(case) for case in cases if (case.selector in subject.match(case.properties)) != (case.expect == "true")
    ]
    assert not failures, show(failures)


def test_what_is_unknown_elsewhere_is_unknown_here_and_not_false(shared: Path) -> None:
    cases = selector_cases(shared / "conformance" / "selectors" / "activemq_UnknownHandlingSelectorTest.jsonl")
    asked = [case for case in cases if case.expect == "unknown"]
    assert asked
    failures = [str(case) for case in asked if tamis.selector(case.selector).evaluate(case.properties) is not None]
    assert not failures, show(failures)


def test_every_rule_to_skip_is_still_needed(shared: Path) -> None:
    cases = [case for file in FILES for case in selector_cases(shared / "conformance" / "selectors" / file)]
    used = {skips.reason(case) for case in cases}
    assert [rule.reason for rule in skips.RULES if rule.reason not in used] == []


@pytest.mark.parametrize("file", [file for file in FILES if file not in skips.FILES])
def test_the_canonical_text_of_a_query_reads_as_the_same_query(shared: Path, file: str) -> None:
    cases = runnable(selector_cases(shared / "conformance" / "selectors" / file))
    queries = [query for case in cases if isinstance(query := compiled(case), tamis.Query)]
    assert queries
    failures = [str(query) for query in queries if tamis.selector(str(query)) != query]
    assert not failures, show(failures)
