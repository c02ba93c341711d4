"""Random programs do on the broker what the model of AMQP queues says.

`TAMIS_PROGRAMS=5000 pytest tests/model` runs more of them; `TAMIS_SEED=7 TAMIS_PROGRAMS=1` runs that one alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.faults.promises import times
from tests.model.driver import Driver
from tests.model.exploring import UnclearError
from tests.model.generator import random_program
from tests.model.program import Program
from tests.model.runner import Runner
from tests.model.shrink import shrink
from tests.model.state import ViolationError

PROGRAMS = times("TAMIS_PROGRAMS", 300, 10_000)
SEED = int(os.environ.get("TAMIS_SEED", "1"))
UNCLEAR_SHARE_MAX = 0.02


def violation(program: Program, folder: Path) -> str | None:
    """Return what the broker does against the rules when it runs a program, or None.

    Raises:
        UnclearError: it cannot be told.
    """
    with tempfile.TemporaryDirectory(dir=folder) as data:
        driver = Driver(program, Path(data))
        runner = Runner(program, driver)
        try:
            runner.run()
        except ViolationError as error:
            return f"operation {runner.step}: {error}"
        finally:
            driver.end()
        return None


def fails(program: Program, folder: Path) -> bool:
    """Return whether a program can be declared, and the broker does something against the rules then."""
    try:
        return violation(program, folder) is not None
    except (UnclearError, ValueError):
        return False


@pytest.mark.timeout(300 + PROGRAMS)
def test_the_broker_does_what_the_model_says(tmp_path: Path) -> None:
    unclear = 0
    for seed in range(SEED, SEED + PROGRAMS):
        program = random_program(seed)
        print(f"TAMIS_SEED={seed}")  # also of a program that the broker never ends
        try:
            found = violation(program, tmp_path)
        except UnclearError:
            unclear += 1
            continue
        if found is not None:
            small = shrink(program, lambda smaller: fails(smaller, tmp_path))
            pytest.fail(f"TAMIS_SEED={seed}: {found}\n{small}\n{violation(small, tmp_path)}", pytrace=False)
    print(f"{PROGRAMS} programs, {unclear} unclear")
    assert unclear <= UNCLEAR_SHARE_MAX * PROGRAMS, "too much is left open for the test to prove anything"
