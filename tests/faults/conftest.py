"""Fixtures for all fault tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.amqp import close_clients
from tests.faults.promises import LONG, below


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    """Close all clients, also after a test that fails."""
    yield
    close_clients()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the long form did less often than is promised."""
    if LONG and (lines := below()):
        terminalreporter.section("less than promised")
        for line in lines:
            terminalreporter.write_line(line)
