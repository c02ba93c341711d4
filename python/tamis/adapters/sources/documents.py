"""Reads folders of text and HTML files: each file is one message, whose body is its text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from typing import ClassVar, Final

from tamis.adapters.mail.charset import decode_bytes
from tamis.adapters.mail.html import html_to_text
from tamis.adapters.properties import Property
from tamis.adapters.rows import Row, digest_of, document_of, signature_of, topic_of, with_names
from tamis.adapters.sources.source import path_text
from tamis.adapters.sources.whole_files import WholeFileSource

DOCUMENT_PROPERTIES: Final = (
    Property("subject", "text", "Subject"),
    Property("date", "time", "Date"),
    Property("source", "text", "Source"),
    Property("file", "text", "File"),
)
"""The properties of a text or HTML file: its title, when it was last written, its folder, and its name."""

_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,2000})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_HEAD_BYTES: Final = 4_096


def document_row(source: WholeFileSource, path: str, raw: bytes, known: dict[str, str | None], body: str) -> Row:
    """Return the row of a document. Its identity is a digest of its bytes: moved or renamed, it is the same message.

    Args:
        source: what reads it.
        path: the file.
        raw: its bytes.
        known: the properties that the document has itself.
        body: its text.
    """
    properties = known | {
        "date": datetime.fromtimestamp(os.stat(path).st_mtime, UTC),  # noqa: PTH116
        "source": path_text(os.path.basename(os.path.dirname(path))),  # noqa: PTH119, PTH120
        "file": path_text(os.path.basename(path)),  # noqa: PTH119
    }
    digest, signature = digest_of(raw), signature_of(body, source.signature_stop_words)
    topic = topic_of(properties, source.options.topic_field, source.options.topic)
    properties = with_names(properties, source.options.fields)
    xml = document_of(properties, body, source.options.xml)
    return Row(path_text(path), 0, digest, topic, properties, body, xml, signature, identity=digest)


class TextSource(WholeFileSource):
    """The text files of a folder and the folders below it, of a glob, or one file."""

    type: ClassVar[str] = "text"
    pattern: ClassVar[str] = "*.txt"
    properties = DOCUMENT_PROPERTIES

    def rows(self, path: str) -> Iterator[Row]:
        """Yield the one row of a file."""
        raw = self.whole(path)
        if isinstance(raw, Row):
            yield raw
            return
        title, body = self.read_document(raw)
        yield document_row(self, path, raw, {"subject": title}, body)

    def read_document(self, raw: bytes) -> tuple[str | None, str]:
        """Return the title and the text of a document; a text file has its first line as title."""
        text = _text(raw, None)
        first = next((line.strip() for line in text.splitlines() if line.strip()), None)
        return first and first[:200], text


class HtmlSource(TextSource):
    """The HTML files of a folder and the folders below it, of a glob, or one file."""

    type: ClassVar[str] = "html"
    pattern: ClassVar[str] = "*.htm*"

    def read_document(self, raw: bytes) -> tuple[str | None, str]:
        """Return the title and the text of a page, in the character set that it names."""
        named = _META.search(raw[:_HEAD_BYTES])
        html = _text(raw, named[1].decode("ascii") if named else None)
        title = _TITLE.search(html)
        return (" ".join(unescape(title[1]).split()) or None) if title else None, html_to_text(html)


def _text(raw: bytes, charset: str | None) -> str:
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace").replace("\r\n", "\n")
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    return decode_bytes(raw, charset, html=charset is not None).replace("\r\n", "\n")
