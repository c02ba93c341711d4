"""One pipeline at a time runs over a store, and everybody can see which."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tamis.errors import StoreError
from tamis.spark.lease import held_lease
from tamis.spark.pipeline import next_poll
from tamis.store import Store
from tamis.store.leases import LEASE_S
from tamis.store.records import Poll

CONFIG = Path("/somewhere/pipeline.toml")


def _on_another_machine(store: Store) -> None:
    with store._write() as connection:
        connection.exec_driver_sql("UPDATE leases SET host = 'elsewhere', pid = 1")


def test_a_lease_tells_who_runs_until_it_is_given_back(store: Store) -> None:
    assert (store.lease(), store.running_pipeline()) == (None, None)
    taken = store.take_lease(CONFIG)
    assert (taken.pid, taken.host, taken.config, taken.ended_at) == (
        os.getpid(),
        socket.gethostname(),
        str(CONFIG),
        None,
    )
    assert store.running_pipeline() == taken
    assert store.renew_lease(taken.token)
    store.end_lease(taken.token)
    assert store.running_pipeline() is None
    assert not store.renew_lease(taken.token)
    ended = store.lease()
    assert ended is not None
    assert ended.last_seen_at == ended.ended_at


def test_a_lease_that_is_not_renewed_expires(store: Store) -> None:
    taken = store.take_lease(CONFIG)
    _on_another_machine(store)
    later = taken.taken_at + timedelta(seconds=LEASE_S)
    assert store.running_pipeline(later - timedelta(seconds=1)) is not None
    assert store.running_pipeline(later) is None


def test_another_machine_is_refused_until_the_lease_has_expired(store: Store) -> None:
    first = store.take_lease(CONFIG)
    _on_another_machine(store)
    with pytest.raises(StoreError, match=r"process 1 on elsewhere runs /somewhere/pipeline.toml over this store since"):
        store.take_lease(CONFIG)
    second = store.take_lease(CONFIG, first.expires_at)
    assert second.token != first.token
    assert not store.renew_lease(first.token)
    assert store.renew_lease(second.token)


def test_a_process_that_was_killed_does_not_run(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        pass
    taken = store.take_lease(CONFIG)
    assert store.running_pipeline() == taken
    with store._write() as connection:
        connection.exec_driver_sql(f"UPDATE leases SET pid = {ended.pid}")
    assert store.running_pipeline() is None
    assert store.take_lease(CONFIG).pid == os.getpid()


def test_a_second_run_is_refused_by_name_while_the_first_runs(store: Store) -> None:
    with held_lease(store, CONFIG), Store.open(store.path) as other:
        told = rf"process {os.getpid()} on .* runs {CONFIG} over this store since .*Two would send everything twice"
        with pytest.raises(StoreError, match=told), held_lease(other, CONFIG):
            pytest.fail("two hold the lease")
        with store._write() as connection:  # the first one may have stood still for long
            connection.exec_driver_sql("UPDATE leases SET expires_at = '2001-01-01 00:00:00.000000'")
        with pytest.raises(StoreError, match="over this store"), held_lease(other, CONFIG):
            pytest.fail("two hold the lease")
    with held_lease(store, CONFIG):
        assert store.running_pipeline() is not None
    assert store.running_pipeline() is None


def test_a_run_records_when_its_adapters_looked(store: Store) -> None:
    store.adapter_states(["inbox"])
    now = datetime.now(UTC)
    with held_lease(store, CONFIG) as lease:
        lease.polls = lambda: {"inbox": Poll(now, now + timedelta(seconds=60))}
    (state,) = store.adapter_states(["inbox"])
    assert (state.polled_at, state.next_poll_at) == (now, now + timedelta(seconds=60))


@pytest.mark.parametrize(("passed_ms", "expected_ms"), [(0, 1_000), (999, 1_000), (1_000, 1_000), (2_500, 3_000)])
def test_the_next_look_is_a_multiple_of_the_interval_after_the_last(passed_ms: int, expected_ms: int) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    following = next_poll(at, 1_000, at + timedelta(milliseconds=passed_ms))
    assert following == at + timedelta(milliseconds=expected_ms)
    assert next_poll(at, None, at) is None
