"""Fixtures for all fault tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.amqp import close_clients


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    """Close all clients, also after a test that fails."""
    yield
    close_clients()
