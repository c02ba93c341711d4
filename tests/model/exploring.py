"""Follows all the states that a broker may be in, where it may take its queues in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from tests.model.state import ViolationError
from tests.model.world import World

SOURCES_MAX, WORLDS_MAX = 4, 64
"""Where more queues than that send letters in one call, or more states are possible, a program is given up."""


class UnclearError(Exception):
    """The broker may be in too many states to tell."""


def explore(worlds: Sequence[World], check: Callable[[World], object]) -> list[World]:
    """Return the worlds that follow from `worlds`, in any order in which their queues may be taken.

    Raises:
        ViolationError: there are none; why the first is impossible.
    """
    found: dict[str, World] = {}
    error: ViolationError | None = None
    for world in worlds:
        following = world.copy()
        following.order = ()
        reason = _reason(following, check)
        if len(following.sources) > SOURCES_MAX:
            raise UnclearError(f"{len(following.sources)} queues send letters at once")
        if len(following.sources) > 1:
            for order in permutations(sorted(following.sources)):
                other = world.copy()
                other.order = order
                if _reason(other, check) is None:
                    found[other.fingerprint()] = other
        elif reason is None:
            found[following.fingerprint() if len(worlds) > 1 else ""] = following
        error = error or reason
    if not found:
        raise error or ViolationError("nothing explains it")
    if len(found) > WORLDS_MAX:
        raise UnclearError(f"{len(found)} states are possible")
    return list(found.values())


def _reason(world: World, check: Callable[[World], object]) -> ViolationError | None:
    try:
        check(world)
    except ViolationError as error:
        return error
    return None
