"""The topics of messages cached per word: for each position and word, the known topics with that word there.

A new pattern intersects the sets of its words and of its length. So it finds the known topics that it matches without
comparing itself with any of them, and each of these gets the subscription. A message with a known topic is then one
look-up; a new topic is put into the sets of its words and compared with every pattern once.

Cost: one look-up per message, and the matches; an intersection for each word of a new pattern; ``subscriptions``
comparisons for a new topic, so it does not help if topics are new.
Cannot: handle ``#``, because the words after it have no position; "they can not be adapted". Here patterns with ``#``
are kept aside and compared with each message, by definition.

Source: the RabbitMQ paper, approach 1 ("Caching messages' topics on a per-word basis. This is what the AMQP spec
suggests"), in AMQP 0-9-1, section 3.1.3.3: to hold the set of all known routing keys.
Neither says what is kept for a topic; here it is the bitmap of its subscriptions. Neither bounds the set; here it is
emptied at ``topics_max``, and fills again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tamis.reference.numbering import bits
from tamis.reference.topics.topic_matcher import TopicMatcher, Words, fits_any


class WordCache(TopicMatcher):
    """Bitmaps of known topics, by position and word.

    >>> cache = WordCache()
    >>> cache.match("usd.stock")  # known from here on
    []
    >>> cache.add("literal", "usd.stock")
    >>> cache.add("star", "*.stock")
    >>> cache.add("hash", "*.stock.#")
    >>> cache.match("usd.stock"), cache.match("eur.stock.db"), cache.match("stock.nasdaq")
    (['literal', 'star', 'hash'], ['hash'], [])
    """

    def __init__(self, topics_max: int = 100_000) -> None:
        super().__init__()
        self._topics_max = topics_max
        self._numbers: dict[Words, int] = {}
        self._with_word: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._with_length: defaultdict[int, int] = defaultdict(int)
        self._subscriptions: list[int] = []  # by the topic's number: a bitmap
        self._aside: dict[int, list[Words]] = {}

    def _insert(self, number: int, spelled: list[Words]) -> None:
        if any("#" in pattern for pattern in spelled):
            self._aside[number] = spelled
            return
        for pattern in spelled:
            for topic in bits(self._topics_of(pattern)):
                self._subscriptions[topic] |= 1 << number

    def _delete(self, number: int, spelled: list[Words]) -> None:
        if self._aside.pop(number, None) is not None:
            return
        for pattern in spelled:
            for topic in bits(self._topics_of(pattern)):
                self._subscriptions[topic] &= ~(1 << number)

    def _find(self, topic: Words) -> Iterator[int]:
        known = self._numbers.get(topic)
        yield from bits(self._subscriptions[self._learn(topic) if known is None else known])
        yield from self._tested_by_definition(topic)

    def _topics_of(self, pattern: Words) -> int:
        """Return the known topics that a pattern without ``#`` matches."""
        left = self._with_length.get(len(pattern), 0)
        for position, word in enumerate(pattern):
            if word != "*":
                left &= self._with_word.get((position, word), 0)
        return left

    def _learn(self, topic: Words) -> int:
        """Number a new topic and put it into the sets of its words."""
        if len(self._numbers) >= self._topics_max:
            for table in (self._numbers, self._with_word, self._with_length, self._subscriptions):
                table.clear()
        number = self._numbers[topic] = len(self._numbers)
        self._with_length[len(topic)] |= 1 << number
        for position_and_word in enumerate(topic):
            self._with_word[position_and_word] |= 1 << number
        indexed = {key: spelled for key, spelled in self._patterns.items() if key not in self._aside}
        self._subscriptions.append(sum(1 << key for key, spelled in indexed.items() if fits_any(spelled, topic)))
        return number

    def _tested_by_definition(self, topic: Words) -> Iterable[int]:
        return (number for number, spelled in self._aside.items() if fits_any(spelled, topic))
