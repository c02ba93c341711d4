"""The options of every data source: the one table of their names, defaults and limits, and how text is checked."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, Self

from tamis.errors import AdapterError

SOURCE_TYPES: Final = ("mbox", "eml", "jsonl", "journal")
"""The types of sources, as pipeline.toml names them."""
MAIL: Final = ("mbox", "eml")
FILES: Final = ("mbox", "eml", "jsonl")


@dataclass(frozen=True, slots=True)
class OptionRule:
    """The type of an option, and the places in which it may be given.

    Attributes:
        types: the types of sources that have it.
        minimum: of a whole number.
        words: the texts that are allowed; none: any text.
        or_number: a whole number from 1 is allowed beside `words`.
        in_pipeline: whether an ``[[adapter]]`` of pipeline.toml may have it.
    """

    types: tuple[str, ...] = SOURCE_TYPES
    minimum: int | None = None
    words: tuple[str, ...] = ()
    or_number: bool = False
    in_pipeline: bool = True

    @property
    def expected(self) -> str:
        """The values allowed beside numbers: ``'first', 'next' or a number from 1``."""
        words = ", ".join(f"'{word}'" for word in self.words)
        return f"{words} or a number from 1" if self.or_number else words


def _option(default: Any, **rule: Any) -> Any:
    return field(default=default, metadata={"rule": OptionRule(**rule)})


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a data source is read. A new option is a field here: pipeline.toml, Spark and the checks follow from it.

    In Spark each option is text: ``.option("max_messages", "500")``.

    Attributes:
        path: a file, a folder or a glob (``*``, ``?``, ``[...]``, ``**``); the directory of a stream. It is made
            absolute, because it is part of every message's lasting name.
        topic: of every message.
        stop_words: ``english``, ``none``, words separated by commas, or ``@file``; left out of signatures.
        max_messages: maximum number of messages in one micro-batch.
        signature: whether rows have the column `signature`.
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
    topic: str = _option("")
    stop_words: str = _option("english", in_pipeline=False)
    max_messages: int = _option(10_000, minimum=1)
    signature: bool = _option(False, in_pipeline=False)
    settle_ms: int | None = _option(None, types=FILES, minimum=0)
    pattern: str | None = _option(None, types=FILES)
    source: str | None = _option(None, types=MAIL)
    body_field: str | None = _option(None, types=("jsonl",))
    topic_field: str | None = _option(None, types=("jsonl",))
    starting_offset: str = _option("first", types=("journal",), words=("first", "next"), or_number=True)
    query_body: str = _option("text", types=("journal",), words=("text", "json"))

    @classmethod
    def of(cls, given: Mapping[str, str], source_type: str | None = None) -> Self:
        """The options in `given`; names count without regard to case, as in Spark, and to ``_``.

        Args:
            given: name -> text.
            source_type: the type of the source, which may not have all options; None allows all.

        Raises:
            AdapterError: an unknown name, no path, or a value that cannot be one.
        """
        known = {option.name.replace("_", ""): option for option in options_of(source_type)}
        values: dict[str, Any] = {}
        for given_name, text in given.items():
            option = known.get(given_name.lower().replace("_", ""))
            if option is None:
                raise AdapterError(_unknown(given_name, [option.name for option in known.values()]))
            values[option.name] = _checked(option, given_name, text)
        if not values.get("path"):
            raise AdapterError("no path: expected a file, a folder or a glob, as in .load('mail/')")
        values["path"] = os.path.abspath(os.path.expanduser(values["path"].removeprefix("file://")))  # noqa: PTH100, PTH111
        return cls(**values)

    @staticmethod
    def check_names(names: Iterable[str], source_type: str) -> None:
        """Raise an AdapterError if this type of source does not have an option of one of these names."""
        known = [option.name for option in options_of(source_type)]
        for name in names:
            if name not in known:
                raise AdapterError(_unknown(name, known))

    def texts(self, source_type: str) -> dict[str, str]:
        """The options that a source of this type has and that are set, as Spark takes them."""
        values = ((option.name, getattr(self, option.name)) for option in options_of(source_type))
        return {name: str(value) for name, value in values if value is not None and value is not False}


def options_of(source_type: str | None = None) -> Iterator[Field[Any]]:
    """The fields of `SourceOptions` that a type of source has; None: all of them."""
    return (option for option in fields(SourceOptions) if source_type is None or source_type in rule_of(option).types)


def rule_of(option: Field[Any]) -> OptionRule:
    """The types of options."""
    rule: OptionRule = option.metadata.get("rule", _ANY_TEXT)
    return rule


_ANY_TEXT: Final = OptionRule()


def _checked(option: Field[Any], given_name: str, text: str) -> str | int | bool:
    """The value of an option that was given as text."""
    rule = rule_of(option)
    if rule.minimum is not None:
        if not _is_number(text, rule.minimum):
            raise AdapterError(f"option {given_name}: expected a whole number of at least {rule.minimum}, not '{text}'")
        return int(text)
    if isinstance(option.default, bool):
        if text.lower() not in ("true", "false"):
            raise AdapterError(f"option {given_name}: expected true or false, not '{text}'")
        return text.lower() == "true"
    if rule.words and text not in rule.words and not (rule.or_number and _is_number(text, 1)):
        raise AdapterError(f"option {given_name}: expected {rule.expected.replace(chr(39), '')}, not '{text}'")
    return text


def _is_number(text: str, minimum: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= minimum


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(known)}"
    return f"unknown option '{name}'; {hint}"
