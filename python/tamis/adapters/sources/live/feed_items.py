"""Reads the items of an RSS, Atom or JSON feed as JSON objects; a broken feed is read as far as it goes.

Source: RFC 4287 (Atom), https://www.rssboard.org/rss-specification, https://www.jsonfeed.org/version/1.1/."""

from __future__ import annotations

import json
import re
import xml.parsers.expat
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from tamis.adapters.mail.html import html_to_text
from tamis.adapters.properties import Property
from tamis.adapters.rows import digest_of
from tamis.adapters.sources.live.source import LookError
from tamis.errors import AdapterError

FEED_PROPERTIES: Final = (
    Property("author", "text", "Author"),
    Property("date", "time", "Date"),
    Property("updated", "time"),
    Property("subject", "text", "Subject"),
    Property("source", "text", "Source"),
    Property("category", "texts", "Category"),
    Property("link", "text", "Link"),
    Property("feed", "text"),
    Property("message_id", "text"),
)
"""The properties of an item of a feed."""

ITEMS_MAX: Final = 10_000
TEXT_MAX: Final = 1 << 20
_ENTITY = re.compile(rb"<!ENTITY", re.IGNORECASE)
_GLOBAL_ID = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def feed_items(content: bytes, url: str, feed: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key and the members of each item of a feed, in the order of the feed.

    The members are those of `FEED_PROPERTIES`, with times as text, and ``body``. The key names the item: its guid or
    id, else its link, else a digest of its text. An id that is not an address is one of its feed's host.

    Args:
        content: the feed.
        url: where it was fetched, for relative links.
        feed: its address before it moved; None: the same.

    Raises:
        LookError: it is not a feed.
        AdapterError: a package is not installed.

    Cost: 1 ms for a well-formed feed of 20 items, 100 ms for a broken one.
    """
    parsed = _parse(content, url)
    title = _plain(_of(parsed, "feed", {}), "title") or urlsplit(url).hostname
    host = urlsplit(feed or url).hostname or ""
    for entry in list(_of(parsed, "entries", []))[:ITEMS_MAX]:
        item = _item(entry, url, title)
        own = item["message_id"] or item["link"]
        named = own if own and _GLOBAL_ID.match(own) else [host, own or f"{item['subject']}\n{item['body']}"]
        yield digest_of(json.dumps(["feed", named], ensure_ascii=False).encode("utf-8", "replace")), item


def _parse(content: bytes, url: str) -> Any:
    try:
        import fastfeedparser
        import feedparser
    except ImportError as error:
        raise AdapterError(f"expected the package {error.name}; pip install 'tamis[adapters]'") from error
    if _ENTITY.search(content):
        raise LookError(f"{url}: expected a feed without entities of its own; it defines some")
    if _is_well_formed(content):
        try:
            return fastfeedparser.parse(content)
        except Exception:  # noqa: BLE001, S110 - it raises many kinds; the other parser reads more, and has the last word
            pass
    parsed = feedparser.parse(content, sanitize_html=False, resolve_relative_uris=False)
    if not parsed.get("version") and not parsed.get("entries"):
        begin = content[:60].decode("utf-8", "replace").strip()
        raise LookError(f"{url}: expected an RSS, Atom or JSON feed; found '{begin}'")
    return parsed


def _is_well_formed(content: bytes) -> bool:
    if content.lstrip()[:1] == b"{":
        return True
    try:
        xml.parsers.expat.ParserCreate().Parse(content.removeprefix(b"\xef\xbb\xbf").lstrip(), True)
    except (xml.parsers.expat.ExpatError, ValueError, LookupError):
        return False
    return True


def _item(entry: Any, url: str, title: str | None) -> dict[str, Any]:
    published, updated = _time(_of(entry, "published")), _time(_of(entry, "updated"))
    link = _plain(entry, "link")
    terms = [_of(tag, "term") for tag in _of(entry, "tags", []) or []]
    return {
        "author": _plain(entry, "author"),
        "date": published or updated,
        "updated": updated,
        "subject": _text(_of(entry, "title")),
        "source": title,
        "category": [str(term) for term in terms if term] or None,
        "link": _joined(url, link) if link else None,
        "feed": url,
        "message_id": _plain(entry, "id"),
        "body": _body(entry),
    }


def _joined(url: str, link: str) -> str:
    try:
        return urljoin(url, link)
    except ValueError:  # it is no address, such as http://[broken
        return link


def _body(entry: Any) -> str | None:
    """Return the content, else the summary, as text."""
    for part in _of(entry, "content", []) or []:
        value = _of(part, "value")
        if isinstance(value, str) and value.strip():
            return value[:TEXT_MAX] if _of(part, "type") == "text/plain" else _text(value)
    return _text(_of(entry, "summary") or _of(entry, "description"))


def _text(value: Any) -> str | None:
    """Return the text of a value that may be HTML."""
    if not isinstance(value, str) or not value.strip():
        return None
    value = value[:TEXT_MAX]
    return html_to_text(value) if "<" in value or "&" in value else value.strip()


def _plain(entry: Any, name: str) -> str | None:
    value = _of(entry, name)
    return value.strip()[:TEXT_MAX] or None if isinstance(value, str) else None


def _of(mapping: Any, name: str, default: Any = None) -> Any:
    value = dict.get(mapping, name) if isinstance(mapping, dict) else None  # feedparser's own `get` guesses
    return default if value is None else value


def _time(text: Any) -> str | None:
    """Return a time in UTC, as RFC 3339 writes it; None if it cannot be read."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        from email.utils import parsedate_to_datetime

        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    try:
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None
    return moment.isoformat()
