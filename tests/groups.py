"""Groups test files for the workers of pytest-xdist: all that use a Spark session are two, so that it starts twice.

The fault tests with a session are a group of their own: they wait for programs that they start and kill, and take as
long as all others with a session together."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

SPARK = ("spark", "spark and faults")
"""The groups whose tests share a session, each group one of its own."""
PROJECT = Path(__file__).resolve().parent.parent
SESSION_FIXTURES = re.compile(r"spark: SparkSession|workshop: Workshop")


class GroupScheduling(LoadFileScheduling):
    """Gives a worker a whole group at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])


@functools.cache
def group_of(file: str) -> str:
    """Return the group of a file, which is named from the project's folder: its own, or one of those with a session."""
    if SESSION_FIXTURES.search((PROJECT / file).read_text(encoding="utf-8")):
        return SPARK[file.startswith("tests/faults/")]
    return file
