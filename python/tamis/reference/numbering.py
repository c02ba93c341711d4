"""Numbers the keys of subscriptions, for every algorithm here.

Source: the OpenAMQ paper: "We number each match request from 0 upwards"."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator


class Numbering:
    """Keys and their numbers, given in the order in which keys are added; a number is never given twice.

    So the order of numbers is the order of adding. The price is that a bitmap of numbers grows with every key that was
    ever added.

    >>> numbering = Numbering()
    >>> [numbering.give(key) for key in ("a", "b", "a")]
    [0, 1, 0]
    >>> numbering.keys({1, 0})
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._number_of: dict[Hashable, int] = {}
        self._key_of: dict[int, Hashable] = {}
        self._next = 0

    def give(self, key: Hashable) -> int:
        """Return the number of `key`; a new key gets the next one."""
        number = self._number_of.get(key)
        if number is None:
            number = self._next
            self._next += 1
            self._number_of[key], self._key_of[number] = number, key
        return number

    def take(self, key: Hashable) -> int:
        """Forget `key` and return its number; KeyError if it has none."""
        number = self._number_of.pop(key)
        del self._key_of[number]
        return number

    def keys(self, numbers: Iterable[int]) -> list[Hashable]:
        """Return the keys of distinct `numbers`, in the order in which they were added."""
        return [self._key_of[number] for number in sorted(numbers)]


def bits(bitmap: int) -> Iterator[int]:
    """Yield the positions of the ones in `bitmap`, ascending. Cost: the number of ones times the length.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while bitmap:
        lowest = bitmap & -bitmap
        yield lowest.bit_length() - 1
        bitmap ^= lowest
