"""The HTTP process starts, is restarted when it is killed, and ends with the broker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the server is not installed: pip install 'tamis[server]'")

from tamis.broker.config import BrokerConfig
from tamis.errors import ConfigError
from tamis.web import process
from tamis.web.process import STOP_S, HttpProcess, HttpSettings

WAIT_S = 60
OVERVIEW = {"about": {"version": "1"}, "health": {"status": "ok"}, "metrics": {}}


@pytest.fixture
def config(tmp_path: Path) -> Iterator[BrokerConfig]:
    """Return the configuration of a data directory whose control socket answers."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "control.sock"))
    listening.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as lines:
            for _ in lines:
                lines.write(json.dumps({"ok": True, "result": OVERVIEW}).encode() + b"\n")
                lines.flush()

    threading.Thread(target=serve, daemon=True).start()
    yield BrokerConfig(data=tmp_path, http_port=0)
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_it_answers_asks_for_a_password_and_ends_when_told(config: BrokerConfig) -> None:
    with HttpProcess(config) as http:
        assert status(f"{http.url}/health") == 200
        assert status(f"{http.url}/metrics") == 401
        pid = http.pid
    assert not is_running(pid)
    with pytest.raises(urllib.error.URLError):
        status(f"{http.url}/health")


def test_at_once_nobody_waits_for_it(config: BrokerConfig) -> None:
    http = HttpProcess(config)
    assert status(f"{http.url}/health") == 200
    os.kill(http.pid, signal.SIGSTOP)  # it can do nothing about its end
    began = time.monotonic()
    http.stop(at_once=True)
    assert time.monotonic() - began < STOP_S
    assert not is_running(http.pid)


def test_when_it_is_killed_it_is_started_again_and_nobody_is_refused_meanwhile(config: BrokerConfig) -> None:
    ended: list[tuple[int, float]] = []
    with HttpProcess(config, lambda code, delay_s: ended.append((code, delay_s))) as http:
        assert status(f"{http.url}/health") == 200
        os.kill(http.pid, signal.SIGKILL)
        until(lambda: bool(ended))
        assert status(f"{http.url}/health") == 200  # the socket is open all the time, so this waits
    assert ended == [(-signal.SIGKILL, 1.0)]


def test_what_it_has_to_say_is_an_event_of_the_log(config: BrokerConfig, capfd: pytest.CaptureFixture[str]) -> None:
    with HttpProcess(config) as http, socket.create_connection(("127.0.0.1", int(http.url.rpartition(":")[2]))) as wire:
        wire.sendall(b"nonsense\r\n\r\n")
        assert wire.recv(1024).startswith(b"HTTP/1.1 400 ")
    event = json.loads(capfd.readouterr().err)
    assert (event["level"], event["event"]) == ("warning", "HTTP")
    assert event["what"] == "Invalid HTTP request received."


def test_a_port_that_is_taken_is_said_at_the_start(config: BrokerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TAKEN_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"HTTP cannot listen on 127.0.0.1:{port}: Address already in use"):
            HttpProcess(BrokerConfig(data=config.data, http_port=port))


PARENT = """
import sys, time
from pathlib import Path
from tamis.broker.config import BrokerConfig
from tamis.web.process import HttpProcess
http = HttpProcess(BrokerConfig(data=Path(sys.argv[1]), http_port=0))
print(http.pid, http.url, flush=True)
time.sleep(600)
"""


def test_it_ends_when_the_broker_is_killed(config: BrokerConfig) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(config.data)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid, url = parent.stdout.readline().split()
    assert status(f"{url}/health") == 200
    parent.kill()
    parent.wait()
    until(lambda: not is_running(int(pid)))


def test_a_broker_that_was_killed_at_once_is_in_the_way_of_no_other(config: BrokerConfig) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(config.data)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        _, url = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    with HttpProcess(BrokerConfig(data=config.data, http_port=int(url.rpartition(":")[2]))) as http:
        assert status(f"{http.url}/health") == 200


def test_nobody_else_starts_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tamis.web"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "`tamis serve` starts this\n")


def test_settings_survive_their_way() -> None:
    settings = HttpSettings("dir with\nnewline", 7, False, "c", "k")
    assert HttpSettings.from_line(settings.to_line()) == settings
