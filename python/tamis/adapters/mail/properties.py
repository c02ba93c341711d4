"""The properties of mail and news: the one table of their names, kinds and labels."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class MailProperty(NamedTuple):
    """A property that every mail has, if only as null.

    Attributes:
        name: as queries, Spark and the XML document name it.
        kind: ``text``, ``time`` (UTC), ``texts`` (a list), or ``headers`` (name -> values).
        label: before its value where a person reads; empty where it is not shown.
    """

    name: str
    kind: Literal["text", "time", "texts", "headers"]
    label: str = ""


MAIL_PROPERTIES: Final = (
    MailProperty("author", "text", "Author"),
    MailProperty("date", "time", "Date"),
    MailProperty("subject", "text", "Subject"),
    MailProperty("source", "text", "Source"),
    MailProperty("newsgroup", "texts", "Newsgroup"),
    MailProperty("list", "text", "List"),
    MailProperty("message_id", "text", "Message-ID"),
    MailProperty("header", "headers"),
)
