"""Counts of the conformance cases, printed after the run."""

from __future__ import annotations

from collections import Counter

import pytest

COUNTS = pytest.StashKey[dict[str, Counter[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTS] = {}


@pytest.fixture
def count(pytestconfig: pytest.Config):  # type: ignore[no-untyped-def]
    """A function that notes how many cases of a file ran, and how many were skipped for each reason."""

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
