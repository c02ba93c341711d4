"""Patterns indexed per word: for each position and word, the patterns with that word there.

A topic takes, at each of its positions, the patterns with its word or with ``*``, and intersects these sets. The sets
are bitmaps; one more set for each length excludes patterns that are longer or shorter.

Cost: one AND of two bitmaps for each word, each with one bit per subscription; so it grows with their number, however
few match. Adding and removing are cheap.
Cannot: handle ``#``, because the words after it have no position; "they can not be adapted". Here patterns with ``#``
are kept aside and compared with each message, by definition.

Source: the RabbitMQ paper, approach 2 ("Indexing patterns on a per-word basis"), which it found "particularly unfit":
slowest, "they do not have a good complexity, because they involve intersecting sets for each level"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tamis.reference.numbering import bits
from tamis.reference.topics.topic_matcher import TopicMatcher, Words, fits_any


class WordIndex(TopicMatcher):
    """Bitmaps of patterns, by position and word.

    >>> index = WordIndex()
    >>> for pattern in ["a.b.c", "a.*.b.c", "a.#.c", "b.b.c"]:
    ...     index.add(pattern, pattern)
    >>> index.match("a.d.d.d.c"), index.match("a.b.c")
    (['a.#.c'], ['a.b.c', 'a.#.c'])
    """

    def __init__(self) -> None:
        super().__init__()
        self._with_word: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._with_length: defaultdict[int, int] = defaultdict(int)
        self._aside: dict[int, list[Words]] = {}

    def _insert(self, number: int, spelled: list[Words]) -> None:
        if any("#" in pattern for pattern in spelled):
            self._aside[number] = spelled
            return
        for pattern in spelled:  # a second spelling is the beginning of the first, so that one bit serves both
            self._with_length[len(pattern)] |= 1 << number
            for position_and_word in enumerate(pattern):
                self._with_word[position_and_word] |= 1 << number

    def _delete(self, number: int, spelled: list[Words]) -> None:
        if self._aside.pop(number, None) is not None:
            return
        for pattern in spelled:
            _clear(self._with_length, len(pattern), number)
            for position_and_word in enumerate(pattern):
                _clear(self._with_word, position_and_word, number)

    def _find(self, topic: Words) -> Iterator[int]:
        left = self._with_length.get(len(topic), 0)
        for position, word in enumerate(topic):
            left &= self._with_word.get((position, word), 0) | self._with_word.get((position, "*"), 0)
        yield from bits(left)
        yield from self._tested_by_definition(topic)

    def _tested_by_definition(self, topic: Words) -> Iterable[int]:
        return (number for number, spelled in self._aside.items() if fits_any(spelled, topic))


def _clear(bitmaps: defaultdict[Any, int], key: object, number: int) -> None:
    """Clear a bit, and remove a bitmap without bits."""
    bitmaps[key] &= ~(1 << number)
    if not bitmaps[key]:
        del bitmaps[key]
