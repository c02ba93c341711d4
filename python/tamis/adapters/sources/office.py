"""Reads folders of PDF and Office documents: each file is one message, whose body is its text.

The package that reads them is in the extra `office`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tamis.adapters.options import FileOptions, option
from tamis.adapters.properties import Property
from tamis.adapters.rows import Row
from tamis.adapters.sources.documents import DOCUMENT_PROPERTIES, document_row
from tamis.adapters.sources.office_reader import MIME_TYPES, OfficeReader
from tamis.adapters.sources.source import Slice
from tamis.adapters.sources.whole_files import WholeFileSource
from tamis.errors import AdapterError


@dataclass(frozen=True, kw_only=True)
class OfficeOptions(FileOptions):
    """The options of PDF and Office documents.

    Attributes:
        timeout_s: maximum time for one document.
    """

    timeout_s: int = option(30, minimum=1, maximum=3_600)


class OfficeSource(WholeFileSource):
    """The documents of a folder and the folders below it, of a glob, or one file."""

    Options = OfficeOptions
    options: OfficeOptions
    type: ClassVar[str] = "office"
    pattern: ClassVar[str] = ",".join(f"*{suffix}" for suffix in MIME_TYPES)
    properties = (Property("author", "text", "Author"), *DOCUMENT_PROPERTIES)

    def __init__(self, options: OfficeOptions) -> None:
        super().__init__(options)
        self._reader = OfficeReader(options.timeout_s)

    def check(self) -> None:
        """Implement `Source.check`, and that the package is there."""
        super().check()
        if importlib.util.find_spec("kreuzberg") is None:
            raise AdapterError("documents need the package kreuzberg: pip install 'tamis[office]'")

    def read(self, part: Slice) -> Iterator[Row]:
        """Implement `Source.read`."""
        try:
            yield from super().read(part)
        finally:
            self._reader.close()

    def rows(self, path: str) -> Iterator[Row]:
        """Yield the one row of a file. Its identity is a digest of its bytes."""
        raw = self.whole(path)
        if isinstance(raw, Row):
            yield raw
            return
        found = self._reader.read(os.path.basename(path), raw)  # noqa: PTH119
        if "error" in found:
            yield self.dead(path, raw, found["error"])
        else:
            known = {"author": found["author"], "subject": found["title"]}
            yield document_row(self, path, raw, known, found["text"])
