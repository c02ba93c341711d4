"""The broker's counters are rendered for Prometheus."""

from __future__ import annotations

import pytest

parser = pytest.importorskip("prometheus_client.parser", reason="the server is not installed")

from tamis.web import metrics  # noqa: E402


def samples(overview: dict[str, object] | None) -> dict[str, float]:
    families = parser.text_string_to_metric_families(metrics.render(overview).decode())
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_a_broker_that_is_gone_has_one_number() -> None:
    assert samples(None) == {"tamis_up": 0}


def test_numbers_have_the_names_and_units_that_prometheus_expects() -> None:
    found = samples(
        {
            "about": {"version": 'a"\\\n', "pid": 7, "now_us": 1, "memory_bytes": 1000, "addresses": []},
            "health": {"status": "ok"},
            "metrics": {
                "published": 3,
                "queues": 2,
                "journal_sync_us": 2_500_000,
                "journal_sync_us_max": 500,
                "something_new": 4,
            },
        }
    )
    assert found == {
        "tamis_up": 1,
        "tamis_build_info": 1,
        "tamis_resident_memory_bytes": 1000,
        "tamis_messages_published_total": 3,
        "tamis_queues": 2,
        "tamis_journal_sync_seconds_total": 2.5,
        "tamis_journal_sync_seconds_max": 0.0005,
        "tamis_something_new": 4,
    }


def test_a_stall_is_shown_with_its_cause() -> None:
    about = {"stall_s_max": 0.25, "stall_s_max_cause": "receive queue.bind", "stall_s_recent": 0.0}
    text = metrics.render({"about": {**about, "stall_s_recent_cause": ""}, "metrics": {}}).decode()
    assert 'tamis_event_loop_stall_seconds_max{cause="receive queue.bind"} 0.25' in text
    assert 'tamis_event_loop_stall_seconds_recent{cause=""} 0.0' in text


def test_no_two_numbers_share_a_name() -> None:
    names = [shown.name for shown in [*metrics.COUNTERS.values(), *metrics.GAUGES.values()]]
    assert len(names) == len(set(names))
