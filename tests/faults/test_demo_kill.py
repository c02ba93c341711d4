"""The demo, killed with -9 at points spread over its whole run, ends with the outbox that brute force computes.

From laying out the folder over Spark's start to the last delivery: a kill comes at a share of the time that the demo
takes, which the long form measures and the short form assumes. `TAMIS_LONG=1 pytest tests/faults` is the long form;
TAMIS_SEED repeats a run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis.demo import DemoFolder, lay_out, run_demo
from tamis.query import load_queries
from tamis.store import Store
from tests.demo.oracle import expected_matches
from tests.faults.processes import kill_group
from tests.faults.promises import LONG, times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KILLS = times("TAMIS_DEMO_KILLS", 1, 10)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
RUN_S = 15.0
"""How long the short form takes a run to be, so that it needs not one more."""
RUN_S_MAX = 240.0


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tamis", "demo", "--folder", str(folder), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def seconds_of_a_run(folder: Path) -> float:
    """Run the whole demo; return the seconds that it took."""
    began = time.monotonic()
    with start(folder) as child:
        lines, errors = child.communicate(timeout=RUN_S_MAX)
    assert child.returncode == 0, f"{errors}{lines[-4000:]}"  # what failed is in the last lines
    return time.monotonic() - began


def assert_outbox_is(folder: DemoFolder, expected: dict[str, set[str]]) -> None:
    in_rows = {spec.key for spec in load_queries(folder.queries) if spec.deliveries == ("rows",)}
    with Store.open(folder.store, create=False) as store:
        assert store.notification_ids() == set().union(*expected.values())
        assert store.counts().deliveries_pending == 0
    as_mail = [ids for key, ids in expected.items() if key not in in_rows]
    assert {path.stem for path in folder.outbox.iterdir()} == set().union(*as_mail)


@pytest.mark.timeout(600 + 120 * KILLS)
def test_the_killed_demo_ends_with_the_outbox_of_brute_force(tmp_path: Path, lasting_spark: SparkSession) -> None:
    print(f"TAMIS_SEED={SEED} TAMIS_DEMO_KILLS={KILLS}")
    chance = random.Random(SEED)
    whole_s = seconds_of_a_run(tmp_path / "whole") if LONG else RUN_S
    for kill in range(KILLS):
        after_s = whole_s * (kill + chance.random()) / KILLS
        folder = tmp_path / f"killed-{kill}"
        with start(folder) as child:
            time.sleep(after_s)  # the kill comes at that time, whatever the demo is doing
            ended = child.poll()
            kill_group(child)
        left = notification_count(folder)
        print(f"kill {kill + 1}: after {after_s:.1f} of {whole_s:.1f} s, {left} notifications", end="")
        print("" if ended is None else ", at its end")
        laid_out = lay_out(folder)
        assert run_demo(laid_out).summary.failed == {}, "an adapter that fails reads the rest at the next start"
        expected = expected_matches(laid_out)[0]
        assert_outbox_is(laid_out, expected)
    planted = {**expected, "planted": {"a notification that the demo does not have"}}
    with pytest.raises(AssertionError):
        assert_outbox_is(laid_out, planted)


def notification_count(folder: Path) -> int:
    """Return the number of notifications in the store, if it exists."""
    path = folder / "tamis.sqlite"
    if not path.exists():
        return 0
    with Store.open(path) as store:
        return len(store.notification_ids())
