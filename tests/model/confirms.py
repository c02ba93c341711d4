"""What a publisher understands of the confirms that it gets, as client libraries do."""

from __future__ import annotations

from collections.abc import Sequence

from tests.model.state import ViolationError


class Confirms:
    """What a publisher was told about its messages, by number, as client libraries understand it."""

    def __init__(self) -> None:
        self.published = 0
        self._told: dict[int, str] = {}
        self._frontier = 0
        self._reported = 0

    def hear(self, confirms: Sequence[tuple[str, int, bool]]) -> list[str]:
        """Return what became of the messages that were published since the last time.

        Raises:
            ViolationError: a message was told about twice, in different ways, or was never published.
        """
        for name, tag, multiple in confirms:
            for number in range(self._frontier + 1 if multiple else tag, tag + 1):
                if self._told.setdefault(number, name) != name:
                    raise ViolationError(f"{name} {tag} ({multiple=}) covers {number}, which got {self._told[number]}")
            if tag > self.published or tag <= self._frontier:
                raise ViolationError(f"{name} {tag} ({multiple=}) of {self.published}, told through {self._frontier}")
            while self._frontier + 1 in self._told:
                self._frontier += 1
        numbers = range(self._reported + 1, self.published + 1)
        self._reported = self.published
        return [self._told.get(number, "nothing") for number in numbers]
