"""Starts, restarts and stops the HTTP process of a broker.

The broker opens the listening socket, so that it can report a taken port at the start and knows the number of a free
one. It also keeps a pipe to the process open: when the broker ends, for whatever reason, the pipe ends, and then the
process."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tamis.broker.config import BrokerConfig, TlsConfig, in_url
from tamis.broker.log import Format, Level
from tamis.errors import ConfigError

BACKLOG = 1024
"""Maximum number of connections that wait to be accepted."""
STOP_S = 3.0
"""Maximum time to end when told to; then the process is killed."""
TAKEN_S_MAX = 5.0
"""Maximum time to wait for a port that is taken. If a broker is killed as soon as it has started, its HTTP process
keeps the port until it is loaded, which takes about a second; then it ends."""
RESTART_S_MIN, RESTART_S_MAX = 1.0, 30.0
"""First and longest delay before a process that has ended by itself is restarted; the delay doubles each time."""


@dataclass(frozen=True)
class HttpSettings:
    """The settings of the process: one line of JSON on its stdin.

    Attributes:
        data: the broker's data directory, with its users and its control socket.
        listening_fd: the descriptor of the listening socket, which the process inherits.
        is_local_only: whether the socket listens on this machine only.
        log_level: the level of the broker's log.
        log_format: the format of the broker's log.
        cert: the certificate for HTTPS, with `key`.
    """

    data: str
    listening_fd: int
    is_local_only: bool
    log_level: Level = "info"
    log_format: Format = "auto"
    cert: str | None = None
    key: str | None = None

    def to_line(self) -> bytes:
        """Return the line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> HttpSettings:
        """Return the settings in a line."""
        return cls(**json.loads(line))


OnEnd = Callable[[int, float], None]
"""Called with the exit code and the seconds until the restart."""


class HttpProcess:
    """A running HTTP process, restarted when it ends by itself.

    Args:
        config: where to listen; with ``[tls]``, HTTPS on addresses that others can reach.
        on_end: called in another thread when the process has ended by itself.

    Attributes:
        url: the URL on which it listens.

    Raises:
        ConfigError: the port is taken, or the address does not belong to this machine.
    """

    def __init__(self, config: BrokerConfig, on_end: OnEnd = lambda code, delay_s: None) -> None:
        self._on_end = on_end
        tls = None if config.is_local_only else config.tls
        self._socket = _listening(config.host if tls or config.insecure else config.plain_host, config.http_port)
        self._settings = _settings(config, tls, self._socket.fileno())
        name = self._socket.getsockname()
        self.url = f"{'https' if tls else 'http'}://{in_url(name[0])}:{name[1]}"
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._process = self._start()
        threading.Thread(target=self._supervise, name="http process", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def stop(self, at_once: bool = False) -> None:
        """End the process, and wait for that; with `at_once`, do not wait for its current requests."""
        with self._lock:
            self._is_stopping.set()
            process = self._process
        self._socket.close()
        if at_once:
            process.kill()
        _close_pipe(process)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> HttpProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> subprocess.Popen[bytes]:
        # In a new session: Ctrl-C is for the broker, which ends this process when it has stopped.
        process = subprocess.Popen(
            [sys.executable, "-m", "tamis.web"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._socket.fileno(),),
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - because of stdin=PIPE
        with suppress(BrokenPipeError):  # the process has already ended, which `_supervise` notices
            process.stdin.write(self._settings.to_line())
            process.stdin.flush()
        return process

    def _supervise(self) -> None:
        delay_s = RESTART_S_MIN
        while True:
            code = self._process.wait()
            _close_pipe(self._process)
            if self._is_stopping.is_set():
                return
            self._on_end(code, delay_s)
            self._is_stopping.wait(delay_s)
            delay_s = min(delay_s * 2, RESTART_S_MAX)
            with self._lock:
                if self._is_stopping.is_set():
                    return
                with suppress(OSError):  # no process can be started now: try again after the next delay
                    self._process = self._start()


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None and not process.stdin.closed:
        with suppress(OSError):
            process.stdin.close()


def _listening(host: str, port: int) -> socket.socket:
    """Listen, as soon as the HTTP process of a broker that was killed has ended."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    end_s = time.monotonic() + TAKEN_S_MAX
    while True:
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < end_s:
                time.sleep(TAKEN_S_MAX / 100)
                continue
            raise ConfigError(
                f"HTTP cannot listen on {host}:{port}: {error.strerror or error}\n  give another port with --http-port"
            ) from error


def _settings(config: BrokerConfig, tls: TlsConfig | None, listening_fd: int) -> HttpSettings:
    data: Any = Path(config.data).resolve()
    return HttpSettings(
        data=str(data),
        listening_fd=listening_fd,
        is_local_only=config.is_local_only,
        log_level=config.log.level,
        log_format=config.log.format,
        cert=str(tls.cert.resolve()) if tls else None,
        key=str(tls.key.resolve()) if tls else None,
    )
