"""Runs Quamina (Go) and event-ruler (Java) on rules and events, where they can be had.

Quamina is built by the program `go`: from the folder that TAMIS_QUAMINA names, or else from Go's modules. The jars of
event-ruler come through the Ivy that PySpark brings. Our own programs in `event_rules` call them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
DRIVERS = Path(__file__).resolve().parent / "event_rules"
JACKSON = ("jackson-core", "jackson-databind", "jackson-annotations")
MODULE = "quamina.net/go/quamina/v2"
VERSION = "v2.0.2"
BUILD_S, RUN_S = 300, 900


class NoPeerError(Exception):
    """A peer cannot be had here; the text says why."""


@dataclass(frozen=True)
class Peer:
    """A program that is ready to be run with the names of two files and a number of runs."""

    name: str
    key: str
    command: list[str]

    def run(self, rules: Path, events: Path, runs: int) -> tuple[list[list[int]], list[float]]:
        """Return the numbers of the rules that match each event, and the CPU microseconds per event of each run."""
        command = [*self.command, str(rules), str(events), str(runs)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RUN_S)
        if done.returncode:
            raise SystemExit(f"error: {self.name}: {_last(done.stderr)}")
        found, means = map(json.loads, done.stdout.splitlines())
        return found, [mean / 1_000 for mean in means]


def quamina(folder: Path) -> Peer:
    """Build the program for Quamina in a folder.

    Raises:
        NoPeerError: there is no Go, or no Quamina.
    """
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise NoPeerError("there is no program go")
    source = os.environ.get("TAMIS_QUAMINA")
    replace = f"replace {MODULE} => {Path(source).resolve()}\n" if source else ""
    (folder / "go.mod").write_text(f"module tamis/benchmarks\n\ngo 1.22\n\nrequire {MODULE} {VERSION}\n\n{replace}")
    shutil.copy(DRIVERS / "quamina.go", folder / "main.go")
    command = [go, "build", "-mod=mod", "-o", "quamina", "."]
    built = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=BUILD_S)
    if built.returncode:
        raise NoPeerError(f"Quamina cannot be built; TAMIS_QUAMINA may name a folder with it: {_last(built.stderr)}")
    return Peer("Quamina", "quamina", [str(folder / "quamina")])


def event_ruler() -> Peer:
    """Return the program for event-ruler.

    Raises:
        NoPeerError: there is no Java, or the jars cannot be had.
    """
    sys.path.insert(0, str(PROJECT))
    from tests.ivy import NoJarsError, jars, java, of_spark

    try:
        program, own, shared = java(), jars(DRIVERS / "jars.txt", Path(sys.prefix) / "event-ruler"), of_spark(JACKSON)
    except NoJarsError as error:
        raise NoPeerError(f"event-ruler: {_last(str(error))}") from error
    classpath = os.pathsep.join(map(str, [*own, *shared]))
    return Peer(
        "event-ruler", "ruler", [program, "-XX:+UseSerialGC", "-cp", classpath, str(DRIVERS / "EventRuler.java")]
    )


def _last(text: str) -> str:
    """Return the last line of a text."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
