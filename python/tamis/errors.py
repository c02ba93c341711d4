"""The errors that users meet. Each says what, where, what was expected and, where it can, what to do next."""

from __future__ import annotations

_WINDOW_CHARACTERS = 100


def short(value: object) -> str:
    """`value` as a message shows it: at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class TamisError(Exception):
    """The base of every error of tamis that is not also a built-in one."""


class ConfigError(TamisError):
    """A configuration or query file that cannot be used: file, line, what was expected."""


class StoreError(TamisError):
    """The query store cannot be used: it is of a newer version, not a store, or cannot be written."""


class SnapshotError(TamisError):
    """A file that is no engine snapshot, is of another version, or is damaged."""


class JournalError(TamisError):
    """A log that cannot be opened or read: none is there, a newer version wrote it, or it says too little of itself."""


class AdapterError(TamisError):
    """A data source that cannot be read."""


class AccessError(TamisError):
    """The broker's users cannot be read or changed as asked: which user, what, what was expected."""


class AmqpError(TamisError):
    """What an AMQP peer did wrong, as connection.close or channel.close tells it.

    Attributes:
        reply_code: the number, 404 for instance.
        reply_text: its name and the reason, one line of at most 255 bytes.
        class_id: the class of the method that failed; 0 where none did.
        method_id: the method within it; 0 where none did.

    >>> str(AmqpError(404, "NOT_FOUND - no queue 'q'", class_id=50, method_id=10))
    "NOT_FOUND - no queue 'q'"
    """

    def __init__(self, reply_code: int, reply_text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(reply_code, reply_text, class_id, method_id)
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id

    def __str__(self) -> str:
        return self.reply_text


class QueryError(ValueError):
    """A query that cannot be read, with a caret under the place.

    Attributes:
        text: the whole query.
        position: where, in characters from 0.
        expected: what was expected there, as the object of "expected ...".
        hint: what to try instead, or None.

    >>> print(QueryError("price >> 3", position=7, expected="a number"))
    expected a number
      price >> 3
             ^
    """

    def __init__(self, text: str, position: int, expected: str, hint: str | None = None) -> None:
        super().__init__(text, position, expected, hint)
        self.text = text
        self.position = position
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        if not self.text:
            return f"expected {self.expected}"
        line, column = self._line_and_column()
        caret = " " * column + "^" + (f" {self.hint}" if self.hint else "")
        return f"expected {self.expected}\n  {line}\n  {caret}"

    @property
    def summary(self) -> str:
        """The error on one line, without the caret: for logs and protocol replies."""
        near = self.text[self.position : self.position + 20].replace("\n", " ")
        place = f" near '{near}'" if near else " at the end"
        return f"position {self.position}: expected {self.expected}{place}" + (f" ({self.hint})" if self.hint else "")

    def _line_and_column(self) -> tuple[str, int]:
        """The line that the place is in, cut to a window around it, and the column in that."""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        line, column = self.text[start : end if end >= 0 else None], self.position - start
        if len(line) <= _WINDOW_CHARACTERS:
            return line.replace("\t", " "), column
        left = max(0, min(column - _WINDOW_CHARACTERS // 2, len(line) - _WINDOW_CHARACTERS))
        return line[left : left + _WINDOW_CHARACTERS].replace("\t", " "), column - left
