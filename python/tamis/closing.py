"""Closes what a program has opened at the end of a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that closes itself, however its block ends."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""

    def __enter__(self) -> Self:
        """Return the object; the end of the block calls `close`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Call `close`."""
        self.close()
