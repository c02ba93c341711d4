"""Reads mail from mbox files, which hold many messages and grow at their end.

The dialect is mboxrd: a line that begins with ``From `` begins a message. Such a line inside a message is written with
a ``>`` before it, as is one that already begins with some. A message that is being appended is not cut: the last one in
a file is read when another follows, or when the file has not changed for a second.

Source: https://www.loc.gov/preservation/digital/formats/fdd/fdd000385.shtml (mboxrd)."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from typing import ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.rows import Row, digest_of, too_large
from tamis.adapters.sources.files import MailSource
from tamis.adapters.sources.records import Record, RecordSource
from tamis.adapters.sources.source import path_text

_FROM: Final = b"From "
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)


class MboxSource(MailSource, RecordSource):
    """The messages of a file, a folder or a glob of mbox files."""

    type: ClassVar[str] = "mbox"
    pattern: ClassVar[str] = "*"
    settle_ms: ClassVar[int] = 1_000
    separator: ClassVar[bytes] = b"\n" + _FROM

    def row(self, piece: Record, path: str) -> Row | None:
        """Return the row of one message with its ``From `` line; a dead letter for text without such a line."""
        if not piece.is_whole:
            return self._dead(piece, path, too_large(piece.size_bytes, MESSAGE_BYTES_MAX))
        content = piece.content.removeprefix(BOM_UTF8)
        if content.startswith(_FROM):
            source = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122 - once per message
            return self.mail_row(unescape(content), path, piece.offset, source)
        if not piece.content.strip():
            return None
        return self._dead(
            piece, path, "no 'From ' line before the text: it is not an mbox, or continues an earlier message"
        )

    def _dead(self, piece: Record, path: str, reason: str) -> Row:
        digest = digest_of(piece.content)
        return Row(path_text(path), piece.offset, digest, self.options.topic, error=reason, raw=piece.content)


def unescape(content: bytes) -> bytes:
    """Return the message as it was before it was stored in an mbox.

    Args:
        content: the message with its ``From `` line and the empty line after it.
    """
    message = content.partition(b"\n")[2]
    if message.endswith(b"\n\n"):
        message = message[:-1]
    elif message.endswith(b"\n\r\n"):
        message = message[:-2]
    return _ESCAPED.sub(rb"\1", message)
