"""The HTTP process beside a broker: how it is started, kept going and stopped.

The broker's side makes the listening socket, so that a port that is taken is told at the start and the number of a free
one is known, and keeps a pipe open to the process: when the broker is gone, however it went, the pipe ends and so does
the process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tamis.broker.config import BrokerConfig, TlsConfig
from tamis.broker.log import Format, Level
from tamis.errors import ConfigError

BACKLOG = 128
STOP_S = 3.0
"""So long it may take to end when it is told to; then it is killed."""
RESTART_S_MIN, RESTART_S_MAX = 1.0, 30.0
"""It is started again after so long when it has ended by itself, twice as long each time."""


@dataclass(frozen=True)
class Settings:
    """What the process is told: one line of JSON on its stdin.

    Attributes:
        data: the broker's data directory, with its users and its control socket.
        listening_fd: the number of the listening socket, which it inherits.
        is_local_only: whether that is this machine only.
        log_level: what is written to stderr, as the broker's log has it.
        log_format: likewise.
        cert: with `key`: HTTPS.
    """

    data: str
    listening_fd: int
    is_local_only: bool
    log_level: Level = "info"
    log_format: Format = "auto"
    cert: str | None = None
    key: str | None = None

    def to_line(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Settings:
        """As it is received."""
        return cls(**json.loads(line))


OnEnd = Callable[[int, float], None]
"""Called with the exit code and the seconds until it is started again."""


class HttpProcess:
    """A running HTTP process. It is started again when it ends by itself.

    Args:
        config: where to listen; HTTPS with the certificate of ``[tls]`` where others than this machine can connect.
        on_end: it has ended by itself. Called in a thread of its own.

    Raises:
        ConfigError: the port is taken, or the address is not this machine's.
    """

    def __init__(self, config: BrokerConfig, on_end: OnEnd = lambda code, delay_s: None) -> None:
        self._on_end = on_end
        tls = None if config.is_local_only else config.tls
        self._socket = _listening(config.host if tls or config.insecure else config.plain_host, config.http_port)
        self._settings = _settings(config, tls, self._socket.fileno())
        name = self._socket.getsockname()
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        self.url = f"{'https' if tls else 'http'}://{host}:{name[1]}"
        """Where it listens."""
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._process = self._started()
        threading.Thread(target=self._keep_going, name="http process", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def stop(self, at_once: bool = False) -> None:
        """End it, and wait for that; `at_once`: whatever it is doing."""
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

    def _started(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C is for the broker, which ends this one when it has stopped.
        process = subprocess.Popen(
            [sys.executable, "-m", "tamis.web"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._socket.fileno(),),
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - it was asked for
        with suppress(BrokenPipeError):  # it has ended already; whoever waits for it finds out
            process.stdin.write(self._settings.to_line())
            process.stdin.flush()
        return process

    def _keep_going(self) -> None:
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
                with suppress(OSError):  # no process to be had now; the old one's end is told again
                    self._process = self._started()


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None and not process.stdin.closed:
        with suppress(OSError):
            process.stdin.close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"HTTP cannot listen on {host}:{port}: {error.strerror or error}\n  another one: --http-port"
        ) from error


def _settings(config: BrokerConfig, tls: TlsConfig | None, listening_fd: int) -> Settings:
    data: Any = Path(config.data).resolve()
    return Settings(
        data=str(data),
        listening_fd=listening_fd,
        is_local_only=config.is_local_only,
        log_level=config.log.level,
        log_format=config.log.format,
        cert=str(tls.cert.resolve()) if tls else None,
        key=str(tls.key.resolve()) if tls else None,
    )
