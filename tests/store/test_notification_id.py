"""The id of a notification depends only on its fields."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from tamis.store import notification_id

PARTS = st.tuples(st.text(), st.integers(1, 10), st.text(), st.text(), st.integers(0, 2**63 - 1), st.text())


def test_the_id_is_the_beginning_of_a_digest_of_all_six_parts() -> None:
    digest = hashlib.sha256(b'["frost",1,"inbox","mail/1.mbox",0,"00"]').hexdigest()
    assert notification_id("frost", 1, "inbox", "mail/1.mbox", 0, "00") == digest[:32]


@given(PARTS, PARTS)
def test_two_matches_have_one_id_only_if_they_are_the_same(one: tuple, other: tuple) -> None:
    assert (notification_id(*one) == notification_id(*other)) == (one == other)
