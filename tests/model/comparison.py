"""Calls the broker, and compares what it says and has with every state that the model allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy

from tests.model.confirms import Confirms
from tests.model.driver import ADMIN, Driver
from tests.model.exploring import explore
from tests.model.frames import Said
from tests.model.program import Program
from tests.model.state import ViolationError
from tests.model.world import World, begin

Apply = Callable[[World, Said], None]


class Comparison:
    """A broker with all that a program declares, and the states that it may be in.

    Attributes:
        driver: the broker.
        worlds: the states.
        confirms: what each client knows of its messages.
    """

    def __init__(self, program: Program, driver: Driver) -> None:
        self.program, self.driver = program, driver
        for exchange in program.exchanges:
            self.driver.declare_exchange(exchange)
        for queue in program.queues:
            self.driver.declare_queue(queue)
        for binding in program.bindings:
            self.driver.bind(binding)
        self.worlds = [begin(program, self.driver.now)]
        self.confirms = [Confirms() for _ in program.clients]

    @property
    def world(self) -> World:
        """One of the worlds: what clients were told is the same in all of them."""
        return self.worlds[0]

    def call(self, client: int, data: bytes, apply: Apply, late: tuple[int, str] = (0, "")) -> None:
        """Send what a client asks for, and compare; then let the broker look for what has expired."""
        if late[0]:
            self._advance(*late)
        self.driver.call(client, data)
        self.compare(client, apply)

    def _advance(self, ms: int, queue: str) -> None:
        """Let time pass. The broker is told before the next request unless only this queue would see it."""
        self.driver.now += ms * 1000
        for world in self.worlds:
            world.now = self.driver.now
        others = [it for name, it in self.world.queues.items() if name != queue and it.ready]
        if any(self.world.is_overdue(it.ready[0]) for it in others):
            self.tick()

    def tick(self) -> None:
        """Compare after time has passed."""
        self.compare(ADMIN, lambda world, _: None)

    def compare(self, client: int, apply: Apply) -> None:
        """Let the broker come to rest, and keep the worlds that explain what it said, and has now."""
        until = time.monotonic() + self.driver.patience_s
        while True:
            self.driver.tick()
            self.driver.settle()
            try:
                self._explain(client, apply)
                break
            except ViolationError:
                if time.monotonic() >= until:
                    raise
        is_closed = self.driver.said()[client].closed is not None
        self.driver.forget_said()
        if is_closed:
            self.driver.reopen_channel(client)
            if client != ADMIN:
                self.confirms[client] = Confirms()

    def _explain(self, client: int, apply: Apply) -> None:
        said = self.driver.said()
        rows = self._rows()
        mine = said[client]
        others = [it for number, it in said.items() if number != client]
        if any(it.closed is not None or it.answers or it.got or it.confirms for it in others):
            raise ViolationError(f"a client that asked for nothing was told {others}")
        confirms = deepcopy(self.confirms[client]) if self._is_confirming(client) else Confirms()
        outcomes = confirms.hear(mine.confirms)
        seen = [delivery for it in said.values() for delivery in it.deliveries]
        cancelled = {tag for it in said.values() for tag in it.cancelled}

        def check(world: World) -> None:
            world.deliveries, world.now = list(seen), self.driver.now
            apply(world, mine)
            world.finish()
            world.rest()
            self._check_said(world, client, mine, outcomes, cancelled)
            self._check_rows(world, rows)

        worlds = explore(self.worlds, check)
        if unread := self.driver.unread():
            raise ViolationError(f"clients {unread} wait for ever: low on memory, with little in it")
        self.worlds = worlds
        if self._is_confirming(client):
            self.confirms[client] = confirms

    def _is_confirming(self, client: int) -> bool:
        return client != ADMIN and self.program.clients[client] == "confirm"

    def _check_said(self, world: World, client: int, said: Said, outcomes: list[str], cancelled: set[str]) -> None:
        expected = world.expected
        if said.closed not in (expected.closed or [None]):
            raise ViolationError(f"closed with {said.closed} {said.reason!r}, expected {expected.closed}")
        names = [answer.name for answer in said.answers]
        if names != expected.answers:
            raise ViolationError(f"answered {names}, expected {expected.answers}")
        if said.returned != expected.returned:
            raise ViolationError(f"returned {said.returned}, expected {expected.returned}")
        if cancelled != expected.cancelled:
            raise ViolationError(f"cancelled {cancelled}, expected {expected.cancelled}")
        if self._is_confirming(client) and not expected.closed and outcomes != expected.outcomes:
            raise ViolationError(f"confirmed {_brief(outcomes)}, expected {_brief(expected.outcomes)}")

    def _rows(self) -> dict[str, tuple[int, int, int]]:
        rows, _ = self.driver.broker.rows("queues", 0, 1000)
        return {row["name"]: (row["ready"], row["unacknowledged"], row["consumers"]) for row in rows}

    def _check_rows(self, world: World, rows: dict[str, tuple[int, int, int]]) -> None:
        held = [it.queue for client in world.clients for it in client.held.values() if world.is_there(it)]
        consumed = [it.queue for client in world.clients for it in client.consumers.values()]
        expected = {name: (len(it.ready), held.count(name), consumed.count(name)) for name, it in world.queues.items()}
        if rows != expected:
            different = {name: (rows.get(name), expected.get(name)) for name in rows.keys() | expected.keys()}
            text = {name: pair for name, pair in different.items() if pair[0] != pair[1]}
            raise ViolationError(f"queues have (ready, unacknowledged, consumers), expected: {text}")


def _brief(outcomes: list[str]) -> str:
    return ", ".join(f"{number + 1}: {outcome}" for number, outcome in enumerate(outcomes[:30]))
