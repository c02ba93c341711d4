"""The common part of the algorithms for topics: their interface, and the meaning of a pattern.

The three dialects become one here: every pattern is one or two sequences of words in which ``*`` is exactly one word
and ``#`` zero or more. The algorithms themselves know no dialect.

Source: AMQP 0-9-1, section 3.1.3.3; the OpenAMQ paper for the other dialects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Literal, TypeAlias

from tamis.reference.numbering import Numbering

Words: TypeAlias = tuple[str, ...]
Dialect: TypeAlias = Literal["amqp", "openamq", "openamq-program"]


class TopicMatcher(ABC):
    """Subscriptions to topic patterns. Each algorithm defines where a pattern is put and how a topic finds it."""

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._patterns: dict[int, list[Words]] = {}

    def add(self, key: Hashable, pattern: str, dialect: Dialect = "amqp") -> None:
        """Add a subscription; a key that exists gets the new pattern and keeps its position."""
        spelled = alternatives(pattern, dialect)
        number = self._numbering.give(key)
        if number in self._patterns:
            self._delete(number, self._patterns[number])
        self._patterns[number] = spelled
        self._insert(number, spelled)

    def remove(self, key: Hashable) -> None:
        """Remove a subscription; KeyError if there is none."""
        number = self._numbering.take(key)
        self._delete(number, self._patterns.pop(number))

    def match(self, topic: str) -> list[Hashable]:
        """Return the keys of all patterns that match `topic`, in the order in which they were added."""
        return self._numbering.keys(self._find(words(topic)))

    @abstractmethod
    def _insert(self, number: int, spelled: list[Words]) -> None:
        """Put a pattern, in all its spellings, where topics will find it."""

    @abstractmethod
    def _delete(self, number: int, spelled: list[Words]) -> None:
        """Undo `_insert`."""

    @abstractmethod
    def _find(self, topic: Words) -> Iterable[int]:
        """Return the numbers of the patterns that `topic` fits, each once."""


def words(text: str) -> Words:
    """Return the words of a topic or pattern; the empty text has none, while ``.`` has two that are empty."""
    return tuple(text.split(".")) if text else ()


def alternatives(pattern: str, dialect: Dialect = "amqp") -> list[Words]:
    """`pattern` in words, ``#`` being zero or more: one spelling, or two when its last word may be left out.

    >>> alternatives("forex.*", "openamq")
    [('forex', '*'), ('forex',)]
    >>> alternatives("a.#", "openamq-program")
    [('a', '*', '#')]

    Raises:
        ValueError: an unknown dialect.
    """
    if dialect not in ("amqp", "openamq", "openamq-program"):
        raise ValueError(f"dialect: expected 'amqp', 'openamq' or 'openamq-program', not {dialect!r}")
    spelled = words(pattern)
    if dialect == "amqp":
        return [spelled]
    at_least_one = tuple(word for written in spelled for word in (("*", "#") if written == "#" else (written,)))
    if dialect == "openamq" and len(spelled) > 1 and spelled[-1] == "*":
        return [at_least_one, at_least_one[:-1]]
    return [at_least_one]


def fits(pattern: Words, topic: Words) -> bool:
    """Return whether `pattern` matches `topic`, by definition. Cost: the product of their lengths.

    >>> fits(words("*.stock.#"), words("eur.stock.db")), fits(words("*.stock.#"), words("stock.nasdaq"))
    (True, False)
    """
    reached = {0}  # how many words of the topic the pattern so far can have used up
    for word in pattern:
        if word == "#":
            reached = set(range(min(reached, default=len(topic) + 1), len(topic) + 1))
        else:
            reached = {used + 1 for used in reached if used < len(topic) and word in ("*", topic[used])}
    return len(topic) in reached


def fits_any(spelled: list[Words], topic: Words) -> bool:
    """Return whether `topic` fits one of the spellings of a pattern."""
    return any(fits(pattern, topic) for pattern in spelled)
