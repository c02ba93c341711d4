"""Reads lists of stop words: the English one that is built in, lists in a configuration, and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tamis.errors import ConfigError, expect_text
from tamis.name_hints import did_you_mean

# The 33 words of Lucene's EnglishAnalyzer. Longer lists drop words that people ask for ("new", "million", "help").
ENGLISH = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
_NAMED = {"english": ENGLISH, "none": frozenset[str]()}


def stop_words(wanted: str | Iterable[str]) -> frozenset[str]:
    """Return the stop words that a source's configuration asks for.

    Args:
        wanted: ``english``, ``none``, words separated by commas, ``@path`` of a file with one word per line (``#``
            begins a comment), or an iterable of words. A list of one word ends with a comma: ``the,``.

    Raises:
        ConfigError: there is no list of that name, or the file cannot be read.
        TypeError: `wanted` is neither text nor words.

    >>> sorted(stop_words("the, a"))
    ['a', 'the']
    """
    if not isinstance(wanted, str):
        return frozenset(_words(wanted))
    name = wanted.strip()
    if name.lower() in _NAMED:
        return _NAMED[name.lower()]
    if name.startswith("@"):
        return _from_file(Path(name[1:]))
    if "," not in name:
        hint = did_you_mean(name.lower(), _NAMED)
        known = "expected english, none, words separated by commas, or @file"
        raise ConfigError(f"no stop words are known by the name '{name}'{hint}; {known}")
    return frozenset(word for word in (part.strip() for part in name.split(",")) if word)


def _words(wanted: Iterable[str]) -> list[str]:
    if not isinstance(wanted, Iterable):
        raise TypeError(f"wanted: expected text or words, not {type(wanted).__name__}")
    return [expect_text(word, "wanted: a word") for word in wanted]


def _from_file(path: Path) -> frozenset[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a file of stop words, one per line ({error})") from error
    return frozenset(word for word in (line.partition("#")[0].strip() for line in lines) if word)
