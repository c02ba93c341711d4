"""Regular expressions of permissions: anchored at both ends, of linear time, with the user's name inserted escaped."""

from __future__ import annotations

from functools import lru_cache

from tamis.errors import QueryError
from tamis.query import Query, regex

COMPILED_MAX = 1024
"""Maximum number of compiled expressions in the cache."""
LENGTH_MAX = 1000


def check_pattern(pattern: str) -> None:
    """Check that `pattern` can be used.

    Raises:
        QueryError: it is too long, is no regular expression, or cannot be matched in linear time.
    """
    if len(pattern) > LENGTH_MAX:
        raise QueryError(pattern, LENGTH_MAX, f"at most {LENGTH_MAX} characters")
    filled = _filled(pattern, "user", "vhost")
    regex(filled)  # first without the anchors: its parentheses must be balanced by themselves
    _anchored(filled)


def is_match(pattern: str, text: str, user: str, vhost: str) -> bool:
    """Return whether `pattern` matches all of `text`. ``{username}`` and ``{vhost}`` in it stand for these names.

    Cost: linear in `text`; well under 1 us for a name.
    """
    if pattern == ".*":
        return True
    return bool(pattern) and _anchored(_filled(pattern, user, vhost)).evaluate({}, topic=text) is True


@lru_cache(maxsize=COMPILED_MAX)
def _anchored(pattern: str) -> Query:
    return regex(rf"\A(?s:{pattern})\z", on="topic")


def _filled(pattern: str, user: str, vhost: str) -> str:
    """Insert the names as literal text, not as expressions: the name ``.*`` gives a user nothing more."""
    if "{" not in pattern:
        return pattern
    return pattern.replace("{username}", _escaped(user)).replace("{vhost}", _escaped(vhost))


def _escaped(text: str) -> str:
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)
