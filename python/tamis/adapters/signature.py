"""The signature of a message: its words without the stop words of its source, each with its positions.

Source: the PNNL paper, section 3.2, steps 2 and 3."""

from __future__ import annotations

from tamis.words import Signature


def signature_of(body: str | None, stop_words: frozenset[str]) -> list[tuple[str, list[int]]] | None:
    """(term, positions) pairs of a text, in the order that the signature gives; None without a text.

    Args:
        body: the text.
        stop_words: left out, but counted in positions.

    Cost: linear; 250 µs for a usual mail, most of it for the lists of positions.
    """
    return None if body is None else list(Signature(body, stop_words).terms().items())
