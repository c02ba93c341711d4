"""Names where a store is: a file, or a database of a PostgreSQL server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tamis.errors import StoreError

_SCHEMES = ("postgresql", "postgres")


class PasswordInUrlError(StoreError):
    """The URL of a store has a password, which must not stand in a file or in the list of processes."""


@dataclass(frozen=True)
class ServerUrl:
    """The URL of a database of a PostgreSQL server, without a password.

    The password comes as it does for every program of PostgreSQL: from ``PGPASSWORD``, or from the file that
    ``PGPASSFILE`` names, by default ``~/.pgpass``.
    """

    text: str

    def __str__(self) -> str:
        """Return the URL."""
        return self.text


Place = Path | ServerUrl
"""The address of a store."""


def place_of(path_or_url: str | Path | ServerUrl) -> Place:
    """Return the address of the store that a path, ``sqlite:///path`` or ``postgresql://user@host:port/db`` names.

    Raises:
        StoreError: the URL names another kind of database.
        PasswordInUrlError: the URL has a password.
    """
    if isinstance(path_or_url, ServerUrl):
        return path_or_url
    text = os.fspath(path_or_url)
    scheme, separator, location = text.partition("://")
    if not separator:
        return Path(text)
    if scheme in _SCHEMES:
        return _server(text)
    if scheme != "sqlite" or not location.startswith("/") or len(location) < 2:
        raise StoreError(f"{text}: expected a path, sqlite:///path, or postgresql://user@host:port/database")
    return Path(location[1:])


def exists(place: Place) -> bool:
    """Return whether a store may exist: a file must be there; a server is not asked."""
    return isinstance(place, ServerUrl) or place.exists()


def is_same(one: Place, other: Place) -> bool:
    """Return whether two names lead to one store."""
    if isinstance(one, Path) and isinstance(other, Path):
        return one.resolve() == other.resolve()
    return one == other


def _server(text: str) -> ServerUrl:
    try:
        parts = urlsplit(text)
        password, name = parts.password, parts.path.strip("/")
    except ValueError as error:
        raise StoreError(f"expected postgresql://user@host:port/database: {error}") from error
    if password is not None or "password=" in parts.query:
        raise PasswordInUrlError(
            "the URL of the store has a password: leave it out, and give it in PGPASSWORD or in ~/.pgpass, as to every "
            "program of PostgreSQL"
        )
    if not name:
        raise StoreError(f"{text}: no database is named; expected postgresql://user@host:port/database")
    return ServerUrl(text)
