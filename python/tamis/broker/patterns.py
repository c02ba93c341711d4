"""Regular expressions of permissions: anchored at both ends, of linear time, with the user's name put in escaped."""

from __future__ import annotations

from functools import lru_cache

from tamis.errors import QueryError
from tamis.query import Query, regex

COMPILED_MAX = 1024
"""So many compiled expressions are kept; the one longest unused makes room."""
LENGTH_MAX = 1000


def check_pattern(pattern: str) -> None:
    """Do nothing when `pattern` can be used.

    Raises:
        QueryError: it is too long, is none, or none that takes linear time.
    """
    if len(pattern) > LENGTH_MAX:
        raise QueryError(pattern, LENGTH_MAX, f"at most {LENGTH_MAX} characters")
    filled = _filled(pattern, "user", "vhost")
    regex(filled)  # by itself first: no parenthesis may reach out of the anchors
    _anchored(filled)


def is_match(pattern: str, text: str, user: str, vhost: str) -> bool:
    """Whether `pattern` matches the whole of `text`. ``{username}`` and ``{vhost}`` in it stand for just these texts.

    Cost: linear in `text`; well under 1 us for a name.
    """
    if pattern == ".*":
        return True
    return bool(pattern) and _anchored(_filled(pattern, user, vhost)).evaluate({}, topic=text) is True


@lru_cache(maxsize=COMPILED_MAX)
def _anchored(pattern: str) -> Query:
    return regex(rf"\A(?s:{pattern})\z", on="topic")


def _filled(pattern: str, user: str, vhost: str) -> str:
    """With the names put in, as text and not as expressions: a user named ``.*`` reaches nothing more by it."""
    if "{" not in pattern:
        return pattern
    return pattern.replace("{username}", _escaped(user)).replace("{vhost}", _escaped(vhost))


def _escaped(text: str) -> str:
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)
