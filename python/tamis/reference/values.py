"""Reads properties for an index: the values that a name reaches, in a form that hashes and orders as they compare.

This is a second implementation of docs/semantics.md ("Messages", "Values"), which tests compare with the core's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from tamis.message import Properties, Value, to_micros

Point: TypeAlias = tuple[int, Any]
"""A value's kind and the value: points are equal when the values are, and ordered when the values compare."""

_BOOL, _NUMBER, _TEXT, _INSTANT = range(4)


def point(value: Value) -> Point | None:
    """Return the point of `value`; None if it equals nothing: None, PRESENT, NaN, lists, mappings, bytes without text.

    >>> point(1) == point(1.0) == point(True)
    False
    >>> point(1) == point(1.0)
    True
    """
    if isinstance(value, bytes):
        try:
            return _TEXT, value.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(value, bool):
        return _BOOL, value
    if isinstance(value, str):
        return _TEXT, value
    if isinstance(value, datetime):
        return _INSTANT, to_micros(value)
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, int | float):  # Python compares the two by exact value and hashes them alike
        return (_NUMBER, value) if value == value else None
    return None


def interval(low: Value, high: Value) -> tuple[Point, Point] | None:
    """Return the interval of values from `low` to `high`, where None is no bound; None if neither bound has a point.

    Without one bound, the interval extends to the end of the other bound's kind: a shorter tuple comes before all that
    begin like it. No value is between bounds in the wrong order; they are swapped, since an index needs some interval.
    """
    first, last = point(low), point(high)
    if first is not None:
        other = last if last is not None else _beginning(first[0] + 1)
        return min(first, other), max(first, other)
    return (_beginning(last[0]), last) if last is not None else None


def _beginning(kind: int) -> Point:
    return (kind,)  # type: ignore[return-value]  # only ever compared


def reached(properties: Properties | None, name: str) -> list[Value] | None:
    """Return the values that a dotted name reaches, or the elements of a list; None if it is absent.

    A literal dotted key wins over nesting, the longest first. Through a list of mappings, a name collects what it
    reaches in each. An empty list is absent.

    >>> reached({"c": [{"d": 1}, {"d": [2, 3]}]}, "c.d")
    [1, 2, 3]
    """
    if not properties:
        return None
    if name in properties:
        return _elements(properties[name]) or None
    end = name.rfind(".")
    while end >= 0:
        if name[:end] in properties:
            values = _descend(properties[name[:end]], name[end + 1 :])
            if values is not None:
                return values
        end = name.rfind(".", 0, end)
    return None


def _elements(value: Any) -> list[Value]:
    if isinstance(value, list | tuple):
        return [inner for element in value for inner in _elements(element)]
    return [value]


def _descend(value: Any, remaining: str) -> list[Value] | None:
    if isinstance(value, Mapping):
        return reached(value, remaining)
    if isinstance(value, list | tuple):
        return [inner for element in value for inner in _descend(element, remaining) or ()] or None
    return None
