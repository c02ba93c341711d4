"""A command that ends because a file system has failed says so by its exit code, and names the file."""

from __future__ import annotations

import errno
import os

import pytest

from tamis.cli import main
from tamis.errors import ConfigError, JournalError, has_disk_failed


def failed(code: int) -> OSError:
    return OSError(code, os.strerror(code), "/data/users.json")


def explained(error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and the message of a command that raises `error`."""

    def call(_: list[str]) -> int:
        raise error

    monkeypatch.setattr(main, "_call", call)
    return main.run(["serve"]), capsys.readouterr().err


def test_a_failed_file_system_has_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in (errno.EIO, errno.EROFS, errno.ENODEV):
        assert explained(failed(code), monkeypatch, capsys) == (74, f"error: /data/users.json: {os.strerror(code)}\n")
    wrapped = ConfigError("/data: the data directory cannot be used")
    wrapped.__cause__ = failed(errno.EIO)
    assert explained(wrapped, monkeypatch, capsys)[0] == 74


def test_a_file_that_is_absent_or_closed_is_an_ordinary_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in (errno.ENOENT, errno.EACCES, errno.ENOSPC):
        assert explained(failed(code), monkeypatch, capsys)[0] == 2
    assert explained(JournalError("a file is missing"), monkeypatch, capsys)[0] == 2
    assert not has_disk_failed(None)
