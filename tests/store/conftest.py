"""Fixtures for the tests of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open an empty store."""
    with Store.open(tmp_path / "tamis.sqlite") as store:
        yield store
