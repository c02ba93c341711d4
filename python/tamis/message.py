"""Defines the parts of a message in Python: the markers, times, and types of its properties.

A message has a topic (text), properties (name -> value) and a body (text or bytes). Values are bool, int (64 bits),
float, str, datetime, None, nested mappings and lists of these; docs/semantics.md, section "Messages"."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal, TypeAlias


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
    "bool | int | float | str | bytes | datetime | Decimal | None | Literal[Marker.PRESENT] "
    "| Sequence[Value] | Mapping[str, Value]"
)
Properties: TypeAlias = "Mapping[str, Value]"
Body: TypeAlias = str | bytes | bytearray | memoryview | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Microseconds since 1970-01-01 UTC; a naive `instant` counts as UTC.

    >>> to_micros(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The instant `micros` microseconds after 1970-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=micros)
