"""The properties of messages from sources that know them: the one table of their names, kinds and labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from tamis.errors import AdapterError


class Property(NamedTuple):
    """A property that every message of a source has, if only as null.

    Attributes:
        name: its name in queries, in Spark and in the XML document.
        kind: ``text``, ``time`` (UTC), ``texts`` (a list), or ``headers`` (name -> values).
        label: before its value where a person reads; empty where it is not shown.
    """

    name: str
    kind: Literal["text", "time", "texts", "headers"]
    label: str = ""


MAIL_PROPERTIES: Final = (
    Property("author", "text", "Author"),
    Property("date", "time", "Date"),
    Property("subject", "text", "Subject"),
    Property("source", "text", "Source"),
    Property("newsgroup", "texts", "Newsgroup"),
    Property("list", "text", "List"),
    Property("message_id", "text", "Message-ID"),
    Property("header", "headers"),
)


def check_topic_field(table: tuple[Property, ...], named: str | None) -> None:
    """Check that the option `topic_field` names a property that may be text.

    Raises:
        AdapterError: it does not.
    """
    texts = [known.name for known in table if known.kind in ("text", "texts")]
    if named is not None and named not in texts and not _is_header(table, named):
        raise AdapterError(f"topic_field: expected one of {_choice(table, texts)}, not '{named}'")


def with_further_names(table: tuple[Property, ...], names: Iterable[tuple[str, str]]) -> tuple[Property, ...]:
    """Return a table with the properties of the option `fields`: copies of others, and texts of headers.

    Args:
        table: the properties of the source.
        names: (new, old) pairs.

    Raises:
        AdapterError: there is no such old name, or the new one cannot be one.
    """
    kinds = {known.name: known.kind for known in table if known.kind != "headers"}
    further: list[Property] = []
    for new, old in names:
        if old not in kinds and not _is_header(table, old):
            raise AdapterError(f"fields: expected {new}= and one of {_choice(table, kinds)}, not '{old}'")
        if "." in new or any(known.name == new for known in (*table, *further)):
            raise AdapterError(f"fields: expected a name without a dot that no property has, not '{new}'")
        further.append(Property(new, kinds.get(old, "text")))
    return (*table, *further)


def _is_header(table: tuple[Property, ...], named: str) -> bool:
    of, _, header = named.partition(".")
    return bool(header) and any((known.name, known.kind) == (of, "headers") for known in table)


def _choice(table: tuple[Property, ...], names: Iterable[str]) -> str:
    return ", ".join([*names, *(f"{known.name}.NAME" for known in table if known.kind == "headers")])
