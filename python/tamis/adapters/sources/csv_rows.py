"""Reads folders of CSV files: each row is a message, and the first row names the properties.

A file is read as a whole, because a line feed may stand within quotes. When it has changed it is read again: a row that
stayed in its place is the same message.

Source: RFC 4180."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from tamis.adapters.json_row import JsonRowOptions, json_row
from tamis.adapters.options import FileOptions, option
from tamis.adapters.rows import Row, digest_of
from tamis.adapters.sources.source import path_text
from tamis.adapters.sources.whole_files import WholeFileSource
from tamis.errors import AdapterError

FIELD_CHARACTERS_MAX: Final = 16 << 20
COLUMNS_MAX: Final = 10_000
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,2})?")
_DELIMITERS: Final = {"tab": "\t"}


@dataclass(frozen=True, kw_only=True)
class CsvOptions(JsonRowOptions, FileOptions):
    """The options of CSV files.

    Attributes:
        delimiter: one character, or ``tab``.
        encoding: the encoding of the files.
        columns: the names of the columns, separated by commas, if the first row does not name them.
    """

    delimiter: str = option(",")
    encoding: str = option("utf-8", words=("utf-8", "windows-1252", "utf-16"))
    columns: str | None = option(None)


class CsvSource(WholeFileSource):
    """The rows of a file, a folder or a glob of CSV files."""

    Options = CsvOptions
    options: CsvOptions
    type: ClassVar[str] = "csv"
    pattern: ClassVar[str] = "*.csv"

    def rows(self, path: str) -> Iterator[Row]:
        """Yield the rows of a file; `offset` is the number of the row, and an empty field is no property."""
        csv.field_size_limit(FIELD_CHARACTERS_MAX)
        encoding = "utf-8-sig" if self.options.encoding == "utf-8" else self.options.encoding
        with open(path, encoding=encoding, errors="replace", newline="") as file:  # noqa: PTH123
            delimiter = _DELIMITERS.get(self.options.delimiter, self.options.delimiter)
            reader = csv.reader(file, delimiter=delimiter)
            names = [name.strip() for name in (self.options.columns or "").split(",") if name.strip()]
            try:
                for number, values in enumerate(reader):
                    if not names:
                        names = [name.strip() for name in values][:COLUMNS_MAX]
                    elif any(values):
                        yield self._row(path, number, names, values)
            except csv.Error as error:
                yield self.dead(path, b"", f"line {reader.line_num}: {error}")
            except UnicodeError as error:  # it does not begin as a file in UTF-16 does; all else is replaced
                yield self.dead(path, b"", f"line 1: {error}")

    def check(self) -> None:
        """Implement `Source.check`, with the delimiter."""
        super().check()
        if len(_DELIMITERS.get(self.options.delimiter, self.options.delimiter)) != 1:
            raise AdapterError(f"delimiter: expected one character, or tab, not '{self.options.delimiter}'")

    def _row(self, path: str, number: int, names: list[str], values: list[str]) -> Row:
        place, topic = path_text(path), self.options.topic
        if len(values) > len(names):
            raw = json.dumps(values, ensure_ascii=False).encode()
            reason = f"row {number + 1} has {len(values)} fields, more than the {len(names)} columns"
            return Row(place, number, digest_of(raw), topic, error=reason, raw=raw)
        members = {name: _value(text) for name, text in zip(names, values, strict=False) if name and text}
        content = json.dumps(members, ensure_ascii=False).encode()
        return json_row(content, place, number, topic, self.options, self.signature_stop_words)


def _value(text: str) -> str | int | float:
    """Return a field as a number if it is written as one, else as text; ``007`` stays text."""
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("-").isdigit() else float(text)
