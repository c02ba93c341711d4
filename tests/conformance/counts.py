"""Counts the conformance cases and prints the counts after the run, with those of pytest-xdist's workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

COUNTS = pytest.StashKey[dict[str, Counter[str]]]()


class FromWorkers:
    """Receives the counts of workers."""

    def pytest_testnodedown(self, node: Any) -> None:
        for file, numbers in getattr(node, "workeroutput", {}).get("conformance", {}).items():
            node.config.stash[COUNTS][file] = Counter(numbers)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTS] = {}
    if config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workeroutput"):
        config.pluginmanager.register(FromWorkers())


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        counts = session.config.stash[COUNTS]
        session.config.workeroutput["conformance"] = {file: dict(numbers) for file, numbers in counts.items()}


@pytest.fixture
def count(pytestconfig: pytest.Config):  # type: ignore[no-untyped-def]
    """Return a function that counts the cases of a file that ran, and those skipped for each reason."""

    def note(file: str, ran: int, skipped: Counter[str]) -> None:
        pytestconfig.stash[COUNTS][file] = Counter({"": ran}) + skipped

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash.get(COUNTS, {})
    if not counts:
        return
    terminalreporter.section("conformance cases")
    for file, reasons in sorted(counts.items()):
        terminalreporter.line(f"{reasons['']:5} run, {reasons.total() - reasons['']:4} skipped  {file}")
        for reason, number in reasons.items():
            if reason:
                terminalreporter.line(f"{number:16}: {reason}")
