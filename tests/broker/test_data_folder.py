"""Only one broker at a time uses a data directory."""

from __future__ import annotations

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
