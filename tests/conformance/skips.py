"""Lists every conformance case that we do not run, with the reason.

A rule is tried on each case in this order; the first that holds gives the reason. A rule that holds for no case any
more is reported as an error, so that the list cannot grow stale."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .cases import SelectorCase

FILES = {
    "cloudevents_cesql_tck.jsonl": "CloudEvents SQL is a language of its own; it needs a front end of its own",
    "headers_exchange_javaclient.jsonl": "headers exchanges are the broker's, whose own tests run them",
}
"""File -> why none of its cases run."""


@dataclass(frozen=True)
class Rule:
    """A reason to skip, and the cases that it applies to."""

    reason: str
    applies: Callable[[SelectorCase], bool]


def _bare(case: SelectorCase) -> str:
    """Return the selector with empty single-quoted strings, so that a rule sees only syntax."""
    return re.sub(r"'(?:[^']|'')*'", "''", case.selector)


def _dialect(name: str) -> Callable[[SelectorCase], bool]:
    return lambda case: case.dialect == name


def _has(case: SelectorCase, pattern: str) -> bool:
    return re.search(pattern, _bare(case), re.IGNORECASE) is not None


def _rabbitmq(pattern: str) -> Callable[[SelectorCase], bool]:
    return lambda case: case.dialect == _AMQP_SQL and _has(case, pattern)


_AMQP_SQL = "amqp-sql(filtex-1.0)"

RULES = [
    Rule("ActiveMQ's own functions", _dialect("jms+activemq-functions")),
    Rule("XPath is no part of JMS selectors", _dialect("jms+xpath")),
    Rule("Artemis's own headers (AMQ...)", _dialect("jms+artemis-headers")),
    Rule("the destination is no property of the captured message", lambda case: _has(case, r"\bJMSDestination\b")),
    Rule("Qpid's own suffix of integers (9L)", lambda case: case.file.startswith("qpid_") and _has(case, r"\b\d+L\b")),
    Rule("the answer depends on the day", lambda case: case.time_dependent),
    # RabbitMQ's SQL filter comes last in the order of authority: only lines whose syntax is ours.
    Rule("RabbitMQ: its errors are its own", lambda case: case.dialect == _AMQP_SQL and case.expect == "error"),
    Rule("RabbitMQ: double quotes delimit strings there, identifiers here", _rabbitmq('"')),
    Rule("RabbitMQ: [identifiers in brackets]", _rabbitmq(r"\[")),
    Rule("RabbitMQ: 0x binary literals", _rabbitmq(r"\b0x")),
    Rule("RabbitMQ: % as the remainder", _rabbitmq("%")),
    Rule(
        "RabbitMQ: sections of an AMQP 1.0 message (p. h. a.)",
        _rabbitmq(r"\b(p|h|a|properties|header|application_properties)\."),
    ),
    Rule("RabbitMQ: names inside IN, or a literal before it", _rabbitmq(r"\bIN \((?:city|data)\b")),
    Rule("RabbitMQ: arithmetic as a condition, refused here", _rabbitmq(r"^[+-]\w+$")),
    Rule("RabbitMQ: TRUE with a number or in an order, refused here", _rabbitmq(r"^(?:country [<>]= TRUE|TRUE = 1)$")),
]
"""The rules, in the order in which they are tried."""


def reason(case: SelectorCase) -> str | None:
    """Return why a case is skipped, or None if it runs."""
    if case.file in FILES:
        return FILES[case.file]
    return next((rule.reason for rule in RULES if rule.applies(case)), None)
