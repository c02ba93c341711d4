"""Reads mail and news from folders in which each file is one message."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import ClassVar

from tamis.adapters.rows import Row
from tamis.adapters.sources.files import MailSource
from tamis.adapters.sources.whole_files import WholeFileSource


class EmlSource(MailSource, WholeFileSource):
    """The messages of a folder and the folders below it, of a glob, or of one file."""

    type: ClassVar[str] = "eml"
    pattern: ClassVar[str] = "*.eml"

    def rows(self, path: str) -> Iterator[Row]:
        """Yield the one row of a file."""
        raw = self.whole(path)
        if isinstance(raw, Row):
            yield raw
        else:
            yield self.mail_row(raw, path, 0, os.path.basename(os.path.dirname(path)))  # noqa: PTH119, PTH120
