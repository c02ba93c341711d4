"""Tests of the table of limits."""

import dataclasses
from pathlib import Path

import pytest

from tamis.broker.config import LimitsConfig
from tamis.broker.limits import all_rows, table

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "broker.md"


def test_the_document_has_the_table_as_the_settings_define_it() -> None:
    """`make limits` writes it."""
    assert table() in DOCUMENT.read_text(encoding="utf-8")


NUMBERS = [field.name for field in dataclasses.fields(LimitsConfig) if not isinstance(field.default, str)]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_setting_says_what_happens_at_its_limit(name: str) -> None:
    """A new limit needs a `Limit` in its annotation."""
    (row,) = [row for row in all_rows() if row.setting == name]
    assert row.limit.what
    assert row.limit.beyond
