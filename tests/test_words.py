"""Tests words, stop words and signatures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis
from tamis.errors import ConfigError
from tamis.words import Signature, stop_words, words


def test_words_are_normalised_segments_with_a_letter_or_digit() -> None:
    found = words("The QUICK (“brown”) fox can't jump 32.3 feet!")
    assert found == "the quick brown fox can't jump 32.3 feet".split()
    assert words("ﬁne Ⅳ ΣΊΣΥΦΟΣ — … 日本") == ["fine", "iv", "σίσυφοσ", "日", "本"]


def test_positions_count_stop_words_too() -> None:
    signature = Signature("The garlic and the rhubarb", stop_words("english"))
    assert signature.terms() == {"garlic": [1], "rhubarb": [4]}
    assert signature.word_count == 5
    assert signature.positions("GARLIC") == [1]
    assert "the" not in signature
    assert len(signature) == 2


def test_stop_words_come_by_name_by_list_and_from_a_file(tmp_path: Path) -> None:
    assert "the" in stop_words("English")
    assert stop_words("none") == frozenset()
    assert stop_words(" as, if ,it") == {"as", "if", "it"}
    assert stop_words(["a"]) == {"a"}
    (tmp_path / "stop.txt").write_text("als # German\n\nwenn\n")
    assert stop_words(f"@{tmp_path / 'stop.txt'}") == {"als", "wenn"}
    with pytest.raises(ConfigError, match="stop words"):
        stop_words("@/nowhere")
    assert stop_words("als,") == {"als"}
    for name in ("german", "englisch"):
        with pytest.raises(ConfigError, match=f"no stop words are known by the name '{name}'.*expected english, none"):
            stop_words(name)


WORDS = st.sampled_from(["garlic", "rhubarb", "the", "and", "The"])


@given(st.lists(WORDS, max_size=12), WORDS, WORDS, st.integers(1, 4))
def test_near_and_phrases_agree_with_the_definition_whatever_the_stop_list(
    text: list[str], a: str, b: str, distance: int
) -> None:
    body = " ".join(text)
    at = [word.lower() for word in text]
    pairs = [(i, j) for i, x in enumerate(at) for j, y in enumerate(at) if (x, y) == (a.lower(), b.lower())]
    signature = Signature(body, ["the", "and"])
    for given_signature in (None, signature):
        near = tamis.near(a, b, distance).evaluate(body=body, signature=given_signature)
        assert near is any(1 <= abs(i - j) <= distance for i, j in pairs)
        phrase = tamis.text(f"{a}, {b}").evaluate(body=body, signature=given_signature)
        assert phrase is any(j - i == 1 for i, j in pairs)
