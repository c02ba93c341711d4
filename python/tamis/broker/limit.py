"""A limit of the broker in words: what it bounds, and the answer beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["", "bytes", "s", "ms", "ns"]


@dataclass(frozen=True)
class Limit:
    """The description of a limit. It stands in the annotation of a setting, which has the value.

    Attributes:
        what: what is limited.
        beyond: the answer beyond the limit.
        unit: the unit of the value; empty for a number of things.
    """

    what: str
    beyond: str
    unit: Unit = ""
