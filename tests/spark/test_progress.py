"""Tests the arithmetic of progress and summary, without Spark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tamis.spark.progress import BatchReport, MatchTimes, RunTally

times_us = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=50)


def report(read: int = 10, **changes: object) -> BatchReport:
    values = {"matched": 4, "notifications": 5, "dead": 1, "seconds": 0.5, "by_query": {"a": 5}, "match_us": [2.0]}
    return BatchReport(read=read, timed=1, **(values | changes))  # type: ignore[arg-type]


@given(st.lists(times_us, min_size=1, max_size=5), st.sampled_from([0.5, 0.99]))
def test_percentiles_of_batches_sent_whole_are_the_percentiles_of_all(batches: list[list[float]], share: float) -> None:
    times = MatchTimes()
    for batch in batches:
        times.add(sorted(batch), len(batch))
    everything = sorted(value for batch in batches for value in batch)
    found = times.percentile(share)
    assert found is not None
    below = sum(value < found for value in everything)
    upto = sum(value <= found for value in everything)
    assert below <= share * len(everything) <= upto + 1e-6 * len(everything)


def test_a_large_batch_weighs_more_than_a_small_one() -> None:
    times = MatchTimes()
    times.add([1.0] * 100, 1_000_000)
    times.add([500.0] * 100, 1_000)
    assert times.percentile(0.5) == times.percentile(0.99) == 1.0
    assert times.percentile(1.0) == 500.0


def test_without_batches_there_is_no_percentile() -> None:
    times = MatchTimes()
    times.add([], 0)
    assert times.percentile(0.5) is None


def test_a_tally_adds_up() -> None:
    tally = RunTally()
    tally.add_batch(report(10))
    tally.add_batch(report(20, by_query={"a": 1, "b": 4}, seconds=0.25))
    tally.add_deliveries(7, 1)
    progress = tally.progress({"inbox": "running"})
    assert (progress.read, progress.matched, progress.notifications, progress.dead) == (30, 8, 10, 2)
    assert (progress.delivered, progress.lag_s, progress.states) == (7, 0.25, {"inbox": "running"})
    assert progress.rate > 0
    summary = tally.summary({}, {"mail": "down"}, pending=2, stopped_by=None)
    assert (summary.read, summary.batches, summary.delivered, summary.given_up, summary.pending) == (30, 2, 7, 1, 2)
    assert summary.by_query == {"a": 6, "b": 4}
    assert (summary.match_us_p50, summary.troubles) == (2.0, {"mail": "down"})
    assert summary.to_dict()["messages_per_s"] == summary.messages_per_s
