"""Builds the core with each planted fault, and lets the model find it: `make planted`.

The core of each fault is built in `target/planted`, from a copy of the sources. The programs of `test_programs.py` run
on it first, then random ones until one shows the fault. A fault that no random program shows fails the run."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.model.exploring import UnclearError
from tests.model.generator import random_program
from tests.model.planted import BROKER, FAULTS, Fault
from tests.model.program import Program
from tests.model.test_programs import PROGRAMS
from tests.model.test_random_programs import violation

PROJECT = Path(__file__).resolve().parents[2]
HOME = PROJECT / "target" / "planted"
SOURCE = HOME / "source"
SOURCES = ("Cargo.toml", "Cargo.lock", "rustfmt.toml", "crates", "benches", "python", "pyproject.toml", "README.md")
BUILD = {
    "CARGO_TARGET_DIR": str(HOME / "target"),
    "CARGO_PROFILE_DEV_DEBUG": "none",
    "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
    "CARGO_PROFILE_DEV_OVERFLOW_CHECKS": "false",
}
"""The checks that a debug build has would find some faults before the model does."""
SOUND = "no fault"
SEARCH_S_MAX = 3_600


@dataclass(frozen=True)
class Found:
    """What shows a fault.

    Attributes:
        program: the name of the first program of `test_programs.py` that does, or None.
        seed: the first random program that does, or None.
        tried: the number of random programs that ran.
        wrong: what the broker did in that random program.
    """

    program: str | None
    seed: int | None
    tried: int
    wrong: str | None


def main() -> int:
    """Find every fault, and print a table of what shows it. Returns 1 when one was not found."""
    options = _options()
    if options.search:
        print(json.dumps(asdict(search(options.programs, options.first))))
        return 0
    chosen = [fault for fault in (None, *FAULTS) if options.only in (fault.says if fault else SOUND)]
    if not chosen:
        sys.exit(f"error: no fault is described with {options.only!r}")
    found: list[tuple[Fault | None, Found]] = []
    _copy_sources()
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(chosen))
        for fault in chosen:
            progress.update(task, description=fault.says if fault else SOUND)
            with _built(fault):
                it = _search_in_a_process(options.programs, options.first)
            progress.console.print(f"{fault.says if fault else SOUND}: {it.wrong or 'nothing is wrong'}", markup=False)
            found.append((fault, it))
            progress.advance(task)
    _print(found, options.json)
    return int(not all(_is_right(fault, it) for fault, it in found))


def _is_right(fault: Fault | None, found: Found) -> bool:
    """Return whether a fault was found by a random program, or nothing was found in a sound core."""
    return found.seed is not None if fault else found.seed is None and found.program is None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Show that the model of AMQP queues finds each planted fault.")
    parser.add_argument("--programs", type=int, default=3000, help="at most so many random programs for each fault")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first random program")
    parser.add_argument("--only", default="", help="only faults whose description has this text")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument(
        "--search", action="store_true", help="search with the core that is installed, and print it as JSON"
    )
    return parser.parse_args()


def search(programs: int, first: int) -> Found:
    """Return what shows a fault of the core that is imported."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        shown = next((name for name, program in PROGRAMS.items() if _wrong(program, path)), None)
        for tried, seed in zip(range(1, programs + 1), count(first), strict=False):
            if wrong := _wrong(random_program(seed), path):
                return Found(shown, seed, tried, wrong)
    return Found(shown, None, programs, None)


def _wrong(program: Program, folder: Path) -> str | None:
    try:
        return violation(program, folder)
    except UnclearError:
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (a core with a fault may do anything, and its panics are no Exception)
        return f"{type(error).__name__}: {error}"


def _copy_sources() -> None:
    """Copy the sources, so that the project may be changed meanwhile."""
    copied = {SOURCE / file.relative_to(PROJECT): file for name in SOURCES for file in _files(PROJECT / name)}
    for place, file in copied.items():
        _write(place, file.read_bytes())
    for place in set(_files(SOURCE)) - set(copied):
        place.unlink()


@contextmanager
def _built(fault: Fault | None) -> Iterator[None]:
    """Build the core of the copy with a fault, beside the Python part of the project; take the fault out in the end."""
    place = SOURCE / BROKER / (fault.file if fault else "")
    sound = place.read_bytes() if fault else b""
    if fault:
        place.write_text(fault.plant(sound.decode()))
    try:
        command = ["cargo", "build", "--quiet", "--locked", "-p", "tamis-python"]
        subprocess.run(command, cwd=SOURCE, check=True, env=os.environ | BUILD)
        built = next(it for it in (HOME / "target" / "debug").iterdir() if it.name in ("lib_core.so", "lib_core.dylib"))
        module = SOURCE / "python" / "tamis" / "_core.abi3.so"
        module.unlink(missing_ok=True)
        shutil.copy(built, module)
        yield
    finally:
        if fault:
            place.write_bytes(sound)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in path.rglob("*"):
        if file.is_file() and file.suffix not in (".so", ".pyc", ".dylib"):
            yield file


def _write(path: Path, text: bytes) -> None:
    """Write a file where it differs: cargo builds again what is newer than its last build."""
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def _search_in_a_process(programs: int, first: int) -> Found:
    command = [sys.executable, "-m", "tests.model.find_planted", "--search"]
    command += ["--programs", str(programs), "--first", str(first)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE / "python")}
    begun = time.monotonic()
    ended = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=SEARCH_S_MAX
    )
    if ended.returncode != 0:
        raise RuntimeError(f"it ended with {ended.returncode} after {time.monotonic() - begun:.0f} s:\n{ended.stderr}")
    return Found(**json.loads(ended.stdout.splitlines()[-1]))


def _print(found: list[tuple[Fault | None, Found]], is_json: bool) -> None:
    if is_json:
        rows = [{"fault": fault.says if fault else None, **asdict(it)} for fault, it in found]
        print(json.dumps(rows, indent=2))
        return
    table = Table("of", "the fault", "a program for it", "random programs", "what the broker does", show_lines=True)
    for fault, it in found:
        tried = f"{it.tried}, none shows it" if it.seed is None else f"{it.tried} (seed {it.seed})"
        table.add_row(fault.kind if fault else "", fault.says if fault else SOUND, it.program, tried, it.wrong)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
