"""A few random programs run through the sockets of a broker process, which is stopped and killed in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.amqp import close_clients
from tests.faults.promises import times
from tests.model import program as ops
from tests.model.exploring import UnclearError
from tests.model.generator import random_program
from tests.model.program import Program
from tests.model.runner import Runner
from tests.model.socket_driver import SocketDriver

PROGRAMS = times("TAMIS_SOCKET_PROGRAMS", 2, 100)
SIZE_MAX = 100


def without_time(program: Program) -> Program:
    """Return a program in which nothing expires."""

    def publish(it: ops.Publish) -> ops.Publish:
        return replace(it, expiration="soon" if it.expiration == "soon" else None)

    def operation(it: ops.Operation) -> ops.Operation:
        if isinstance(it, ops.Publish):
            return publish(it)
        if isinstance(it, ops.Burst):
            return ops.Burst(tuple(publish(one) for one in it.publishes))
        if isinstance(it, ops.Get | ops.Consume):
            return replace(it, late_ms=0)
        return replace(it, away_ms=0) if isinstance(it, ops.Restart) else it

    operations = tuple(operation(it) for it in program.operations if not isinstance(it, ops.Wait))
    queues = tuple(replace(it, ttl_ms=None, expires_ms=None) for it in program.queues)
    return replace(program, queues=queues, operations=operations)


def is_small(program: Program) -> bool:
    return all(getattr(it, "size", 0) * getattr(it, "count", 1) <= SIZE_MAX for it in program.operations)


@pytest.mark.timeout(120 + 30 * PROGRAMS)
def test_a_broker_process_does_what_the_model_says(tmp_path: Path) -> None:
    seeds = (seed for seed in range(1, 10 * PROGRAMS + 10) if is_small(random_program(seed)))
    for _, seed in zip(range(PROGRAMS), seeds, strict=False):
        print(f"seed {seed}")
        program = without_time(random_program(seed))
        folder = tmp_path / str(seed)
        folder.mkdir()
        driver = SocketDriver(program, folder)
        try:
            Runner(program, driver).run()
        except UnclearError:
            continue
        finally:
            driver.kill()
            close_clients()
