"""Faults of a wheel are found before it is published."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tools.release import VERSION, inspect

FOLDER = f"tamis-{VERSION}.dist-info"
LICENSES = [f"{FOLDER}/licenses/{name}" for name in ("LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES")]
AARCH64 = b"\x7fELF" + bytes(14) + b"\xb7\x00"


def wheel(path: Path, names: list[str], version: str = VERSION) -> Path:
    with zipfile.ZipFile(path / "tamis.whl", "w") as archive:
        archive.writestr("tamis/_core.abi3.so", AARCH64)
        archive.writestr(f"{FOLDER}/METADATA", f"Name: tamis\nVersion: {version}\n")
        for name in names:
            archive.writestr(name, "")
    return path / "tamis.whl"


def test_a_whole_wheel_has_no_fault(tmp_path: Path) -> None:
    assert inspect(wheel(tmp_path, LICENSES), "aarch64") == []


def test_every_fault_is_named(tmp_path: Path) -> None:
    assert inspect(wheel(tmp_path, [*LICENSES[:2], "tests/test_a.py"], "0.0.0"), "x86_64") == [
        "tamis.whl has the wrong version",
        "tamis.whl has no core for x86_64",
        "tamis.whl lacks licences",
        "tamis.whl has files of the build",
    ]
