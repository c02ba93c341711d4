"""Runs `tamis serve` in a separate process for fault tests: on a free port, killed or stopped by pid."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.control_socket import ask
from tests.free_port import free_port

START_S_MAX = 30.0


class BrokerProcess:
    """A broker over the folder `data`, whose output goes to a file.

    Args:
        data: its data directory; kept from one start to the next.
        settings: the text of a tamis.toml.
        wrapper: words before the command, such as strace and its options.
        preexec: called in the child before it becomes the broker.
    """

    def __init__(
        self,
        data: Path,
        settings: str = "",
        wrapper: Sequence[str] = (),
        preexec: Callable[[], object] | None = None,
    ) -> None:
        self.data, self.port = data, free_port()
        self._http_port = free_port()
        self.log = data.parent / f"{data.name}.log"
        self._config = data.parent / f"{data.name}.toml"
        self._config.write_text(settings, encoding="utf-8")
        self._wrapper, self._preexec = wrapper, preexec
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self if self._child is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def health(self) -> str:
        """Return the status that `/health` tells, or "absent"."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._http_port}/health", timeout=5) as answer:
                return str(json.load(answer)["status"])
        except urllib.error.HTTPError as error:
            return str(json.load(error)["status"])
        except OSError:
            return "absent"

    def about(self) -> dict[str, Any]:
        """Return what it says of itself, such as the longest stall and its cause."""
        return dict(ask(self.data, "about"))

    def metrics(self) -> dict[str, Any]:
        """Return its counts, such as that of the letters that wait."""
        return dict(ask(self.data, "metrics"))

    @property
    def pid(self) -> int:
        """The pid of the started process: the broker, or its wrapper."""
        assert self._child is not None
        return self._child.pid

    def start(self) -> Self:
        """Start it, and return when it accepts connections."""
        command = [sys.executable, "-m", "tamis", "serve", "--data", str(self.data), "--config", str(self._config)]
        command += ["--amqp-port", str(self.port), "--http-port", str(self._http_port)]
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [*self._wrapper, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=self._preexec,
            )
        end = time.monotonic() + START_S_MAX
        while time.monotonic() < end:
            if self._child.poll() is not None:
                raise RuntimeError(f"the broker ended with {self._child.returncode}: {self.said()}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"the broker does not accept after {START_S_MAX} s: {self.said()}")

    def said(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def kill(self) -> None:
        """Send SIGKILL to it and its children, and wait."""
        if self._child is None:
            return
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--sid", str(self._child.pid)], capture_output=True, text=True, check=False
        )
        for pid in {self._child.pid, *map(int, listed.stdout.split())}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._child.wait()
        self._child = None

    def stop(self, limit_s: float = 20.0) -> int:
        """Send SIGTERM; return the exit code."""
        assert self._child is not None
        self._child.terminate()
        return self.wait(limit_s)

    def wait(self, limit_s: float) -> int:
        """Wait at most `limit_s` for its end; return the exit code."""
        assert self._child is not None
        return self._child.wait(limit_s)

    def running(self) -> bool:
        """Return whether it still runs."""
        return self._child is not None and self._child.poll() is None
