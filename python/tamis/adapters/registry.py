"""Knows which types of sources there are: those of tamis, and those that other packages add by entry points.

A package adds a type with an entry point whose name is the type and whose value is a subclass of
`tamis.adapters.sources.source.Source`::

    [project.entry-points."tamis.adapters"]
    gopher = "my_package.gopher:GopherSource"
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from tamis.adapters.sources.source import Source
from tamis.errors import AdapterError
from tamis.name_hints import did_you_mean

GROUP: Final = "tamis.adapters"
_HERE: Final = "tamis.adapters.sources"
_OWN: Final = {
    "mbox": f"{_HERE}.mbox:MboxSource",
    "eml": f"{_HERE}.eml:EmlSource",
    "jsonl": f"{_HERE}.jsonl:JsonlSource",
    "journal": f"{_HERE}.journal:JournalSource",
    "csv": f"{_HERE}.csv_rows:CsvSource",
    "text": f"{_HERE}.documents:TextSource",
    "html": f"{_HERE}.documents:HtmlSource",
    "office": f"{_HERE}.office:OfficeSource",
    "feed": f"{_HERE}.live.feed:FeedSource",
    "imap": f"{_HERE}.live.imap:ImapSource",
    "nntp": f"{_HERE}.live.nntp:NntpSource",
    "maildir": f"{_HERE}.live.maildir:MaildirSource",
    "http": f"{_HERE}.live.http:HttpSource",
    "amqp": f"{_HERE}.live.amqp:AmqpSource",
    "amqp_stream": f"{_HERE}.live.amqp_stream:AmqpStreamSource",
    "kafka": f"{_HERE}.live.kafka:KafkaSource",
}
"""Type -> class of the sources of tamis."""


@functools.cache
def _known() -> dict[str, EntryPoint]:
    """Return type -> location of its class. A type of tamis cannot be replaced."""
    own = {name: EntryPoint(name, value, GROUP) for name, value in _OWN.items()}
    return {found.name: found for found in entry_points(group=GROUP)} | own


def source_types() -> list[str]:
    """Return the types that there are: first those of tamis, then those of other packages, by name."""
    return [*_OWN, *sorted(set(_known()) - set(_OWN))]


@functools.cache
def source_class(name: str) -> type[Source]:
    """Return the class of a type of source.

    Raises:
        AdapterError: there is no such type, or the package that has it cannot be used.
    """
    if (found := _known().get(name)) is None:
        raise AdapterError(f"no type '{name}'{did_you_mean(name, _known())}; there are: {', '.join(source_types())}")
    try:
        loaded = found.load()
    except Exception as error:  # another package can fail in any way; the others must work
        raise AdapterError(f"type '{name}': {found.value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Source)) or loaded.type != name:
        raise AdapterError(f"type '{name}': {found.value}: expected a subclass of Source whose type is '{name}'")
    return loaded


def usable_sources() -> list[type[Source]]:
    """Return the class of each type that can be loaded."""
    classes = []
    for name in source_types():
        try:
            classes.append(source_class(name))
        except AdapterError:
            if name in _OWN:
                raise
    return classes
