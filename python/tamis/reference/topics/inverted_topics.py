"""Inverted bitmaps for topics: a table of the known topic names, each with one bit for every subscription.

Matching a known name is one look-up. A new name is compared with every subscription when it first occurs, and a new
subscription with every known name. Bitmaps are Python integers.

Cost: one look-up per message, and the matches; ``names`` comparisons to add or remove, ``subscriptions`` for a new
name.
Memory: names x subscriptions bits.
Cannot: handle topics that are mostly new (the table is then only a cost), or subscriptions that change as often as
messages arrive. The paper lets the table grow; here it is emptied when it holds ``names_max`` names, and fills again.

Source: the OpenAMQ paper, "Inverted bitmaps" and "Topic matching"."""

from __future__ import annotations

from collections.abc import Iterable

from tamis.reference.numbering import bits
from tamis.reference.topics.topic_matcher import TopicMatcher, Words, fits_any, words


class InvertedTopics(TopicMatcher):
    """OpenAMQ's table of topic names.

    The paper's example, with its table in the order of its columns:

    >>> table = InvertedTopics()
    >>> for number, pattern in enumerate(["forex.*", "*.usd", "*.eur", "#"]):
    ...     table.add(number, pattern, "openamq")
    >>> for topic in ["forex", "forex.gbp", "forex.eur", "forex.usd", "trade", "trade.usd", "trade.jpy"]:
    ...     print(f"{topic:9}", *table.row(topic))
    forex     1 0 0 1
    forex.gbp 1 0 0 1
    forex.eur 1 0 1 1
    forex.usd 1 1 0 1
    trade     0 0 0 1
    trade.usd 0 1 0 1
    trade.jpy 0 0 0 1
    >>> table.match("forex.eur"), table.match("forex"), table.match("trade.jpy")
    ([0, 2, 3], [0, 3], [3])
    """

    def __init__(self, names_max: int = 100_000) -> None:
        super().__init__()
        self._names_max = names_max
        self._rows: dict[Words, int] = {}

    def row(self, topic: str) -> list[int]:
        """Return the line of the table for `topic`: a bit for every subscription, in the order of adding."""
        matched = self._bitmap(words(topic))
        return [matched >> number & 1 for number in sorted(self._patterns)]

    def _insert(self, number: int, spelled: list[Words]) -> None:
        for topic in self._rows:
            if fits_any(spelled, topic):
                self._rows[topic] |= 1 << number

    def _delete(self, number: int, spelled: list[Words]) -> None:
        for topic, row in self._rows.items():
            self._rows[topic] = row & ~(1 << number)

    def _find(self, topic: Words) -> Iterable[int]:
        return bits(self._bitmap(topic))

    def _bitmap(self, topic: Words) -> int:
        row = self._rows.get(topic)
        if row is None:
            if len(self._rows) >= self._names_max:
                self._rows.clear()
            row = self._rows[topic] = self._compile(topic)
        return row

    def _compile(self, topic: Words) -> int:
        """Make the row of a new name."""
        return sum(1 << number for number, spelled in self._patterns.items() if fits_any(spelled, topic))
