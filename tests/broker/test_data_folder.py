"""Only one broker at a time uses a data directory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.broker.data_folder import DataFolder
from tamis.errors import ConfigError


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a" / "b") as folder:
        assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_second_broker_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    with DataFolder(tmp_path), pytest.raises(ConfigError, match=rf"another broker \(process {os.getpid()}\) uses"):
        DataFolder(tmp_path)
    DataFolder(tmp_path).close()


def test_a_broker_that_was_killed_leaves_it_free(tmp_path: Path) -> None:
    program = "import os, sys; from pathlib import Path; from tamis.broker.data_folder import DataFolder\n"
    program += "DataFolder(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == -9
    DataFolder(tmp_path).close()


def test_a_place_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="the data directory cannot be used"):
        DataFolder(tmp_path / "file")


def test_what_other_users_could_open_is_closed_to_them(tmp_path: Path) -> None:
    segment = tmp_path / "streams" / "log.4" / "00000001-00000000000000000001.segment"
    for folder in (tmp_path / "journal", segment.parent):
        folder.mkdir(parents=True)
    for path in (tmp_path / "journal" / "mark", segment):
        path.write_bytes(b"bodies")
        path.chmod(0o644)
    for folder in (tmp_path / "journal", tmp_path / "streams", segment.parent):
        folder.chmod(0o755)
    with DataFolder(tmp_path) as folder:
        assert folder.made_private == 5
    modes = {path.stat().st_mode & 0o777 for name in ("journal", "streams") for path in (tmp_path / name).rglob("*")}
    assert modes == {0o600, 0o700}
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700
    with DataFolder(tmp_path) as folder:
        assert folder.made_private == 0


def test_what_is_open_to_others_and_belongs_to_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal").chmod(0o755)

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(ConfigError, match=r"journal: other users can open it, and it belongs to another one"):
        DataFolder(tmp_path)
    monkeypatch.undo()
    DataFolder(tmp_path).close()  # the lock was released
