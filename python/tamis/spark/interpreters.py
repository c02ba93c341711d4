"""Tells kinds of sessions apart, and checks that Spark's workers run a Python that has this tamis."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

import tamis

_ASK = "import sys, tamis; print(tamis.__version__, *sys.version_info[:2])"
_ANSWER_S_MAX = 60


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session talks to a server through Spark Connect, so that it has no Java of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(spark: SparkSession) -> bool:
    """Return whether the workers of a session run on this machine."""
    return not is_connect(spark) and str(spark.sparkContext.master).startswith("local")


def check_python(spark: SparkSession) -> None:
    """Warn if the workers of a session on this machine run a Python without this version of tamis.

    Cost: once for each other Python, 0.1 s to start it.
    """
    if is_local(spark) and (reason := _reason(str(spark.sparkContext.pythonExec))):
        warnings.warn(reason, RuntimeWarning, stacklevel=3)


@functools.cache
def _reason(python: str) -> str | None:
    """Return why workers that run `python` cannot work; None if they can."""
    found = shutil.which(python) or python
    if Path(found).absolute() == Path(sys.executable).absolute():
        return None
    ours = f"{tamis.__version__} {sys.version_info[0]} {sys.version_info[1]}"
    try:
        asked = subprocess.run(  # noqa: S603 - Spark will start the same program
            [found, "-c", _ASK], capture_output=True, text=True, timeout=_ANSWER_S_MAX, check=False
        )
        theirs, trouble = asked.stdout.strip(), (asked.stderr.strip().splitlines() or [""])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        theirs, trouble = "", str(error)
    if theirs == ours:
        return None
    return different(found, sys.executable, _described(theirs) if theirs else trouble, _described(ours))


def different(theirs: str, ours: str, found: str, expected: str) -> str:
    """Return the words for workers with another Python than the driver."""
    return (
        f"Spark's workers run {theirs} ({found}), and this program runs {ours} ({expected}): they need the same. Set "
        f"PYSPARK_PYTHON={ours} before the session starts, or let tamis.spark.session() start it"
    )


def _described(answer: str) -> str:
    version, *python = answer.split()
    return f"tamis {version}, Python {'.'.join(python)}"
