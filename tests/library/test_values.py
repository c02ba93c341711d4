"""The values that a property can have: those of other libraries become plain ones or are refused by name."""

from __future__ import annotations

from collections import deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest

import tamis

NOON = datetime(2002, 8, 22, 12, tzinfo=UTC)

PLAIN: list[tuple[Any, str]] = [
    (date(2002, 8, 22), "a = DATE '2002-08-22'"),
    ([date(2002, 8, 22)], "a = DATE '2002-08-22'"),
    (NOON, "a = TIMESTAMP '2002-08-22T12:00:00Z'"),
    (Decimal("1.5"), "a = 1.5"),
    ((1, 2), "a = 2"),
    (numpy.int8(7), "a = 7"),
    (numpy.uint64(7), "a = 7"),
    (numpy.float32(1.5), "a = 1.5"),
    (numpy.float64(1.5), "a = 1.5"),
    (numpy.bool_(True), "a = TRUE"),
    (numpy.str_("x"), "a = 'x'"),
    (numpy.bytes_(b"x"), "a = 'x'"),
    (numpy.datetime64("2002-08-22"), "a = DATE '2002-08-22'"),
    (numpy.datetime64("2002-08-22T12:00:00"), "a = TIMESTAMP '2002-08-22T12:00:00Z'"),
    (numpy.datetime64("2002-08-22T12:00:00.000000000"), "a = TIMESTAMP '2002-08-22T12:00:00Z'"),
    (numpy.datetime64("NaT"), "a IS NULL AND EXISTS(a)"),
    ({"b": numpy.int64(1)}, "a.b = 1"),
    ([numpy.int64(1), numpy.int64(2)], "a = 2"),
]

REFUSED: list[tuple[Any, str]] = [
    ({1, 2}, "not set; sorted(...) makes a list of it"),
    (frozenset({1}), "not frozenset; sorted(...) makes a list of it"),
    (numpy.array([1, 2]), "not ndarray; .tolist() makes a list of it"),
    (deque([1]), "not deque"),
    (range(3), "not range"),
    (time(12), "not time"),
    (timedelta(1), "not timedelta"),
    (numpy.timedelta64(1, "ns"), "not timedelta64"),
    (1j, "not complex"),
    (numpy.complex64(1), "not complex64"),
    (Fraction(1, 2), "not Fraction"),
    (bytearray(b"x"), "not bytearray"),
    (object(), "not object"),
]


@pytest.mark.parametrize(("value", "selector"), PLAIN, ids=[repr(value) for value, _ in PLAIN])
def test_a_value_counts_as_its_plain_kind(value: Any, selector: str) -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("key", tamis.selector(selector))
    assert engine.match({"a": value}) == ["key"]
    assert tamis.selector(selector).evaluate({"a": value}) is True


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_value_of_any_other_type_is_refused_with_its_name(value: Any, reason: str) -> None:
    for place, properties in (("a", {"a": value}), ("a", {"a": [value]}), ("a.b", {"a": {"b": value}})):
        with pytest.raises(TypeError) as caught:
            tamis.selector("a = 1").evaluate(properties)
        assert str(caught.value).startswith(f"property '{place}': expected bool, int, float, str, datetime, ")
        assert str(caught.value).endswith(reason)


def test_a_number_of_numpy_beyond_64_bits_is_refused_like_any() -> None:
    with pytest.raises(ValueError, match="property 'a': expected an integer of 64 bits"):
        tamis.selector("a = 1").evaluate({"a": numpy.uint64(2**63)})


def test_criteria_take_the_same_values() -> None:
    assert tamis.fields({"a": numpy.int64(1)}) == tamis.fields({"a": 1})
    assert tamis.fields({"a": date(2002, 8, 22)}).evaluate({"a": date(2002, 8, 22)}) is True
