"""When a query expires is read from a date, a time or a duration."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import tamis
from tamis.query import QuerySpec
from tamis.query.expiry import parse_expiry
from tamis.query.rules import compile_rules

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", NOW + timedelta(days=30)),
        ("90m", NOW + timedelta(minutes=90)),
        ("2w", NOW + timedelta(days=14)),
        ("12h", NOW + timedelta(hours=12)),
        ("2026-12-31", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-12-31T18:00:00Z", datetime(2026, 12, 31, 18, tzinfo=UTC)),
        ("2026-12-31T18:00:00+02:00", datetime(2026, 12, 31, 16, tzinfo=UTC)),
        ("2026-12-31T18:00:00", datetime(2026, 12, 31, 18, tzinfo=UTC)),
    ],
)
def test_an_expiry_is_read(text: str, expected: datetime) -> None:
    assert parse_expiry(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "0d", "-3d", "3", "3y", "tomorrow", "2026-13-01", "9999-12-31", "999999w"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a date as 2026-12-31"):
        parse_expiry(text, NOW)


def test_a_paused_or_expired_query_is_no_rule() -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    specs = [
        QuerySpec("a", "x = 1"),
        QuerySpec("b", "x = 1", paused=True),
        QuerySpec("c", "x = 1", expires_at=past),
        QuerySpec("d", "x = 1", expires_at=past + timedelta(days=1)),
    ]
    assert compile_rules(specs) == [("a", tamis.selector("x = 1")), ("d", tamis.selector("x = 1"))]
    assert [spec.state(datetime.now(UTC)) for spec in specs] == ["active", "paused", "expired", "active"]
