"""Tests how the place of a message is told."""

from __future__ import annotations

import pytest

from tamis.adapters.rows import digest_of
from tamis.store import place_text


@pytest.mark.parametrize(
    ("partition", "offset", "digest", "told"),
    [
        ("mail/a.mbox", 4711, digest_of(b"a"), "mail/a.mbox, byte 4711"),
        ("mail/a.mbox", 0, digest_of(b"a"), "mail/a.mbox"),
        ("Mail", 0, digest_of(b"a"), "Mail"),
        ("https://example.org/feed.xml", 0, digest_of(b"a"), "https://example.org/feed.xml"),
        ("prices.CSV", 7, digest_of(b"a"), "prices.CSV, row 7"),
        ("data/orders", 0, "17446744073709551615", "data/orders, message 0"),
    ],
)
def test_a_place_is_told_as_its_source_has_it(partition: str, offset: int, digest: str, told: str) -> None:
    assert place_text("inbox", partition, offset, digest) == f"inbox, {told}"
