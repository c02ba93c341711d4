"""The examples with a broker print what they should, against a broker of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.conftest import RunningBroker

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "broker"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = RunningBroker(tmp_path_factory.mktemp("examples"), config="[services]\nworker_s = 1\n")
    yield f"amqp://guest:guest@127.0.0.1:{broker.port}/"
    broker.kill()


def run(name: str, url: str) -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_messages_wait_for_whoever_is_away(url: str) -> None:
    assert run("chat.py", url) == ["ann to bob: are you there?", "bob to ann: I am now"]


def test_every_request_is_answered_though_one_worker_dies_and_one_hangs(url: str) -> None:
    assert run("workers.py", url) == [f"12 of 12 requests answered: {list(range(0, 24, 2))}"]


def test_a_late_reader_catches_up_and_a_slow_one_misses_nothing(url: str) -> None:
    assert sorted(run("readers.py", url)) == [
        f"{name}: 200 messages, in order and without a gap: True" for name in ("late", "slow")
    ]


def test_a_ticker_plant_goes_on_after_a_crash_without_a_gap_or_a_double(url: str) -> None:
    assert run("ticker_plant.py", url) == [
        f"minutes: {list(range(10))}",
        f"lows: {list(range(0, 100, 10))}",
    ]
