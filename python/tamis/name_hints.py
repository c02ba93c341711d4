"""Guesses which known name was probably meant by an unknown one, in a file or in a query."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

SEEN_MAX = 10_000
"""Maximum number of different names of messages that are remembered; later ones are not suggested."""
ASKED_MAX = 1_000
"""Maximum number of names in queries that are looked for; nobody types a file of more."""
ELEMENTS_MAX = 20
"""Maximum number of elements of a list that are searched for names."""
HINTS_MAX = 10
"""Maximum number of hints."""
COMPARISONS_MAX = 100_000
"""Maximum number of pairs of names that are compared, which takes about a third of a second."""
CHARACTERS_MAX = 100
"""Maximum length of a name that is compared: a comparison takes the product of two lengths."""

_CLOSE = 0.7  # of 1: `pirce` and `price` are 0.8, `author` and `source` 0.33


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the nearest of `known`, or nothing when none is near."""
    import difflib  # only on a mistake: loading it takes time, and the broker should start quickly

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


class NameHints:
    """Collects the names of messages; `hints` then says which of them were probably meant by missing names.

    >>> hints = NameHints(["pirce", "author"])
    >>> hints.see({"price": 1, "author": "James"})
    >>> hints.hints()
    ["no message has 'pirce'; did you mean 'price'?"]
    """

    def __init__(self, asked: Iterable[str]) -> None:
        self._missing = set(sorted(asked)[:ASKED_MAX])
        self._seen: set[str] = set()

    def see(self, properties: Mapping[str, Any]) -> None:
        """Collect the names of a message. Cost: linear in its names; nothing once no name is missing."""
        if not self._missing:
            return
        is_nested = any("." in name for name in self._missing)
        names = set(dotted_names(properties) if is_nested else properties)
        self._missing -= names
        if len(self._seen) < SEEN_MAX:
            self._seen |= names

    def hints(self) -> list[str]:
        """Return one line for each name that no message had and that is close to a name they had, at most ten."""
        pairs = likely_names(sorted(self._missing), self._seen)
        return [f"no message has '{name}'; did you mean '{near}'?" for name, near in pairs]


def likely_names(missing: Iterable[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Return the first names of `missing`, at most ten, each with the name of `known` that was probably meant."""
    tried = islice(missing, max(1, COMPARISONS_MAX // max(1, len(known))))
    pairs = ((name, nearest(name, known)) for name in tried)
    return islice(((name, near) for name, near in pairs if near), HINTS_MAX)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name among `known` that was probably meant by `name`; one that differs only in case comes first."""
    if len(name) > CHARACTERS_MAX:
        return None
    import difflib

    others = (other for other in sorted(known, reverse=True) if other != name and len(other) <= CHARACTERS_MAX)
    by_lower = {other.lower(): other for other in others}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_CLOSE)
    return by_lower[close[0]] if close else None


def dotted_names(properties: Mapping[str, Any]) -> Iterator[str]:
    """Yield every name that reaches a value, including dotted names into mappings and through lists."""
    waiting: list[tuple[str, Any]] = list(properties.items())
    while waiting:
        name, value = waiting.pop()
        yield name
        for inner in value[:ELEMENTS_MAX] if isinstance(value, list) else [value]:
            if isinstance(inner, Mapping):
                waiting.extend((f"{name}.{key}", item) for key, item in inner.items() if isinstance(key, str))
