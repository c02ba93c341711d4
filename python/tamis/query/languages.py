"""Makes queries from text in any of the languages, or from values.

Every function here returns a :class:`Query`. Queries combine with ``&``, ``|`` and ``~``; two are equal if they are
written alike (``selector(str(q)) == q``). A query is true, false or unknown (None) for a message. ``docs/queries.md``
describes the languages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Literal

from tamis import _core
from tamis._core import Query
from tamis.message import ANY, Marker

__all__ = ["Query", "boolean", "fields", "near", "opaque", "prefix", "regex", "selector", "text", "topic"]

Function = Callable[[dict[str, Any], str, str | bytes | None], bool | None]
FieldValue = bool | int | float | str | datetime | Literal[Marker.ANY]


def selector(text: str, *, dialect: Literal["jms", "cbm"] = "jms") -> Query:
    """Return a JMS message selector: an SQL-92 condition on properties, topic and body.

    Args:
        text: the selector: at most 64 KiB, nesting 100, 1,000 terms. The empty text is always true.
        dialect: ``cbm`` reads the examples of the PNNL paper as printed: strings in double quotes, bare patterns
            after LIKE, names in any case, ``From`` for author.

    Raises:
        QueryError: the text cannot be read; the error has the position and what was expected there.
        TypeError: an argument is not text.
        ValueError: the dialect is unknown.

    Cost: linear in the text.

    Source: JMS 1.1, section 3.8; the PNNL paper.

    >>> selector("price > 10 AND region IN ('EU', 'US')").evaluate({"price": 12, "region": "EU"})
    True
    """
    return _core.selector(text, dialect)


def boolean(text: str, *, groupings: Collection[str] = ()) -> Query:
    """Return a filter in the Boolean language of the ITMO paper, as it is printed there.

    Args:
        text: ``&& || !`` or AND OR NOT over comparisons; a bare word on the right is a string.
        groupings: names of properties whose values are in a hierarchy: of these, ``==`` and ``in`` mean UNDER, as in
            the paper, where ``group == American`` asks for membership in a dynamic grouping.

    Raises:
        QueryError: the text cannot be read; the error has the position and what was expected there.
        TypeError: `text` is not text, or `groupings` is not a collection of texts.

    Source: the ITMO paper.

    >>> str(boolean("deleted = false && CFI == (OXXXX || FXXXX)"))
    "deleted = FALSE AND CFI IN ('OXXXX', 'FXXXX')"
    >>> str(boolean("group == (American || European)", groupings={"group"}))
    "group UNDER 'American' OR group UNDER 'European'"
    """
    if isinstance(groupings, str) or not all(isinstance(name, str) for name in groupings):
        raise TypeError(f"groupings: expected names, such as {{'group'}}, not {groupings!r}")
    return _core.boolean(text, list(groupings))


def topic(pattern: str, *, dialect: Literal["amqp", "openamq", "openamq-program"] = "amqp") -> Query:
    """Return a pattern of topics: dotted words, ``*`` for one word, ``#`` for several.

    Args:
        pattern: any text; every text is a pattern.
        dialect: ``amqp`` (0-9-1: ``#`` is zero or more), ``openamq`` (the table of the OpenAMQ paper: a final ``*`` may
            match nothing, ``#`` is one or more) or ``openamq-program`` (its program: ``*`` exactly one, ``#`` one
            or more).

    Raises:
        ValueError: the dialect is unknown.

    Source: AMQP 0-9-1, section 3.1.3.3; the OpenAMQ and RabbitMQ papers.
    """
    return _core.topic(pattern, dialect)


def prefix(text: str, *, on: str = "topic") -> Query:
    """Return a query that is true if `on` begins with these characters, and unknown if `on` is absent.

    Args:
        text: the beginning; the empty text begins every text.
        on: ``topic``, ``body`` or the name of a property.

    Raises:
        TypeError: an argument is not text.

    >>> prefix("forex").evaluate(topic="forexample")
    True
    """
    return _core.prefix(text, on)


def regex(pattern: str, *, on: str = "topic") -> Query:
    """Return a query that is true if the regular expression matches somewhere in `on`.

    Args:
        pattern: the expression in the syntax of Rust's ``regex``, with Unicode and flags; at most 1 MiB compiled.
        on: ``topic``, ``body`` or the name of a property.

    Raises:
        TypeError: an argument is not text.
        QueryError: the syntax is wrong, it has look-around or a back-reference, or it is too large.

    Cost: linear in the text.
    """
    return _core.regex(pattern, on)


def fields(criteria: Mapping[str, FieldValue], *, require: Literal["all", "any"] = "all") -> Query:
    """Field criteria: each field has a value, or is present at all (``tamis.ANY``). They have hit counts.

    Args:
        criteria: name -> value or ``tamis.ANY``; at least one.
        require: ``all`` criteria, or ``any`` of them.

    Raises:
        ValueError: there are no criteria, `require` is unknown, or a value is NaN, an integer beyond 64 bits, or a time
            outside the years 1 to 9999 in UTC.
        TypeError: `criteria` is not a mapping, or a value has another type; the text names the field.

    Source: the OpenAMQ paper, "Field matching".

    >>> str(fields({"currency": "USD", "urgent": ANY}))
    "currency = 'USD' AND EXISTS(urgent)"
    """
    if not isinstance(criteria, Mapping):
        raise TypeError(f"criteria: expected a mapping of name -> value, not {type(criteria).__name__}")
    if not criteria:
        raise ValueError("fields: expected at least one criterion")
    if require not in ("all", "any"):
        raise ValueError(f"require: expected 'all' or 'any', not {require!r}")
    for name, value in criteria.items():
        if value is None:
            raise TypeError(f"field {name!r}: nothing equals None; to ask for presence use tamis.ANY")
    wanted = {name: None if value is ANY else value for name, value in criteria.items()}
    return _core.fields(wanted, require == "all")


def text(phrase: str) -> Query:
    """Return a query that is true if the body has the words of `phrase`, one after another; unknown without a body.

    Args:
        phrase: one word or several, compared as `tamis.words.words` gives them.

    Raises:
        TypeError: `phrase` is not text.
        QueryError: `phrase` has no word.

    Source: the PNNL paper, section 3.2 (signatures).
    """
    return _core.contains(phrase)


def near(a: str, b: str, distance: int = 5) -> Query:
    """Return a query that is true if the words `a` and `b` are 1 to `distance` words apart in the body, in any order.

    Unknown without a body.

    Raises:
        TypeError: `a` or `b` is not text, or `distance` is not an integer.
        QueryError: `a` or `b` is not one word.
        ValueError: `distance` is below 1.

    Source: the PNNL paper, section 3.2 ("the proximity of two words").
    """
    return _core.near(a, b, distance)


def opaque(name: str, function: Function, cost_us: float = 10.0) -> Query:
    """Return an expensive predicate: a function of yours that is called last, and at most once per message.

    It is called only if nothing cheaper has decided; of several, the cheapest is called first. Its result counts for
    every query and engine that holds this query or a combination of it with ``&``, ``|`` and ``~``. Such a query is not
    text: it equals only itself, and cannot be pickled or stored.

    Args:
        name: what errors and ``str(query)`` call it.
        function: ``function(properties, topic, body)`` returns True, False or None (unknown). It sees the message as
            tamis does: a new dict, times in UTC (PRESENT if datetime has no such year), and UTF-8 bytes as str. If it
            raises, or returns anything else, the predicate is unknown and an error is counted. KeyboardInterrupt and
            SystemExit end the call of tamis in which they were raised, except in the threads of ``match_batch``, where
            they go to ``sys.unraisablehook``. It is called with the GIL, from any thread that matches.
        cost_us: the cost of a call in microseconds; at least 0.

    Raises:
        TypeError: `function` is not callable, `name` is not text, or `cost_us` is not a number.
        ValueError: the name is empty, or the cost is below 0 or not finite.

    Source: the ITMO paper, filters with expensive predicates.

    >>> wanted = opaque("wanted", lambda properties, topic, body: properties["isin"] in {"DE000", "FR001"}, cost_us=0.3)
    >>> (selector("price > 10") & wanted).evaluate({"price": 12, "isin": "FR001"})
    True
    """
    return _core.opaque(name, function, cost_us)


def restore(canonical: str, is_fields: bool) -> Query:
    """Make a query from its canonical text; unpickling calls this."""
    return _core.selector(canonical, "jms", is_fields)
