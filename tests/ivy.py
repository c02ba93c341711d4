"""Fetches jars through the Ivy that PySpark brings, and checks their digests."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

FETCH_S = 120
MODULE = '<dependency org="{0}" name="{1}" rev="{2}" transitive="false"/>'
IVY = """<ivy-module version="2.0"><info organisation="tamis" module="tests"/>
<dependencies>{modules}</dependencies></ivy-module>"""
SETTINGS = """<ivysettings><settings defaultResolver="all"/><property name="ivy.checksums" value=""/>
<caches defaultCacheDir="{folder}/cache"/><resolvers>
<ibiblio name="all" m2compatible="true" usepoms="false" useMavenMetadata="false"/>
</resolvers></ivysettings>"""


class NoJarsError(Exception):
    """The jars cannot be had here; the text says why."""


def jars(listed: Path, folder: Path) -> list[Path]:
    """Return the jars of a list, fetched into the folder if that is absent.

    Args:
        listed: a file with a line of organisation, name, version and SHA-256 for each jar.
        folder: where they are, or go.

    Raises:
        NoJarsError: they cannot be had, or differ from those that are expected.
    """
    wanted = [line.split() for line in listed.read_text().splitlines() if not line.startswith("#")]
    if not folder.is_dir():
        _fetch(wanted, folder)
    paths = []
    for _, name, version, digest in wanted:
        path = folder / f"{name}-{version}.jar"
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise NoJarsError(f"{path} is not the one of {listed.name}; remove {folder}")
        paths.append(path)
    return paths


def of_spark(names: Iterable[str]) -> list[Path]:
    """Return the jars of PySpark with these names.

    Raises:
        NoJarsError: PySpark is not installed.
    """
    return [path for name in names for path in _folder_of_spark().glob(f"{name}-[0-9]*.jar")]


def java() -> str:
    """Return the path of the program java.

    Raises:
        NoJarsError: there is none.
    """
    from tamis.spark.java import JavaNotFoundError, find_java

    try:
        return str(find_java().home / "bin" / "java")
    except JavaNotFoundError as error:
        raise NoJarsError(str(error)) from error


def _folder_of_spark() -> Path:
    try:
        import pyspark
    except ImportError as error:
        raise NoJarsError("PySpark is not installed") from error
    return Path(pyspark.__file__).parent / "jars"


def _fetch(wanted: Sequence[Sequence[str]], folder: Path) -> None:
    """Fetch jars without their descriptions: the list names all of them."""
    modules = "".join(MODULE.format(*one) for one in wanted)
    ivy = next(_folder_of_spark().glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        work = Path(scratch)
        (work / "ivy.xml").write_text(IVY.format(modules=modules))
        (work / "settings.xml").write_text(SETTINGS.format(folder=work))
        files = ("-settings", "settings.xml", "-ivy", "ivy.xml", "-types", "jar", "-confs", "default")
        command = [java(), "-jar", str(ivy), *files, "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"]
        try:
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=FETCH_S)
        except (subprocess.TimeoutExpired, OSError) as error:
            raise NoJarsError(f"the jars cannot be fetched: {error}") from error
        if done.returncode or not (work / "jars").is_dir():
            raise NoJarsError(f"the jars cannot be fetched: {(done.stdout + done.stderr)[-500:]}")
        with suppress(OSError):  # another run was faster
            (work / "jars").rename(folder)
