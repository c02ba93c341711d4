"""Programs that once lost a message, doubled it, or stopped the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.program import (
    BindingSpec,
    Burst,
    Commit,
    DeclareExtra,
    ExchangeSpec,
    Get,
    Program,
    Publish,
    Purge,
    QueueSpec,
    Recover,
    Restart,
    Settle,
    SettleAgain,
    Wait,
)
from tests.model.test_random_programs import violation

HUGE, BIG = 8 << 20, 1 << 16

PROGRAMS = {
    "a refused message is not acknowledged by the ack of others": Program(
        exchanges=(),
        queues=(QueueSpec("q0", length_max=0, rejects=True), QueueSpec("q1")),
        bindings=(),
        operations=(Burst((Publish(0, "", "q1"), Publish(0, "", "q0"), Publish(0, "", "q1"))),),
        clients=("confirm",),
    ),
    "dead letters are on disk before their originals are settled, whatever their size": Program(
        exchanges=(),
        queues=(QueueSpec("q0", ttl_ms=300, dead_letters="", dead_key="q1"), QueueSpec("q1")),
        bindings=(),
        operations=(*(Publish(0, "", "q0", size=HUGE) for _ in range(10)), Wait(400), Restart(kill=True)),
        clients=("confirm",),
    ),
    "a message's own time goes on after a restart, and it becomes a dead letter": Program(
        exchanges=(),
        queues=(QueueSpec("q0", dead_letters="", dead_key="q1"), QueueSpec("q1")),
        bindings=(),
        operations=(Publish(0, "", "q0", expiration="500"), Restart(), Wait(400), Get(0, "q0", late_ms=200)),
        clients=("confirm",),
    ),
    "nothing is fetched after its time, however much expires before it": Program(
        exchanges=(),
        queues=(QueueSpec("q0", ttl_ms=300),),
        bindings=(),
        operations=(Publish(0, "", "q0", persistent=False, count=12_000), Get(0, "q0", late_ms=700)),
        clients=("plain",),
    ),
    "dead letters go through an internal exchange": Program(
        exchanges=(ExchangeSpec("e0", "fanout", internal=True),),
        queues=(QueueSpec("q0", dead_letters="e0"), QueueSpec("q1")),
        bindings=(BindingSpec("e0", "q1"),),
        operations=(Publish(0, "", "q0"), Get(0, "q0"), Settle(0, how="discard")),
        clients=("plain",),
    ),
    "a transaction with a message that is refused publishes nothing": Program(
        exchanges=(),
        queues=(QueueSpec("q0"),),
        bindings=(),
        operations=(Burst((Publish(0, "", "q0"), Publish(0, "", "q0", expiration="soon"))), Commit(0)),
        clients=("tx",),
    ),
    "a transaction that settles a delivery twice publishes nothing": Program(
        exchanges=(),
        queues=(QueueSpec("q0"), QueueSpec("q1")),
        bindings=(),
        operations=(
            Publish(1, "", "q0"),
            Get(0, "q0"),
            Publish(0, "", "q1"),
            Settle(0),
            SettleAgain(0),
            Commit(0),
        ),
        clients=("tx", "plain"),
    ),
    "messages that share a queue that survives with one that does not leave memory": Program(
        exchanges=(ExchangeSpec("e0", "fanout"),),
        queues=(QueueSpec("q0"), QueueSpec("q1", durable=False)),
        bindings=(BindingSpec("e0", "q0"), BindingSpec("e0", "q1")),
        operations=(
            *(Publish(0, "e0", "", size=BIG, count=24) for _ in range(4)),
            Purge("q0"),
            Publish(0, "e0", "", size=BIG),
        ),
        clients=("confirm",),
        memory_bytes=3 << 20,
    ),
    "a queue that was purged is empty after a kill": Program(
        exchanges=(),
        queues=(QueueSpec("q0"),),
        bindings=(),
        operations=(Publish(0, "", "q0", count=1_500), Purge("q0", kill=True)),
        clients=("plain",),
    ),
    "a user has no more queues after a restart": Program(
        exchanges=(),
        queues=(QueueSpec("q0"), QueueSpec("q1")),
        bindings=(),
        operations=(Restart(), DeclareExtra(), DeclareExtra()),
        clients=("plain",),
        queues_max=3,
    ),
    "what an open transaction acknowledged is not recovered": Program(
        exchanges=(),
        queues=(QueueSpec("q0"),),
        bindings=(),
        operations=(Publish(1, "", "q0"), Get(0, "q0"), Settle(0), Recover(0), Commit(0)),
        clients=("tx", "plain"),
    ),
    "a queue that refuses messages drops none that comes back to it": Program(
        exchanges=(),
        queues=(QueueSpec("q0", length_max=1, rejects=True),),
        bindings=(),
        operations=(Publish(0, "", "q0"), Get(0, "q0"), Publish(0, "", "q0"), Settle(0, how="requeue")),
        clients=("confirm",),
    ),
    "a full queue drops what comes back to it after a kill": Program(
        exchanges=(),
        queues=(QueueSpec("q0", length_max=1, dead_letters="", dead_key="q1"), QueueSpec("q1")),
        bindings=(),
        operations=(Publish(0, "", "q0"), Get(0, "q0"), Publish(0, "", "q0"), Restart(kill=True)),
        clients=("confirm",),
    ),
    "two messages that push each other out of a queue do not stop the broker": Program(
        exchanges=(),
        queues=(QueueSpec("q0", length_max=1, dead_letters=""),),
        bindings=(),
        operations=(
            Publish(0, "", "q0"),
            Get(0, "q0"),
            Settle(0, how="discard"),
            Get(0, "q0"),
            Publish(0, "", "q0"),
            Get(0, "q0"),
            Settle(0, pick=1, how="discard"),
            Settle(0, how="discard"),
        ),
        clients=("plain",),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.timeout(120)
def test_a_program_does_what_the_model_says(name: str, tmp_path: Path) -> None:
    assert violation(PROGRAMS[name], tmp_path) is None
