"""The channel ``feed``: keeps an Atom feed per query, a file that a web server hands out and feed readers follow.

Each notification is an entry, named by the notification's id. So delivering again after a crash replaces an entry by
the same entry.

Source: RFC 4287 (Atom)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from tamis.config.deliveries import FeedDelivery
from tamis.notify.channels.channel import ChannelError, Sent
from tamis.notify.channels.files import explain, make_folder, sync_folder, write_whole
from tamis.notify.mail import NOT_IN_TEXT, notification_text, subject
from tamis.store import DueDelivery, NotificationRecord

ATOM = "http://www.w3.org/2005/Atom"
LINK_PROPERTIES = ("link", "url")
"""The properties in which messages of feeds and of the web have their address, the first one first."""

_NAME_CHARACTERS = 150
ElementTree.register_namespace("", ATOM)


class DamagedFeedError(Exception):
    """A file is no feed of ours; the feeds of other queries can be written."""


class FeedChannel:
    """Writes files ``<query>.atom`` into a folder, which it creates."""

    batch_count = 500

    def __init__(self, config: FeedDelivery) -> None:
        """Make the channel; no file is touched yet."""
        self._config, self._folder = config, config.folder

    def open(self) -> None:
        """Create the folder.

        Raises:
            ChannelError: it cannot be created.
        """
        make_folder(self._folder)

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Add an entry for each to the feed of its query. Cost: one file per query, written whole and synced.

        Raises:
            ChannelError: a file cannot be read or written.
        """
        failures: dict[int, str] = {}
        entries: dict[str, dict[int, ElementTree.Element]] = {}
        for delivery in due:
            record = delivery.notification
            try:
                entries.setdefault(record.query_key, {})[delivery.delivery_id] = _entry(record)
            except Exception as error:  # noqa: BLE001 - one message must not stop the others
                failures[delivery.delivery_id] = f"cannot be written as an entry of a feed: {error}"
        for query, new in entries.items():
            try:
                self._add(query, {_text(entry, "id"): entry for entry in new.values()})
            except DamagedFeedError as error:
                failures |= dict.fromkeys(new, str(error))
        return Sent(failures)

    def interrupt(self) -> None:
        """Do nothing: nothing here waits."""

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _add(self, query: str, new: dict[str, ElementTree.Element]) -> None:
        path = self._folder / file_name(query)
        try:
            entries = {**_read(path), **new}
            newest = sorted(entries.values(), key=_updated, reverse=True)[: self._config.entries_max]
            write_whole(path, _feed(query, self._config.domain, newest))
            sync_folder(self._folder)
        except OSError as error:
            raise ChannelError(explain(path, error)) from error


def file_name(query: str) -> str:
    """Return the name of a query's feed: its key as in a URL; a long one is cut and ends with a digest.

    >>> file_name("price/EU")
    'price%2FEU.atom'
    """
    name = quote(query, safe=" ")
    if len(name) > _NAME_CHARACTERS or name.startswith("."):
        name = (
            f"{name[:_NAME_CHARACTERS].lstrip('.')}-{hashlib.sha256(query.encode(errors='replace')).hexdigest()[:16]}"
        )
    return f"{name}.atom"


def _read(path: Path) -> dict[str, ElementTree.Element]:
    """Return the entries of a feed by their ids.

    Raises:
        DamagedFeedError: the file is no feed of ours.
    """
    if not path.exists():
        return {}
    try:
        entries = ElementTree.parse(path).getroot().findall(f"{{{ATOM}}}entry")  # noqa: S314 - a file that we wrote
        return {_text(entry, "id"): entry for entry in entries}
    except (ElementTree.ParseError, AttributeError) as error:
        raise DamagedFeedError(f"{path}: expected a feed of tamis ({error}); move the file away") from error


def _feed(query: str, domain: str, entries: Sequence[ElementTree.Element]) -> bytes:
    feed = ElementTree.Element(f"{{{ATOM}}}feed")
    _add_text(feed, "id", f"tag:{domain},2026:query:{quote(query, safe='')}")
    _add_text(feed, "title", f"tamis: {query}")
    _add_text(feed, "updated", _updated(entries[0]))
    _add_text(ElementTree.SubElement(feed, f"{{{ATOM}}}author"), "name", "tamis")
    feed.extend(entries)
    ElementTree.indent(feed)
    return str(ElementTree.tostring(feed, encoding="unicode")).encode()  # XML is UTF-8 unless it says otherwise


def _entry(record: NotificationRecord) -> ElementTree.Element:
    entry = ElementTree.Element(f"{{{ATOM}}}entry")
    _add_text(entry, "id", _id_of(record))
    _add_text(entry, "title", subject(record))
    _add_text(entry, "updated", _written(record.created_at))
    if address := _address(record):
        ElementTree.SubElement(entry, f"{{{ATOM}}}link", href=address)
    _add_text(entry, "content", "\n".join(notification_text(record))).set("type", "text")
    return entry


def _id_of(record: NotificationRecord) -> str:
    return f"urn:tamis:notification:{record.id}"


def _address(record: NotificationRecord) -> str | None:
    properties = record.message_properties()
    for name in LINK_PROPERTIES:
        value = properties.get(name)
        if isinstance(value, str) and not NOT_IN_TEXT.search(value) and _is_web_address(value):
            return value
    return None


def _is_web_address(text: str) -> bool:
    try:
        return urlsplit(text).scheme in ("http", "https")
    except ValueError:  # such as http://[broken
        return False


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _updated(entry: ElementTree.Element) -> str:
    return _text(entry, "updated")


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{{ATOM}}}{name}") or ""


def _add_text(parent: ElementTree.Element, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, f"{{{ATOM}}}{name}")
    element.text = NOT_IN_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    return element
