"""Words, stop words and signatures of text, as in section 3.2 of the PNNL paper.

A word is a UAX #29 segment with a letter or a digit, in NFKC, with simple case folding; there is no stemming.
Positions count every word from 0, including stop words. A stop list only makes signatures smaller: no result of a
query depends on it."""

from __future__ import annotations

from tamis._core import Signature, words
from tamis.words.stop_words import stop_words

__all__ = ["Signature", "stop_words", "words"]
