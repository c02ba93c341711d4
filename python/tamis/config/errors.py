"""Describes the errors of a TOML file that pydantic checks: file, line and what was expected.

Every configuration file uses this; each defines its own sections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis import text_file
from tamis.config.toml_lines import TomlLocation
from tamis.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SIZE_BYTES_MAX = 1024 * 1024
"""Maximum size of a configuration file."""


class MistakeError(ValueError):
    """An error in a value below the one that the validator checks."""

    def __init__(self, below: TomlLocation, message: str) -> None:
        super().__init__(message)
        self.below = below


def read_text(path: Path) -> str:
    """Read the text of a configuration file.

    Raises:
        ConfigError: it is missing, cannot be read, is too large or is not UTF-8.
    """
    return text_file.read_text(path, SIZE_BYTES_MAX, "the configuration")


def parse(path: Path, text: str) -> dict[str, Any]:
    """Parse a TOML text into its tables.

    Raises:
        ConfigError: it is not TOML; the text has line and column.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, position = str(error).partition(" (at ")
        numbers = re.match(r"line (\d+), column (\d+)", position)
        where = f"line {numbers[1]}, column {numbers[2]}" if numbers else "at its end"
        raise ConfigError(f"{path}, {where}: not TOML: {what[:1].lower()}{what[1:]}") from error


def place_in_file(path: Path, lines: Mapping[TomlLocation, int], location: TomlLocation) -> str:
    """``path, line 3``, with the line of the value at `location` or of the nearest table around it."""
    line = line_of(lines, location)
    return f"{path}, line {line}" if line else f"{path}"


def line_of(lines: Mapping[TomlLocation, int], location: TomlLocation) -> int:
    """Return the line of the value at `location`, or of the nearest table around it; 0 if there is none."""
    return next((lines[location[:end]] for end in range(len(location), 0, -1) if location[:end] in lines), 0)


_EXPECTED = {
    "string_type": "text",
    "path_type": "a path as text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dataclass_type": "a table",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "string_too_short": "some text",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least one value",
    "literal_error": "{expected}",
}


def expected(details: ErrorDetails, patterns: Mapping[str, str]) -> str:
    """``expected ...`` in words for an error of pydantic.

    Args:
        details: the error.
        patterns: regular expression of a field -> its meaning in words.
    """
    kind, context = details["type"], {name: _plain(value) for name, value in details.get("ctx", {}).items()}
    if kind == "string_pattern_mismatch":
        return f"expected {patterns[context['pattern']]}"
    if kind in _EXPECTED:
        return "expected " + _EXPECTED[kind].format(**context)
    return details["msg"][:1].lower() + details["msg"][1:]


def is_echo(details: ErrorDetails) -> bool:
    """Return whether pydantic only repeats a bad value, saying that the list is too short without it."""
    return details["type"] == "too_short" and bool(details["input"])


def _plain(value: Any) -> Any:
    """Show 2.0 as 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
