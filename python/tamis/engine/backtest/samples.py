"""Keeps samples of messages, in bounded memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any


@dataclass
class Samples:
    """The first match, the last, and a uniform random sample of those between them."""

    wanted: int
    first: dict[str, Any] | None = None
    last: dict[str, Any] | None = None
    between: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    _between_count: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - the sample need not be secret

    def add(self, match: dict[str, Any]) -> None:
        """Add the next match."""
        if self.first is None:
            self.first = match
            return
        if self.last is not None:
            self._sample(self.last)
        self.last = match

    def _sample(self, match: dict[str, Any]) -> None:
        size = max(self.wanted - 2, 0)
        if len(self.between) < size:
            self.between.append((self._between_count, match))
        elif (index := self._random.randint(0, self._between_count)) < size:
            self.between[index] = (self._between_count, match)
        self._between_count += 1

    def all(self) -> list[dict[str, Any]]:
        """Return the samples in order, at most as many as were wanted."""
        kept = [match for _, match in sorted(self.between, key=itemgetter(0))]
        return [match for match in (self.first, *kept, self.last) if match is not None][: self.wanted]
