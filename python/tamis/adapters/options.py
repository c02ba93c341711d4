"""The options of data sources: what each may be, how text becomes a value, and the options that all sources share."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, Self

from tamis.errors import AdapterError


@dataclass(frozen=True, slots=True)
class OptionRule:
    """The values of an option, and where it may be given.

    Attributes:
        minimum: the minimum of a whole number.
        maximum: the maximum of a whole number; None: no limit.
        words: the texts that are allowed; none: any text.
        or_number: a whole number from 1 is allowed beside `words`.
        in_pipeline: whether an ``[[adapter]]`` of pipeline.toml may have it.
        is_path: a path; in pipeline.toml it is relative to the file, else to the current folder.
        required: what is expected, if it must be given; empty if it need not be.
    """

    minimum: int | None = None
    maximum: int | None = None
    words: tuple[str, ...] = ()
    or_number: bool = False
    in_pipeline: bool = True
    is_path: bool = False
    required: str = ""

    @property
    def expected(self) -> str:
        """The values allowed beside numbers: ``'first', 'next' or a number from 1``."""
        words = ", ".join(f"'{word}'" for word in self.words)
        return f"{words} or a number from 1" if self.or_number else words


def option(default: Any, **rule: Any) -> Any:
    """Return a field of a class of options, with the members of its `OptionRule`."""
    return field(default=default, metadata={"rule": OptionRule(**rule)})


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options that every data source has. A subclass per source adds its own.

    A new option is a field there: pipeline.toml, Spark and the checks follow from it. In Spark each option is text:
    ``.option("max_messages", "500")``.

    Attributes:
        topic: the topic of every message.
        stop_words: ``english``, ``none``, words separated by commas, or ``@file``; left out of signatures.
        max_messages: maximum number of messages in one micro-batch.
        max_bytes: a micro-batch ends with the message that makes it as large as this.
        signature: whether rows have the column `signature`.
        xml: whether the column `xml` has a document of each message; else it is null.
    """

    topic: str = option("")
    stop_words: str = option("english", in_pipeline=False)
    max_messages: int = option(10_000, minimum=1)
    max_bytes: int = option(256 << 20, minimum=1)
    signature: bool = option(False, in_pipeline=False)
    xml: bool = option(False)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Return the options in `given`; names count without regard to case, as in Spark, and to ``_``.

        Args:
            given: name -> text.

        Raises:
            AdapterError: an unknown name, one that is missing, or a value that cannot be one.
        """
        known = {one.name.replace("_", ""): one for one in fields(cls)}
        values: dict[str, Any] = {}
        for given_name, text in given.items():
            found = known.get(given_name.lower().replace("_", ""))
            if found is None:
                raise AdapterError(_unknown(given_name, [one.name for one in fields(cls)]))
            values[found.name] = _checked(found, given_name, text)
        for one in fields(cls):
            if rule_of(one).required and not values.get(one.name):
                raise AdapterError(f"no {one.name}: expected {rule_of(one).required}")
        return cls(**values)

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """Raise an AdapterError if there is no option of one of these names."""
        known = [one.name for one in fields(cls)]
        for name in names:
            if name not in known:
                raise AdapterError(_unknown(name, known))

    def texts(self) -> dict[str, str]:
        """Return the options that are set, as Spark takes them."""
        values = ((one, getattr(self, one.name)) for one in fields(self))
        return {
            one.name: str(value).lower() if isinstance(value, bool) else str(value)
            for one, value in values
            if value is not None and not (value is False and one.default is False)
        }


@dataclass(frozen=True, kw_only=True)
class PropertyOptions(SourceOptions):
    """The options of sources that give properties another meaning, or another name.

    Attributes:
        topic_field: the property that is the topic, where it is text; of a list, its first text.
        fields: new names of members of JSON: ``price=amount.value,buyer=user``; further names of other properties.
    """

    topic_field: str | None = option(None)
    fields: str | None = option(None)


@dataclass(frozen=True, kw_only=True)
class PathOptions(SourceOptions):
    """The options of a source that reads one path.

    Attributes:
        path: a file, a folder or a glob (``*``, ``?``, ``[...]``, ``**``); the directory of a stream. It is made
            absolute.
    """

    path: str = option("", is_path=True, required="a file, a folder or a glob, as in .load('mail/')")


@dataclass(frozen=True, kw_only=True)
class FileOptions(PathOptions, PropertyOptions):
    """The options of sources of files.

    Attributes:
        settle_ms: how long a file must have been left alone before its end is taken for the end of its last message;
            None is the format's own.
        pattern: the names of the files that are read in a folder, several patterns separated by commas; None is the
            format's own.
    """

    settle_ms: int | None = option(None, minimum=0)
    pattern: str | None = option(None)


@dataclass(frozen=True, kw_only=True)
class MailOptions(FileOptions):
    """The options of mail in files.

    Attributes:
        source: the property `source`; None: the mailbox's file name without its suffix, or the folder's name.
    """

    source: str | None = option(None)


def rule_of(one: Field[Any]) -> OptionRule:
    """Return the values that a field of a class of options may have."""
    rule: OptionRule = one.metadata.get("rule", _ANY_TEXT)
    return rule


_ANY_TEXT: Final = OptionRule()


def _checked(one: Field[Any], given_name: str, text: str) -> str | int | bool:
    """Return the value of an option that was given as text."""
    rule = rule_of(one)
    if rule.minimum is not None:
        return _number(rule, given_name, text)
    if isinstance(one.default, bool):
        if text.lower() not in ("true", "false"):
            raise AdapterError(f"option {given_name}: expected true or false, not '{text}'")
        return text.lower() == "true"
    if rule.words and text not in rule.words and not (rule.or_number and _is_number(text, 1)):
        raise AdapterError(f"option {given_name}: expected {rule.expected.replace(chr(39), '')}, not '{text}'")
    if rule.is_path and text:
        return os.path.abspath(os.path.expanduser(text.removeprefix("file://")))  # noqa: PTH100, PTH111
    return text


def _number(rule: OptionRule, given_name: str, text: str) -> int:
    minimum = rule.minimum or 0
    if not _is_number(text, minimum):
        raise AdapterError(f"option {given_name}: expected a whole number of at least {minimum}, not '{text}'")
    if rule.maximum is not None and int(text) > rule.maximum:
        raise AdapterError(f"option {given_name}: expected a whole number of at most {rule.maximum}, not '{text}'")
    return int(text)


def _is_number(text: str, minimum: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= minimum


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(known)}"
    return f"unknown option '{name}'; {hint}"
