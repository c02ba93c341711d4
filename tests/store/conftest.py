"""Fixtures for the tests of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis.store import Store


@pytest.fixture(params=["sqlite", "postgres"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    """Open an empty store: a file, and a database of a server."""
    place = tmp_path / "tamis.sqlite"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").new_database()
    with Store.open(place) as store:
        yield store
