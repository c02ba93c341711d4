"""A backtest in Python counts what a brute-force pass over the messages counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis
from tamis.engine.backtest import PastMessage, backtest

NEW, OLD = tamis.selector("n > 5 AND price < 3"), tamis.selector("n > 5")
DAY_S = 86_400.0

messages = st.lists(
    st.builds(
        lambda n, price, at: PastMessage({"n": n, "price": price}, at=at),
        st.integers(0, 10),
        st.none() | st.integers(0, 5),
        st.none() | st.floats(0, 40 * DAY_S),
    ),
    max_size=30,
)


@given(messages)
def test_the_counts_are_those_of_evaluating_both_queries(past: list[PastMessage]) -> None:
    result = backtest(NEW, past, replaces=OLD)
    new = [NEW.evaluate(it.properties) is True for it in past]
    old = [OLD.evaluate(it.properties) is True for it in past]
    assert (result.read, result.matched) == (len(past), sum(new))
    assert result.replaced is not None
    counts, pairs = result.replaced.counts, list(zip(old, new, strict=True))
    assert (counts.gained, counts.lost, counts.kept) == (
        pairs.count((False, True)),
        pairs.count((True, False)),
        pairs.count((True, True)),
    )
    timed = [is_match for it, is_match in zip(past, new, strict=True) if it.at is not None]
    rows = result.timeline().rows()
    if timed:
        assert (sum(row[1] for row in rows), sum(row[2] for row in rows)) == (len(timed), sum(timed))
    samples = [it["message"] for it in result.samples.all()]
    matched = [it.properties for it, is_match in zip(past, new, strict=True) if is_match]
    assert samples == matched if len(matched) <= 5 else (samples[0], samples[-1]) == (matched[0], matched[-1])


def test_rate_cost_and_samples_with_their_places() -> None:
    past = [PastMessage({"n": n}, at=n * DAY_S, place={"line": n}) for n in range(11)]
    result = backtest(OLD, past, samples=2)
    assert result.per_day() == pytest.approx(0.5)
    assert result.samples.all() == [{"line": 6, "message": {"n": 6}}, {"line": 10, "message": {"n": 10}}]
    cost = result.cost_us()
    assert cost is not None
    assert 0 <= cost["p50_us"] <= cost["p99_us"]  # a clock that another process has slowed down may tell 0
    assert result.replaced is None
    assert backtest(OLD, []).cost_us() is None
    assert backtest(OLD, []).per_day() is None


def test_what_is_no_message_is_refused_and_not_counted() -> None:
    result = backtest(OLD, [])
    with pytest.raises((TypeError, ValueError)):
        result.add(PastMessage({"n": object()}))  # type: ignore[dict-item]
    assert result.read == 0
