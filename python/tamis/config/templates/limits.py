"""Bounds the work of a template, and the size of what it gives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

CHARACTERS_MAX = 1_000_000
"""Maximum length of what a template gives, and of each text in it."""

STEPS_MAX = 200_000
"""Maximum number of steps of a template: rounds of loops, calls, included files, each 1,000 characters of a text."""

_BITS_MAX = 256

_left: ContextVar[int] = ContextVar("_left", default=STEPS_MAX)
"""The steps that the template that is being rendered has left."""


def begin() -> None:
    """Give the template that is rendered next all its steps."""
    _left.set(STEPS_MAX)


def take(steps: int) -> None:
    """Take some of the steps that are left.

    Raises:
        ValueError: there are fewer.
    """
    left = _left.get() - steps
    _left.set(left)
    if left < 0:
        raise ValueError(f"the template takes more than {STEPS_MAX:,} steps")


def counted(value: Any) -> Any:
    """Return `value` if it is not too long.

    Raises:
        ValueError: it is.
    """
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        raise ValueError(f"a number of more than {_BITS_MAX} bits")
    if isinstance(value, str | list | tuple):
        if len(value) > CHARACTERS_MAX:
            raise ValueError(f"a text of more than {CHARACTERS_MAX:,} characters")
        take(1 + len(value) // 1_000)
    return value


def rounds(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values of a loop; each takes a step."""
    for value in values:
        take(1)
        yield value


def check_size(value: Any) -> None:
    """Refuse lists and mappings that are too long as text; what stands in several places counts in each."""
    waiting, characters = [value], 0
    while waiting:
        one = waiting.pop()
        characters += len(one) if isinstance(one, str) else 1
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        if characters > CHARACTERS_MAX:
            raise ValueError(f"a text of more than {CHARACTERS_MAX:,} characters")
    take(1 + characters // 1_000)


def bounded_filter(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that refuses what would make it give much more than it is given."""

    @functools.wraps(work)
    def bounded(*given: Any, **options: Any) -> Any:
        values = [one for one in (*given, *options.values()) if isinstance(one, str | list | tuple | dict)]
        for one in values:
            check_size(one)
        sizes = sorted(map(len, values))
        if len(sizes) > 1 and sizes[-1] * sizes[-2] > 16 * CHARACTERS_MAX:
            raise ValueError(f"a text of more than {CHARACTERS_MAX:,} characters")
        return counted(work(*given, **options))

    return bounded
