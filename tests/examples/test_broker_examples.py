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


def test_a_slow_reader_disturbs_nobody_and_a_late_one_catches_up(url: str) -> None:
    *others, done, slow = run("readers.py", url)
    read_all = "200 messages, in order and without a gap: True"
    assert sorted(others) == [f"{name}: {read_all}" for name in ("fast", "fast", "fast", "late")]
    assert done == "the fast and the late readers have everything, and the slow one has one message"
    assert slow == f"slow: {read_all}"
