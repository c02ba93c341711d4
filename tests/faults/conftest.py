"""What fault tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.amqp import close_clients


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    """A test that fails leaves no sockets behind."""
    yield
    close_clients()
