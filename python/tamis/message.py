"""Defines the parts of a message in Python: the markers, times, and types of its properties.

A message has a topic (text), properties (name -> value) and a body (text or bytes). Values are bool, int (64 bits),
float, str, datetime, None, nested mappings and lists of these; docs/semantics.md, section "Messages"."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias


class Marker(enum.Enum):
    """Values with a meaning that no ordinary value has."""

    PRESENT = "PRESENT"
    ANY = "ANY"

    def __repr__(self) -> str:
        return f"tamis.{self.name}"


PRESENT: Final = Marker.PRESENT
"""A field without a value: it is present, and comparisons with it are unknown."""

ANY: Final = Marker.ANY
"""In field criteria: the field is present, whatever its value."""

Value: TypeAlias = (
    "bool | int | float | str | bytes | datetime | date | Decimal | None | Literal[Marker.PRESENT] "
    "| Sequence[Value] | Mapping[str, Value]"
)
Properties: TypeAlias = "Mapping[str, object]"
"""Name -> `Value`. Type checkers infer ``dict[str, object]`` of ``{"author": "James", "price": 120}``, so they may take
any value; a wrong one is refused when it is met, with the property's name."""
Body: TypeAlias = str | bytes | bytearray | memoryview | None

_PLAIN = (bool, int, float, str, bytes, datetime, date, type(None))
_LIST_OF = {"set": "sorted(...)", "frozenset": "sorted(...)", "ndarray": ".tolist()", "Series": ".tolist()"}
"""Type -> what makes a list of it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Return microseconds since 1970-01-01 UTC; a naive `instant` counts as UTC.

    >>> to_micros(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the instant `micros` microseconds after 1970-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def to_plain(value: object) -> object:
    """Return the plain value that a date or a numpy scalar stands for; a date is midnight UTC.

    Raises:
        TypeError: no property can have this value; the text says what was expected.

    >>> to_plain(date(2002, 8, 22))
    datetime.datetime(2002, 8, 22, 0, 0, tzinfo=datetime.timezone.utc)
    """
    plain = _without_numpy(value)
    if isinstance(plain, date) and not isinstance(plain, datetime):
        return datetime(plain.year, plain.month, plain.day, tzinfo=UTC)
    if plain is value or not isinstance(plain, _PLAIN):
        raise TypeError(_refusal(value))
    return plain


def _without_numpy(value: Any) -> object:
    """Return the Python value of a numpy scalar. Its class identifies it, because numpy is not imported."""
    names = {base.__name__ for base in type(value).__mro__ if base.__module__ == "numpy"}
    if "generic" not in names or "timedelta64" in names:
        return value
    return value.astype("datetime64[us]").item() if "datetime64" in names else value.item()


def _refusal(value: object) -> str:
    name = type(value).__name__
    hint = f"; {_LIST_OF[name]} makes a list of it" if name in _LIST_OF else ""
    return f"expected bool, int, float, str, datetime, None, a list or a mapping, not {name}{hint}"
