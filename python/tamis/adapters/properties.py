"""The properties of messages from sources that know them: the one table of their names, kinds and labels."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


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
