"""Random programs, each from a seed."""

from __future__ import annotations

import random

from tests.model import program as ops
from tests.model.program import BindingSpec, ExchangeSpec, Operation, Program, Publish, QueueSpec
from tests.model.routing import QUERIES

KINDS = ("direct", "fanout", "topic", "headers", "x-query")
KEYS = ("a", "a.b", "b.c", "q0", "q1", "")
PATTERNS = ("#", "*", "a.*", "a.#", "#.b", "*.c", "a.b")
MODES = ("confirm", "confirm", "tx", "plain")
BODY_BYTES, BIG_BODY_BYTES, HUGE_BODY_BYTES = 4_000, 1 << 16, 8 << 20
LITTLE_MEMORY = 3 << 20
MEMORY_SHARE = 4
"""The percentage of programs that are short of memory."""


def random_program(seed: int) -> Program:
    """Return the program of a seed. Most have small messages; a few have very many, or large ones, or little memory."""
    chance = random.Random(seed)
    flavour = chance.choices(("mixed", "bytes", "memory", "crowd", "large"), (90, 4, MEMORY_SHARE, 1, 1))[0]
    return {"mixed": _mixed, "bytes": _bytes, "memory": _memory, "crowd": _crowd, "large": _large}[flavour](chance)


def _maybe(chance: random.Random, likelihood: float, value: object) -> object:
    return value if chance.random() < likelihood else None


def _mixed(chance: random.Random) -> Program:
    exchanges = _exchanges(chance)
    names = [spec.name for spec in exchanges]
    queues = tuple(_queue(chance, number, names) for number in range(chance.randint(2, 5)))
    bindings = _bindings(chance, exchanges, queues)
    clients = tuple(chance.choice(MODES) for _ in range(chance.randint(1, 3)))
    maker = _Maker(chance, names, queues, bindings, clients)
    operations = tuple(maker.operation() for _ in range(chance.randint(8, 60)))
    queues_max = _maybe(chance, 0.1, len(queues) + 1)
    return Program(exchanges, queues, bindings, clients, operations, queues_max=queues_max)


def _exchanges(chance: random.Random) -> tuple[ExchangeSpec, ...]:
    names = [f"e{number}" for number in range(chance.randint(1, 4))]
    return tuple(
        ExchangeSpec(
            name,
            chance.choice(KINDS),
            durable=chance.random() < 0.8,
            internal=chance.random() < 0.2,
            alternate=_maybe(chance, 0.25, chance.choice([*names, "", "nowhere"])),
        )
        for name in names
    )


def _queue(chance: random.Random, number: int, exchanges: list[str]) -> QueueSpec:
    dead_letters = _maybe(chance, 0.6, chance.choice([*exchanges, "", ""]))
    length_max = _maybe(chance, 0.35, chance.randint(0, 4))
    rejects = length_max is not None and chance.random() < 0.4
    return QueueSpec(
        f"q{number}",
        durable=chance.random() < 0.75,
        ttl_ms=_maybe(chance, 0.3, 100 * chance.randint(1, 9) + number),
        expires_ms=_maybe(chance, 0.1, 1000 * chance.randint(1, 3) + 500 + number),
        length_max=length_max,
        rejects=rejects,
        buries=rejects and chance.random() < 0.4,
        dead_letters=dead_letters,
        dead_key=None if dead_letters is None else _maybe(chance, 0.6, chance.choice(KEYS)),
    )


def _bindings(
    chance: random.Random, exchanges: tuple[ExchangeSpec, ...], queues: tuple[QueueSpec, ...]
) -> tuple[BindingSpec, ...]:
    return tuple(_binding(chance, exchanges, queues) for _ in range(chance.randint(3, 9)))


def _binding(chance: random.Random, exchanges: tuple[ExchangeSpec, ...], queues: tuple[QueueSpec, ...]) -> BindingSpec:
    source = chance.choice(exchanges)
    to_exchange = chance.random() < 0.25
    target = chance.choice(exchanges if to_exchange else queues).name
    key = chance.choice(PATTERNS if source.kind == "topic" else KEYS)
    arguments: dict[str, object] = {}
    if source.kind == "headers":
        arguments = {
            "x-match": chance.choice(("all", "any")),
            "number": chance.randint(0, 3),
            "text": chance.choice("abc"),
        }
    elif source.kind == "x-query" or chance.random() < 0.15:
        arguments = {"x-query": chance.choice(list(QUERIES))}
    return BindingSpec(source.name, target, key, tuple(arguments.items()), to_exchange)


class _Maker:
    """Makes random operations on what a program declares."""

    def __init__(
        self,
        chance: random.Random,
        exchanges: list[str],
        queues: tuple[QueueSpec, ...],
        bindings: tuple[BindingSpec, ...],
        clients: tuple[str, ...],
    ) -> None:
        self._chance, self._exchanges, self._queues = chance, exchanges, queues
        self._bindings, self._clients = bindings, clients

    def operation(self) -> Operation:
        """Return one more operation."""
        makers = {
            self._publish: 30, self._burst: 8, self._get: 12, self._consume: 9, self._settle: 16, self._wait: 8,
            self._transact: 8, self._restart: 3, self._channel: 5, self._administer: 5,
        }  # fmt: skip
        return self._chance.choices(list(makers), list(makers.values()))[0]()

    def _client(self) -> int:
        return self._chance.randrange(len(self._clients))

    def _queue(self) -> str:
        return self._chance.choice(self._queues).name

    def _publish(self, client: int | None = None) -> Publish:
        chance = self._chance
        exchange = chance.choice([*self._exchanges, "", ""])
        expiration = _maybe(chance, 0.2, str(chance.choice([0, 1000, *range(50, 900, 7)])))
        if chance.random() < 0.02:
            expiration = "soon"
        return Publish(
            self._client() if client is None else client,
            exchange if chance.random() < 0.98 else "missing",
            chance.choice(KEYS) if exchange else self._queue(),
            persistent=chance.random() < 0.7,
            mandatory=chance.random() < 0.3,
            expiration=expiration,
            number=chance.randint(0, 9),
            text=chance.choice("abc"),
        )

    def _burst(self) -> ops.Burst:
        client = self._client()
        return ops.Burst(tuple(self._publish(client) for _ in range(self._chance.randint(2, 6))))

    def _get(self) -> ops.Get:
        late_ms = self._chance.choice((0, 0, 0, 150, 1200))
        return ops.Get(self._client(), self._queue(), self._chance.random() < 0.3, late_ms)

    def _consume(self) -> Operation:
        chance, client, queue = self._chance, self._client(), self._chance.choice(self._queues)
        if chance.random() < 0.25:
            return ops.Cancel(client, chance.randrange(4))
        if self._clients[client] == "tx" and queue.is_bounded:
            return self._get()  # an answer that waits for the disk delays its deliveries, and a full queue drops some
        return ops.Consume(client, queue.name, chance.randint(0, 3), chance.random() < 0.2, chance.choice((0, 0, 300)))

    def _settle(self) -> Operation:
        chance, client = self._chance, self._client()
        if chance.random() < 0.05:
            return ops.SettleAgain(client)
        how = chance.choice(("ack", "ack", "requeue", "discard", "discard", "reject"))
        multiple = how != "reject" and chance.random() < 0.4
        return ops.Settle(client, chance.randrange(6), how, multiple, multiple and chance.random() < 0.2)

    def _wait(self) -> ops.Wait:
        return ops.Wait(self._chance.choice((10, 60, 150, 400, 1100)))

    def _transact(self) -> Operation:
        of_tx = [number for number, mode in enumerate(self._clients) if mode == "tx"]
        if not of_tx:
            return self._publish()
        client = self._chance.choice(of_tx)
        return ops.Commit(client) if self._chance.random() < 0.8 else ops.Rollback(client)

    def _restart(self) -> ops.Restart:
        return ops.Restart(self._chance.random() < 0.5, self._chance.choice((0, 0, 200, 1500)))

    def _channel(self) -> Operation:
        chance, client = self._chance, self._client()
        return chance.choice((ops.Disconnect(client), ops.Recover(client), ops.Prefetch(client, chance.randint(0, 4))))

    def _administer(self) -> Operation:
        chance, queue = self._chance, self._queue()
        return chance.choice(
            (
                ops.Purge(queue, chance.random() < 0.3),
                ops.Delete(queue),
                ops.Declare(queue),
                ops.Declare(queue),
                ops.DeclareExtra(),
                ops.DeleteExchange(chance.choice(self._exchanges)),
                ops.Bind(chance.randrange(9), chance.random() < 0.6),
            )
        )


def _of(chance: random.Random, makers: dict[str, int], make: dict[str, object], count: int) -> tuple[Operation, ...]:
    names = chance.choices(list(makers), list(makers.values()), k=count)
    return tuple(make[name]() for name in names)  # type: ignore[operator]


def _bytes(chance: random.Random) -> Program:
    """Queues that are bounded in bytes, and messages of one size: what the broker adds to a message does not count."""
    queues = tuple(
        QueueSpec(
            f"q{number}",
            bytes_max=BODY_BYTES * chance.randint(1, 3) + BODY_BYTES // 2,
            rejects=chance.random() < 0.5,
            dead_letters="",
            dead_key=f"q{number + 1}",
        )
        for number in range(2)
    )
    queues += (QueueSpec("q2"),)
    exchanges = (ExchangeSpec("e0", "fanout"),)
    bindings = tuple(BindingSpec("e0", queue.name) for queue in queues[:2])
    make = {
        "publish": lambda: Publish(0, chance.choice(("", "e0")), f"q{chance.randrange(3)}", size=BODY_BYTES),
        "get": lambda: ops.Get(0, f"q{chance.randrange(3)}", chance.random() < 0.5),
        "settle": lambda: ops.Settle(0, chance.randrange(4), chance.choice(("ack", "requeue", "discard"))),
        "restart": lambda: ops.Restart(chance.random() < 0.5),
    }
    operations = _of(chance, {"publish": 6, "get": 2, "settle": 2, "restart": 1}, make, chance.randint(8, 40))
    return Program(exchanges, queues, bindings, ("confirm",), operations)


def _memory(chance: random.Random) -> Program:
    """Messages that do not fit into memory, in queues that survive a restart and queues that do not."""
    queues = tuple(QueueSpec(f"q{number}", durable=number < 2, dead_letters="", dead_key="q1") for number in range(4))
    exchanges = (ExchangeSpec("e0", "fanout"),)
    bindings = tuple(BindingSpec("e0", queue.name) for queue in queues)
    make = {
        "publish": lambda: Publish(
            0,
            chance.choice(("e0", "e0", "")),
            f"q{chance.randrange(4)}",
            persistent=chance.random() < 0.8,
            size=BIG_BODY_BYTES,
            count=chance.randint(1, 24),
        ),
        "get": lambda: ops.Get(0, f"q{chance.randrange(4)}", chance.random() < 0.5),
        "purge": lambda: ops.Purge(f"q{chance.randrange(4)}"),
        "consume": lambda: ops.Consume(1, f"q{chance.randrange(4)}", chance.randint(1, 8)),
        "settle": lambda: ops.Settle(
            1, chance.randrange(8), chance.choice(("ack", "ack", "requeue", "discard")), chance.random() < 0.5
        ),
        "restart": lambda: ops.Restart(chance.random() < 0.5),
    }
    likely = {"publish": 5, "get": 2, "purge": 3, "consume": 1, "settle": 4, "restart": 1}
    operations = _of(chance, likely, make, chance.randint(5, 25))
    return Program(exchanges, queues, bindings, ("confirm", "plain"), operations, memory_bytes=LITTLE_MEMORY)


def _crowd(chance: random.Random) -> Program:
    """More messages than the broker looks at in one go."""
    queues = (
        QueueSpec("q0", ttl_ms=_maybe(chance, 0.5, 300), dead_letters=_maybe(chance, 0.5, ""), dead_key=None),
        QueueSpec("q1"),
    )
    expiration = _maybe(chance, 0.5, "200")
    operations = (
        Publish(0, "", "q0", expiration=expiration, count=chance.choice((1_500, 12_000))),
        chance.choice((ops.Get(0, "q0", late_ms=700), ops.Wait(700), ops.Purge("q0", kill=True), ops.Delete("q0"))),
        ops.Get(0, "q0", late_ms=700),
        ops.Restart(kill=chance.random() < 0.5),
        ops.Purge("q0"),
    )
    return Program((), queues, (), ("confirm",), operations)


def _large(chance: random.Random) -> Program:
    """Messages of which only a few can wait for the disk at once."""
    ways = ("ttl", "discard", "expiration")
    way = chance.choice(ways)
    queues = (
        QueueSpec("q0", ttl_ms=300 if way == "ttl" else None, dead_letters="", dead_key="q1"),
        QueueSpec("q1", length_max=_maybe(chance, 0.2, 3)),
    )
    count = chance.randint(6, 9)
    expiration = "200" if way == "expiration" else None
    publishes = [Publish(0, "", "q0", size=HUGE_BODY_BYTES, expiration=expiration) for _ in range(count)]
    drops = [*(ops.Get(0, "q0") for _ in range(count)), ops.Settle(0, 0, "discard", all=True)]
    last = drops if way == "discard" else [ops.Wait(400)]
    operations = (*publishes, *last, ops.Restart(kill=chance.random() < 0.7))
    return Program((), queues, (), ("confirm",), operations)
