from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tamis.adapters import manager as manager_module
from tamis.adapters.adapter import Adapter
from tamis.adapters.manager import HEALTHY_S, LATE_TRIES, ONCE_TRIES, RETRY_S, AdapterManager, reason
from tamis.errors import AdapterError
from tamis.store import Store

JITTER = 4 / 3


class FakeQuery:
    """A streaming query that the test controls."""

    def __init__(self) -> None:
        self.isActive = True
        self.failed_with: Exception | None = None

    def exception(self) -> Exception | None:
        return self.failed_with

    def stop(self) -> None:
        self.isActive = False

    def fail(self, error: Exception) -> None:
        self.isActive, self.failed_with = False, error


class Workshop:
    """A manager of two adapters, whose queries and clock the test controls."""

    def __init__(self, folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Adapter, "dataframe", lambda adapter, spark: adapter.source().check())
        self.now = 1_000.0
        self.queries: dict[str, list[FakeQuery]] = {"good": [], "bad": []}
        self.store = store
        self.bad_path = folder / "later"
        adapters = [Adapter("bad", "mbox", str(self.bad_path)), Adapter("good", "mbox", str(folder))]
        spark: Any = None
        self.manager = AdapterManager(spark, adapters, self.start, store, clock=lambda: self.now)

    def start(self, adapter: Adapter, frame: object) -> FakeQuery:
        self.queries[adapter.name].append(FakeQuery())
        return self.queries[adapter.name][-1]

    def recorded(self, name: str) -> tuple[str, str | None]:
        (state,) = self.store.adapter_states([name])
        return state.status, state.last_error


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        yield Workshop(tmp_path, store, monkeypatch)


def test_an_adapter_that_fails_stops_no_other_and_is_started_again(workshop: Workshop) -> None:
    workshop.manager.look()
    assert workshop.manager.list() == {"bad": "failed", "good": "running"}
    assert "no such file or folder" in str(workshop.manager.error("bad"))
    assert workshop.recorded("bad")[0] == "failed"
    assert workshop.recorded("good") == ("running", None)
    workshop.bad_path.write_bytes(b"")
    workshop.manager.look()
    assert workshop.manager.list()["bad"] == "failed", "not before its time"
    workshop.now += RETRY_S[0] * JITTER
    workshop.manager.look()
    assert workshop.recorded("bad") == ("running", None)


def test_it_is_tried_less_and_less_often_until_it_has_run_for_a_while(workshop: Workshop) -> None:
    workshop.bad_path.write_bytes(b"")
    workshop.manager.look()
    for expected in [*RETRY_S, RETRY_S[-1]]:
        workshop.queries["bad"][-1].fail(ValueError("broken"))
        started = len(workshop.queries["bad"])
        workshop.manager.look()
        workshop.now += expected - 0.1
        workshop.manager.look()
        assert len(workshop.queries["bad"]) == started
        workshop.now += expected * (JITTER - 1) + 0.2
        workshop.manager.look()
        assert len(workshop.queries["bad"]) == started + 1
    workshop.now += HEALTHY_S
    workshop.queries["bad"][-1].fail(ValueError("broken"))
    workshop.manager.look()
    workshop.now += RETRY_S[0] * JITTER
    workshop.manager.look()
    assert workshop.manager.list()["bad"] == "running"


def test_a_run_that_ends_by_itself_tries_an_adapter_three_times(workshop: Workshop) -> None:
    workshop.manager.look()
    workshop.queries["good"][-1].isActive = False
    for wait_s in (0.0, *RETRY_S[: ONCE_TRIES - 1]):
        workshop.manager.look()
        assert workshop.manager.list() == {"bad": "failed", "good": "finished"}
        assert not workshop.manager.is_done()
        workshop.now += wait_s * JITTER
    workshop.manager.look()
    assert workshop.manager.is_done()


def test_python_that_is_late_on_a_busy_machine_is_tried_more_often(workshop: Workshop) -> None:
    workshop.bad_path.touch()
    workshop.manager.look()
    workshop.queries["good"][-1].isActive = False
    for _ in range(LATE_TRIES):
        assert not workshop.manager.is_done()
        workshop.queries["bad"][-1].fail(RuntimeError("Python worker failed to connect back."))
        workshop.manager.look()
        workshop.now += RETRY_S[0] * JITTER
        if not workshop.manager.is_done():
            workshop.manager.look()
            assert workshop.manager.list()["bad"] == "running"
    assert len(workshop.queries["bad"]) == LATE_TRIES
    assert workshop.manager.list() == {"bad": "failed", "good": "finished"}


def test_it_does_what_the_store_desires(workshop: Workshop) -> None:
    manager = workshop.manager
    manager.look()
    for ask, status in ((manager.pause, "paused"), (manager.start, "running"), (manager.stop, "stopped")):
        ask("good")
        manager.look()
        assert manager.list()["good"] == status
        assert workshop.recorded("good")[0] == status
        assert workshop.queries["good"][-1].isActive == (status == "running")
    manager.stop("bad")
    manager.look()
    assert workshop.recorded("bad") == ("stopped", None)


def test_a_query_that_ends_well_has_finished_and_is_not_begun_again(workshop: Workshop) -> None:
    workshop.manager.look()
    workshop.queries["good"][-1].stop()
    for _ in range(3):
        workshop.manager.look()
    assert workshop.manager.list()["good"] == "finished"
    assert len(workshop.queries["good"]) == 1


def test_run_follows_within_a_second_and_stops_all_at_its_end(workshop: Workshop) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=workshop.manager.run, args=(stop,))
    thread.start()
    try:
        assert wait_for(lambda: workshop.manager.list()["good"] == "running")
        workshop.store.set_adapter_desired("good", "paused")
        assert wait_for(lambda: workshop.manager.list()["good"] == "paused")
        workshop.store.set_adapter_desired("good", "running")
        assert wait_for(lambda: workshop.manager.list()["good"] == "running")
    finally:
        stop.set()
        thread.join(5)
    assert workshop.manager.list()["good"] == "stopped"
    assert not workshop.queries["good"][-1].isActive


def wait_for(condition: Any, seconds: float = 1.5 + manager_module.LOOK_INTERVAL_S) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


def test_names_are_known_and_unique(workshop: Workshop) -> None:
    with pytest.raises(AdapterError, match="there are: bad, good"):
        workshop.manager.start("god")
    with pytest.raises(AdapterError, match="two adapters are named 'a'"):
        adapters = [Adapter("a", "eml", "x")] * 2
        AdapterManager(None, adapters, workshop.start, workshop.store)  # type: ignore[arg-type]
    assert workshop.manager.test("good").readable
    assert not workshop.manager.test("bad").readable


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AdapterError("a: b"), "a: b"),
        (ValueError("Job aborted\n  File x\ntamis.errors.AdapterError: inbox: gone\n\tat java"), "inbox: gone"),
        (ValueError("\n first\nsecond"), "first"),
        (ValueError(), "ValueError"),
    ],
)
def test_an_error_is_told_in_one_sentence(error: Exception, said: str) -> None:
    assert reason(error) == said
