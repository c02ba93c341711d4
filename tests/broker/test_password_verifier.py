"""Right passwords are remembered, and wrong ones are not."""

from __future__ import annotations

import pytest

from tamis.broker.login import password_verifier, passwords
from tamis.broker.login.password_verifier import PasswordVerifier

HASH, OTHER = passwords.hash_password(b"secret"), passwords.hash_password(b"secret")


def test_a_right_password_is_known_from_then_on_for_that_hash() -> None:
    verifier = PasswordVerifier()
    assert not verifier.is_known(HASH, b"secret")
    assert verifier.is_right(HASH, b"secret")
    assert verifier.is_known(HASH, b"secret")
    assert not verifier.is_known(HASH, b"Secret")
    assert not verifier.is_known(OTHER, b"secret"), "the user has another hash now"
    assert not verifier.is_known(None, b"secret")


def test_a_wrong_password_is_never_known() -> None:
    verifier = PasswordVerifier()
    assert not verifier.is_right(HASH, b"wrong")
    assert not verifier.is_right(None, b"wrong")
    assert not verifier.is_known(HASH, b"wrong")
    assert not verifier.is_known(None, b"wrong")


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_verifier, "REMEMBERED_MAX", 2)
    monkeypatch.setattr(passwords, "is_right", lambda kept, password: True)
    verifier = PasswordVerifier()
    for password in (b"a", b"b", b"c"):
        assert verifier.is_right(HASH, password)
    assert [verifier.is_known(HASH, password) for password in (b"a", b"b", b"c")] == [False, True, True]
