"""Groups test files for the workers of pytest-xdist: all that use the Spark session are one, so it starts once."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

SPARK = "spark"
PROJECT = Path(__file__).resolve().parent.parent
SESSION_FIXTURES = re.compile(r"spark: SparkSession|workshop: Workshop")


class GroupScheduling(LoadFileScheduling):
    """Gives a worker a whole group at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])


@functools.cache
def group_of(file: str) -> str:
    """Return the group of a file, which is named from the project's folder: its own, or that of the session."""
    return SPARK if SESSION_FIXTURES.search((PROJECT / file).read_text(encoding="utf-8")) else file
