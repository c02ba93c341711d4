"""Fixtures for the tests of deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tamis.store import NotificationRecord, Store


class Clock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.time = datetime.now(UTC) + timedelta(minutes=5)  # what a test has filled is due, however busy the machine

    def __call__(self) -> datetime:
        return self.time

    def move(self, seconds: float) -> None:
        """Let this time pass."""
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    """Return a clock for an engine."""
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open an empty store."""
    with Store.open(tmp_path / "tamis.sqlite") as store:
        yield store


@pytest.fixture
def record() -> NotificationRecord:
    """Return a notification about garlic and frost."""
    return NotificationRecord(
        seq=1,
        id="0" * 31 + "1",
        query_key="frost",
        query_version=2,
        query_text="NEAR(body, 'garlic', 'frost', 5) AND author = 'James'",
        query_language="selector",
        created_at=datetime(2026, 11, 21, 12, 0, tzinfo=UTC),
        source="inbox",
        partition="mail/a.mbox",
        offset=4711,
        digest="00",
        topic="mail.inbox",
        properties='{"author": "James", "subject": "Garden notes", "date": "2002-08-22T18:26:25Z", "list": null}',
        body="Plant the garlic\nbefore the first frost.\n",
        xml=None,
    )
