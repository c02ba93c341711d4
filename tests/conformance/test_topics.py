"""Topic patterns route here as they do in RabbitMQ, LavinMQ and qlobber, case for case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tamis

from . import skips
from .cases import topic_cases
from .matchers import MATCHERS

FILES = [
    "lavinmq_message_routing_spec.jsonl",
    "misc_spec_blog_javaclient.jsonl",
    "qlobber_rabbitmq.jsonl",
    "rabbitmq_db_topic_exchange_suite.jsonl",
    "rabbitmq_routing_suite.jsonl",
    "headers_exchange_javaclient.jsonl",
]


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize("file", FILES)
def test_every_matcher_routes_as_the_suite_says(
    shared: Path, file: str, matcher: str, count: Callable[[str, int, Counter[str]], None]
) -> None:
    path = shared / "conformance" / "topics" / file
    if file in skips.FILES:
        count(file, 0, Counter({skips.FILES[file]: len(path.read_text(encoding="utf-8").splitlines())}))
        pytest.skip(skips.FILES[file])
    cases = topic_cases(path)
    count(file, len(cases), Counter())
    failures = []
    for case in cases:
        bindings = {number: tamis.topic(pattern) for number, (pattern, _) in enumerate(case.bindings)}
        matched = MATCHERS[matcher](bindings).match(topic=case.routing_key)
        routed = sorted({case.bindings[number][1] for number in matched})
        if routed != case.expect:
            failures.append(f"{case}, but here to {routed}")
    assert not failures, f"{len(failures)} cases differ:\n" + "\n".join(failures)
