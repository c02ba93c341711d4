"""The errors that users meet: each says what is wrong, where, what was expected and, where possible, what to do."""

from __future__ import annotations

import errno

from tamis._core import show_query_error, show_query_warning

__all__ = [
    "AccessError",
    "AdapterError",
    "AmqpError",
    "ConfigError",
    "JournalError",
    "NotAllowedError",
    "QueryError",
    "SnapshotError",
    "StoreError",
    "TamisError",
]

_DISK_FAILED = {errno.EIO, errno.ENXIO, errno.ENODEV, errno.EROFS, errno.ESTALE, getattr(errno, "EUCLEAN", errno.EIO)}
"""The errors of Linux for a file system that is gone or broken, not for a file that is merely absent or closed."""


def short(value: object) -> str:
    """`value` as a message shows it: at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def expect_text(value: object, name: str) -> str:
    """Return the argument `name`, or raise a TypeError that names it."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected text, not {type(value).__name__}")
    return value


def has_disk_failed(error: BaseException | None) -> bool:
    """Return whether `error`, or an error that caused it, says that a file system is gone or broken."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_FAILED:
            return True
        error = error.__cause__ or error.__context__
    return False


class TamisError(Exception):
    """The base of every error of tamis that is not also a built-in one."""


class ConfigError(TamisError):
    """A configuration or query file cannot be used; the text says the file, the line and what was expected."""


class StoreError(TamisError):
    """The query store cannot be used: a newer version wrote it, it is not a store, or it cannot be written."""


class NotAllowedError(StoreError):
    """An owner may not change a query of another owner; the text says whose it is."""


class StoreUnavailableError(StoreError):
    """The store cannot be used right now. What was not committed does not count; try again later."""


class StoreBusyError(StoreUnavailableError):
    """Another process has held the store for longer than a writer waits. Nothing was changed."""


class StoreLostError(StoreUnavailableError):
    """The server of a store went away while it was used; it may come back."""


class SnapshotError(TamisError):
    """A file is no engine snapshot, has another version, or is damaged."""


class JournalError(TamisError):
    """A log cannot be opened or read: it is absent, a newer version wrote it, or its header is incomplete."""


class AdapterError(TamisError):
    """A data source cannot be read."""


class AccessError(TamisError):
    """The broker's users cannot be read or changed as asked; the text says which user, what, and what was expected."""


class AmqpError(TamisError):
    """An AMQP peer made an error; the fields are those of connection.close and channel.close.

    Attributes:
        reply_code: the number, such as 404.
        reply_text: its name and the reason, one line of at most 255 bytes.
        class_id: the class of the method that failed; 0 if no method failed.
        method_id: the method within its class; 0 if no method failed.

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
    """A query cannot be read; its text ends with a caret under the position of the error.

    Attributes:
        text: the whole query.
        position: the position of the error in `text`, in characters from 0.
        expected: what was expected at that position, as the object of "expected ...".
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
        return show_query_error(self.text, self.position, self.expected, self.hint)[0]

    @property
    def summary(self) -> str:
        """The error on one line, without the caret: for logs and protocol replies."""
        return show_query_error(self.text, self.position, self.expected, self.hint)[1]


class QueryWarning(UserWarning):
    """A query is valid and probably a mistake; the text ends with a caret under the position.

    Attributes:
        text: the whole query.
        position: the place in `text`, in characters from 0.
        message: what the query says there.
        hint: what to write instead, or None.

    >>> print(QueryWarning("price > '100'", 8, "'100' in quotes is a text", "without quotes it is a number: 100"))
    '100' in quotes is a text
      price > '100'
              ^ without quotes it is a number: 100
    """

    def __init__(self, text: str, position: int, message: str, hint: str | None = None) -> None:
        super().__init__(text, position, message, hint)
        self.text = text
        self.position = position
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return show_query_warning(self.text, self.position, self.message, self.hint)
