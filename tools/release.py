"""Builds the wheels and the sdist into dist/, and tries each in a clean environment.

`make release` calls it. A wheel for another processor cannot run here, so only its contents are checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
DIST = PROJECT / "dist"
VERSION = tomllib.loads((PROJECT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
MACHINES = {"x86_64": 62, "aarch64": 183}
"""Processor -> its number in the header of a program (ELF's e_machine)."""

LICENSES = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES"]


def main() -> int:
    """Build, inspect and try everything; print what was skipped, and return 1 if anything is wrong."""
    run(sys.executable, "-m", "tools.licenses")
    run("maturin", "sdist", "--out", str(DIST))
    built = [machine for machine in MACHINES if build_wheel(machine)]
    run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    faults = [fault for machine in built for fault in inspect(wheel_of(machine), machine)]
    for path in [wheel_of(os.uname().machine), *DIST.glob("*.tar.gz")]:
        try_alone(path)
    print("\n".join([*faults, *(f"dist/{path.name}" for path in sorted(DIST.iterdir()))]))
    return 1 if faults else 0


def run(*command: str, cwd: Path = PROJECT, **environment: str) -> None:
    """Print and run a command; end the program if it fails."""
    print("==", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(f"error: {command[0]} failed")


def build_wheel(machine: str) -> bool:
    """Build a wheel for manylinux2014; return False if the toolchain lacks the processor's library."""
    target = f"{machine}-unknown-linux-gnu"
    command = ["rustc", "--print", "target-libdir", "--target", target]
    if not Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()).is_dir():
        print(f"skipped: no wheel for {machine}: install Rust's library for it with: rustup target add {target}")
        return False
    run("maturin", "build", "--release", "--locked", "--quiet", "--zig", "--compatibility", "manylinux2014",
        "--target", target, "--out", str(DIST))  # fmt: skip
    return True


def wheel_of(machine: str) -> Path:
    """Return the wheel that was built for a processor."""
    return next(DIST.glob(f"*manylinux2014_{machine}*.whl"))


def inspect(wheel: Path, machine: str) -> list[str]:
    """Return the faults of a wheel's contents."""
    folder = f"tamis-{VERSION}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        core = archive.read("tamis/_core.abi3.so")
        described = archive.read(f"{folder}/METADATA").decode()
    checks = {
        "has the wrong version": re.search(rf"^Version: {re.escape(VERSION)}$", described, re.MULTILINE) is None,
        f"has no core for {machine}": int.from_bytes(core[18:20], "little") != MACHINES[machine],
        "lacks licences": not {f"{folder}/licenses/{name}" for name in LICENSES} <= set(names),
        "has files of the build": any("__pycache__" in name or name.startswith("tests/") for name in names),
    }
    return [f"{wheel.name} {fault}" for fault, holds in checks.items() if holds]


def try_alone(path: Path) -> None:
    """Install a wheel or an sdist into an empty environment, and match a message with it from another folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv/bin/python")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", str(path),
            CARGO_TARGET_DIR=str(PROJECT / "target"))  # fmt: skip
        shutil.copy(PROJECT / ".ci/wheel_alone.py", folder)
        run(python, "-I", "wheel_alone.py", cwd=folder)


if __name__ == "__main__":
    sys.exit(main())
