"""The options of a data source: checked, with a sentence about what is wrong with them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from tamis.errors import AdapterError

MAX_MESSAGES_DEFAULT: Final = 10_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a data source is read. In Spark each is text: ``.option("max_messages", "500")``.

    Attributes:
        path: a file, a folder or a glob (``*``, ``?``, ``[...]``, ``**``); made absolute, for it names the place of
            messages for ever.
        topic: of every message.
        stop_words: ``english``, ``none``, words separated by commas, or ``@file``.
        max_messages: the most in one micro-batch.
        settle_ms: how long a file must have been left alone before its end is taken for the end of its last message;
            None is the format's own.
        pattern: the names of the files that are read in a folder; None is the format's own.
        source: the property `source` of mail; None: the mailbox's file name without its suffix, or the folder's name.
        body_field: JSON lines: the member that is the body.
        topic_field: JSON lines: the member that is the topic, where it is text.
        starting_offset: streams: ``first``, ``next`` or a message's number, where nothing has been read yet.
        query_body: streams: ``text``, or ``json``: the fields of a body are properties under ``body.``, too.
    """

    path: str
    topic: str = ""
    stop_words: str = "english"
    max_messages: int = MAX_MESSAGES_DEFAULT
    settle_ms: int | None = None
    pattern: str | None = None
    source: str | None = None
    body_field: str | None = None
    topic_field: str | None = None
    starting_offset: str = "first"
    query_body: str = "text"

    @classmethod
    def of(cls, given: Mapping[str, str], only: Callable[[str], bool] = lambda name: True) -> Self:
        """The options in `given`; names count without regard to case, as in Spark, and to ``_``.

        Args:
            given: name -> text.
            only: whether the format has an option of that name.

        Raises:
            AdapterError: an unknown name, no path, or a value that cannot be one.
        """
        known = {field.name.replace("_", ""): field.name for field in fields(cls) if only(field.name)}
        values: dict[str, Any] = {}
        for given_name, text in given.items():
            name = known.get(given_name.lower().replace("_", ""))
            if name is None:
                raise AdapterError(_unknown(given_name, list(known.values())))
            values[name] = _checked(name, given_name, text)
        if not values.get("path"):
            raise AdapterError("no path: expected a file, a folder or a glob, as in .load('mail/')")
        values["path"] = os.path.abspath(os.path.expanduser(values["path"].removeprefix("file://")))  # noqa: PTH100, PTH111
        return cls(**values)


_COUNTS: Final = {"max_messages": 1, "settle_ms": 0}
_WORDS: Final = {"starting_offset": ("first", "next"), "query_body": ("text", "json")}


def _checked(name: str, given_name: str, text: str) -> str | int:
    """The value of the option `name`: a number of at least what `_COUNTS` says, or one of the words in `_WORDS`."""
    if name in _COUNTS:
        least = _COUNTS[name]
        if not _is_number(text, least):
            raise AdapterError(f"option {given_name}: expected a whole number of at least {least}, not '{text}'")
        return int(text)
    words = _WORDS.get(name)
    takes_number = name == "starting_offset"
    if words and text not in words and not (takes_number and _is_number(text, 1)):
        expected = ", ".join(words) + (" or a number from 1" if takes_number else "")
        raise AdapterError(f"option {given_name}: expected {expected}, not '{text}'")
    return text


def _is_number(text: str, least: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(known)}"
    return f"unknown option '{name}'; {hint}"
