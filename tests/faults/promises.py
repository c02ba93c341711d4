"""How often the fault tests do what they do: in short, or as often as is promised."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("TAMIS_LONG"))
"""Set by `make faults`: every test does as much as is promised."""
_below: dict[str, tuple[int, int]] = {}


def times(name: str, short: int, promised: int) -> int:
    """Return how often: as the variable `name` of the environment says, else `promised` or `short`."""
    count = int(os.environ.get(name, promised if LONG else short))
    if count < promised:
        _below[name] = (count, max(promised, _below.get(name, (0, 0))[1]))
    return count


def below() -> list[str]:
    """Return what was done less often than is promised, a line for each variable."""
    return [f"{name}={count}, promised {promised}" for name, (count, promised) in sorted(_below.items())]
