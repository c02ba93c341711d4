"""Starts a PostgreSQL server of this machine for the tests, in a folder of its own and with a password."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.free_port import free_port

PASSWORD = "not a secret: of a server for tests"


def programs() -> Path | None:
    """Return the folder of the server's programs; None if it is not installed."""
    if (found := shutil.which("initdb")) and shutil.which("postgres"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


def why_not() -> str | None:
    """Say why no server can be started here; None if one can."""
    if programs() is None:
        return "no PostgreSQL server is installed here: install the package postgresql to run these tests"
    if os.geteuid() == 0 and _other_user() is None:
        return "a PostgreSQL server does not run as root, and there is no user 'postgres' here"
    return None


def _other_user() -> str | None:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None


class Server:
    """A server that listens on this machine only; its user `tamis` may make databases.

    Args:
        fsync: whether a commit is on disk when it ends. Tests kill clients, and the machine itself does not fail.
    """

    def __init__(self, fsync: bool = False) -> None:
        bin_ = programs()
        assert bin_ is not None
        self._bin, self._fsync = bin_, fsync
        self._user = _other_user() if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="tamis-postgres-"))
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", self._data, "-U", "tamis", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8")
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self._folder}
        settings |= {"fsync": "on" if self._fsync else "off", "max_connections": 200}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self._folder,
                start_new_session=True,
            )
        ready = [self._bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """The process that has started all others of the server."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop it at once, and wait for its end; its data stay."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            self._process = None

    def crash(self) -> None:
        """End it as a crash does, without a checkpoint, and wait for its end; the next start recovers its data."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(60)
        self._process = None

    def close(self) -> None:
        """Stop it, and remove its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_database(self) -> str:
        """Make a database; return its URL without a password."""
        self._count += 1
        name = f"test_{self._count}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, database: str = "postgres", user: str = "tamis") -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Execute a statement as `tamis`, and return its rows."""
        import psycopg

        with psycopg.connect(self.url(database), password=PASSWORD, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: object) -> None:
        command = [self._bin / program, *map(str, arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, user=self._user, cwd=self._folder)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
