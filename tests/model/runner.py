"""Runs a program: does each of its operations on the broker and on the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod

from pamqp import commands

from tests.model import frames, requests
from tests.model import program as ops
from tests.model.comparison import Comparison
from tests.model.confirms import Confirms
from tests.model.driver import ADMIN, Driver
from tests.model.exploring import explore
from tests.model.frames import Said
from tests.model.state import Consumer, ViolationError
from tests.model.world import World

DRAINED_MAX = 40


class Runner(Comparison):
    """A program on its way.

    Attributes:
        step: the number of the operation that runs.
    """

    def __init__(self, program: ops.Program, driver: Driver) -> None:
        super().__init__(program, driver)
        self.step = -1
        self._messages = self._consumers = self._extras = 0

    def run(self) -> None:
        """Run all operations, and fetch what is left.

        Raises:
            ViolationError: the broker did what no rule allows.
            UnclearError: it cannot be told.
        """
        for step, operation in enumerate(self.program.operations):
            self.step = step
            self.do(operation)
        self._drain()
        lost = self.driver.broker.metrics()["lost"]
        if lost:
            raise ViolationError(f"the broker says that it lost {lost} messages")

    # ---- operations ----

    @singledispatchmethod
    def do(self, operation: ops.Operation) -> None:
        """Do one operation, if it makes sense now."""
        raise TypeError(operation)

    @do.register
    def _(self, it: ops.Publish) -> None:
        self._publish(it.client, [it])

    @do.register
    def _(self, it: ops.Burst) -> None:
        self._publish(it.publishes[0].client, it.publishes)

    def _publish(self, client: int, publishes: Sequence[ops.Publish]) -> None:
        items, parts = [], []
        for publish in publishes:
            pattern = frames.message(publish, frames.body_of(0, publish.size))
            for _ in range(publish.count):
                self._messages += 1
                items.append((self._messages, publish))
                parts.append(pattern.replace(frames.body_of(0, 8), frames.body_of(self._messages, 8)))
        self.confirms[client].published += len(items)
        self.call(client, b"".join(parts), lambda world, said: requests.publish_all(world, client, items, said))

    @do.register
    def _(self, it: ops.Get) -> None:
        data = frames.method(commands.Basic.Get(queue=it.queue, no_ack=it.no_ack))
        self.call(
            it.client,
            data,
            lambda world, said: requests.get(world, it.client, it.queue, it.no_ack, said),
            late=(it.late_ms, it.queue),
        )

    @do.register
    def _(self, it: ops.Consume) -> None:
        self._consumers += 1
        tag = f"c{self._consumers}"
        consumer = Consumer(it.queue, it.prefetch, it.no_ack)
        data = frames.method(commands.Basic.Qos(prefetch_count=it.prefetch)) + frames.method(
            commands.Basic.Consume(queue=it.queue, consumer_tag=tag, no_ack=it.no_ack)
        )
        self.call(
            it.client,
            data,
            lambda world, _: requests.consume(world, it.client, tag, consumer),
            late=(it.late_ms, it.queue),
        )

    @do.register
    def _(self, it: ops.Cancel) -> None:
        if tags := list(self.world.clients[it.client].consumers):
            tag = tags[it.pick % len(tags)]
            data = frames.method(commands.Basic.Cancel(consumer_tag=tag))
            self.call(it.client, data, lambda world, _: requests.cancel(world, it.client, tag))

    @do.register
    def _(self, it: ops.Prefetch) -> None:
        def apply(world: World, _: Said) -> None:
            world.clients[it.client].prefetch = it.count
            world.expected.answers.append("Basic.QosOk")

        self.call(it.client, frames.method(commands.Basic.Qos(prefetch_count=it.count, global_=True)), apply)

    @do.register
    def _(self, it: ops.Settle) -> None:
        if not (tags := requests.open_tags(self.world.clients[it.client])):
            return
        pick = it.pick % len(tags)
        tag = 0 if it.all else tags[pick]
        multiple = it.multiple or it.all
        chosen = tags if it.all else tags[: pick + 1] if multiple else [tag]
        if it.how == "reject":
            data = frames.method(commands.Basic.Reject(tag, requeue=False))
            chosen = [tag] if not it.all else []
        elif it.how == "ack":
            data = frames.method(commands.Basic.Ack(tag, multiple))
        else:
            data = frames.method(commands.Basic.Nack(tag, multiple, it.how == "requeue"))
        how = "discard" if it.how == "reject" else it.how
        if chosen:
            self.call(it.client, data, lambda world, said: requests.settle(world, it.client, chosen, how, said))

    @do.register
    def _(self, it: ops.SettleAgain) -> None:
        client = self.world.clients[it.client]
        tag = client.last_settled
        if tag and tag not in requests.open_tags(client):
            data = frames.method(commands.Basic.Ack(tag))
            self.call(it.client, data, lambda world, said: requests.settle(world, it.client, [tag], "ack", said))

    @do.register
    def _(self, it: ops.Recover) -> None:
        data = frames.method(commands.Basic.Recover(requeue=True))
        self.call(it.client, data, lambda world, _: requests.recover(world, it.client))

    @do.register
    def _(self, it: ops.Commit) -> None:
        if self.program.clients[it.client] == "tx":
            data = frames.method(commands.Tx.Commit())
            self.call(it.client, data, lambda world, _: requests.commit(world, it.client))

    @do.register
    def _(self, it: ops.Rollback) -> None:
        if self.program.clients[it.client] == "tx":
            data = frames.method(commands.Tx.Rollback())
            self.call(it.client, data, lambda world, _: requests.rollback(world, it.client))

    @do.register
    def _(self, it: ops.Disconnect) -> None:
        self.driver.disconnect(it.client)
        self.compare(ADMIN, lambda world, _: requests.close_channel(world, it.client))
        self.driver.connect(it.client)
        self.confirms[it.client] = Confirms()

    @do.register
    def _(self, it: ops.Wait) -> None:
        end = self.driver.now + it.ms * 1000
        while self.driver.now < end:
            times = {time for world in self.worlds for time in world.due_times()}
            self.driver.now = min([time for time in times if self.driver.now < time] + [end])
            self.driver.now = min(self.driver.now, end)
            self.tick()

    @do.register
    def _(self, it: ops.Declare) -> None:
        spec = next(spec for spec in self.program.queues if spec.name == it.queue)
        self._declare(spec)

    @do.register
    def _(self, it: ops.DeclareExtra) -> None:
        self._extras += 1
        self._declare(ops.QueueSpec(f"extra{self._extras}"))

    def _declare(self, spec: ops.QueueSpec) -> None:
        maximum = self.program.queues_max
        self.call(ADMIN, frames.queue(spec), lambda world, _: requests.declare(world, spec, maximum))

    @do.register
    def _(self, it: ops.Purge) -> None:
        if it.queue not in self.world.queues:
            return

        def apply(world: World, _: Said) -> None:
            world.queues[it.queue].ready = []
            world.expected.answers.append("Queue.PurgeOk")

        data = frames.method(commands.Queue.Purge(queue=it.queue))
        if not it.kill:
            self.call(ADMIN, data, apply)
            return
        self.driver.call_until_answered(ADMIN, data)
        self.driver.kill()
        for world in self.worlds:
            world.queues[it.queue].ready = []
        self._start(is_clean=False, away_ms=0)

    @do.register
    def _(self, it: ops.Delete) -> None:
        self.call(
            ADMIN,
            frames.method(commands.Queue.Delete(queue=it.queue)),
            lambda world, _: requests.delete(world, it.queue),
        )

    @do.register
    def _(self, it: ops.DeleteExchange) -> None:
        def apply(world: World, _: Said) -> None:
            world.topology.exchanges.pop(it.exchange, None)
            world.topology.remove_target(it.exchange, is_exchange=True)
            world.expected.answers.append("Exchange.DeleteOk")

        self.call(ADMIN, frames.method(commands.Exchange.Delete(exchange=it.exchange)), apply)

    @do.register
    def _(self, it: ops.Bind) -> None:
        spec = self.program.bindings[it.index % len(self.program.bindings)]
        targets = self.world.topology.exchanges if spec.to_exchange else self.world.queues
        if spec.source not in self.world.topology.exchanges or spec.target not in targets:
            return

        def apply(world: World, _: Said) -> None:
            world.topology.bindings = [other for other in world.topology.bindings if other != spec]
            if it.is_made:
                world.topology.bindings.append(spec)
            kind = "Exchange" if spec.to_exchange else "Queue"
            world.expected.answers.append(f"{kind}.{'Bind' if it.is_made else 'Unbind'}Ok")

        self.call(ADMIN, frames.binding(spec, is_made=it.is_made), apply)

    @do.register
    def _(self, it: ops.Restart) -> None:
        if it.kill:
            self.driver.kill()
        else:
            self.driver.stop()
            self.worlds = explore(self.worlds, lambda world: (requests.stop(world), world.finish()))
        self._start(is_clean=not it.kill, away_ms=it.away_ms)

    def _start(self, *, is_clean: bool, away_ms: int) -> None:
        self.driver.start(away_ms)
        self.confirms = [Confirms() for _ in self.program.clients]
        for world in self.worlds:
            requests.restart(world, self.driver.now, is_clean=is_clean)
        self.compare(ADMIN, lambda world, _: requests.drop_overflow(world))

    def _drain(self) -> None:
        """Fetch what is in the queues, and compare."""
        for name in list(self.world.queues):
            for _ in range(min(len(self.world.queues[name].ready) + 1, DRAINED_MAX)):
                if name in self.world.queues:
                    self.do(ops.Get(ADMIN, name, no_ack=True))
