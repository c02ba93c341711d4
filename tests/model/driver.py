"""Drives the data plane itself, in virtual time, with its journal in a folder: no socket, no clock, no fsync."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pamqp import commands

from tamis._core import Broker
from tests.model import frames
from tests.model.program import BindingSpec, ExchangeSpec, Program, QueueSpec

WALL_US = 1_700_000_000_000_000
ADMIN = -1
"""The client that declares, binds and purges."""
QUIET_ROUNDS = 2
ROUNDS_MAX = 10_000
LARGE_BYTES = 1 << 20


class Everything:
    """A control plane that allows everything, to one user with a maximum number of queues."""

    def __init__(self, queues_max: int | None) -> None:
        self._queues_max = queues_max

    def allowed(self, *_: object) -> bool:
        return True

    def has_topic_rules(self, *_: object) -> bool:
        return False

    def limits(self, _: str) -> tuple[int | None, int | None]:
        return None, self._queues_max

    def stored_query(self, key: str) -> tuple[str, str]:
        raise LookupError(key)


class Driver:
    """A broker over a folder, and the clients of a program with one open channel each.

    Attributes:
        now: the time, in microseconds.
        patience_s: how long the broker may take until it has said what it must.
    """

    patience_s = 0.0

    def __init__(self, program: Program, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._starts = 0
        sizes = [getattr(it, "size", 0) for it in program.operations]
        self._segment_bytes = (64 if max(sizes, default=0) >= LARGE_BYTES else 1) << 20
        self.now = 1_000_000
        self._open()

    @property
    def _data(self) -> Path:
        return self._folder / f"data{self._starts}"

    def _wall(self) -> int:
        return WALL_US + self.now

    def _open(self) -> None:
        self.broker = Broker(
            Everything(self._program.queues_max),
            frame_max=frames.FRAME_MAX,
            channel_max=10,
            message_bytes_max=16 << 20,
            memory_bytes_max=self._program.memory_bytes,
            seed=1,
            now_us=self.now,
            wall_us=self._wall(),
            data=self._data,
            segment_bytes=self._segment_bytes,
            syncs=False,
        )
        damage = self.broker.recovered()["damage"]
        assert not damage, damage
        self._numbers: dict[int, int] = {}
        self._readers: dict[int, frames.Reader] = {}
        self._is_read: dict[int, bool] = {}
        for client in (ADMIN, *range(len(self._program.clients))):
            self.connect(client)

    def connect(self, client: int) -> None:
        """Connect a client and open its channel."""
        self._numbers[client] = self.broker.connect(
            user="guest",
            vhost="/",
            frame_max=frames.FRAME_MAX,
            channel_max=10,
            heartbeat_s=0,
            peer="",
            client_name="",
            knows_blocked=True,
            knows_cancel=True,
            qos_is_for_channel=False,
            now_us=self.now,
        )
        self._readers[client] = frames.Reader(client)
        self.open_channel(client)

    def open_channel(self, client: int) -> None:
        """Open the channel of a client, again after it was closed."""
        self.call_until_answered(client, frames.method(commands.Channel.Open()))
        self._readers[client].take()
        self.select_mode(client)

    def select_mode(self, client: int) -> None:
        """Let a client ask for confirms, or begin a transaction, as its mode says."""
        mode = "plain" if client == ADMIN else self._program.clients[client]
        select = {"confirm": commands.Confirm.Select, "tx": commands.Tx.Select}.get(mode)
        if select:
            self.call_until_answered(client, frames.method(select()))
        self.settle()
        self._readers[client].take()

    def reopen_channel(self, client: int) -> None:
        """Confirm that the broker closed the channel, and open it again."""
        self.call(client, frames.method(commands.Channel.CloseOk()))
        self.open_channel(client)

    def disconnect(self, client: int) -> None:
        """Close a client's socket; it is gone until `connect`."""
        self.broker.disconnect(self._numbers.pop(client), self.now)
        self.settle()

    # ---- calls ----

    def call(self, client: int, data: bytes) -> None:
        """Hand over one read of a client's socket."""
        self._take(self.broker.receive(self._numbers[client], data, self.now))

    def call_until_answered(self, client: int, data: bytes) -> None:
        """Hand over one read, and let the broker go on only until it answers or closes the channel."""
        self.call(client, data)
        for _ in range(ROUNDS_MAX):
            said = self._readers[client].said
            if said.answers or said.closed is not None:
                return
            self._round()
        raise AssertionError(f"no answer in {ROUNDS_MAX} rounds")

    def tick(self) -> None:
        """Tell the broker the time."""
        self.broker.tick(self.now, self._wall())

    def settle(self) -> None:
        """Write everything to disk and let the broker go on until it has nothing more to do or to say."""
        quiet = 0
        for _ in range(ROUNDS_MAX):
            quiet = 0 if self._round() else quiet + 1
            if quiet == QUIET_ROUNDS:
                return
        raise AssertionError(f"the broker does not come to rest in {ROUNDS_MAX} rounds")

    def _round(self) -> bool:
        """Let the journal write, and the broker go on once. Returns whether something happened."""
        self.broker.commit()
        self.broker.committed(self.now)
        has_said, has_work = self._take(self.broker.take_output())
        if has_work:
            said_more, _ = self._take(self.broker.work(self.now))
            has_said |= said_more
        return has_said or has_work

    def said(self) -> dict[int, frames.Said]:
        """Return what the broker said to each client since the last `forget_said`."""
        return {client: reader.said for client, reader in self._readers.items()}

    def forget_said(self) -> None:
        """Forget what was said until now."""
        for reader in self._readers.values():
            reader.take()

    def unread(self) -> list[int]:
        """Return the clients whose sockets the broker does not read."""
        return [client for client, is_read in self._is_read.items() if not is_read]

    def _take(self, output: Any) -> tuple[bool, bool]:
        has_said = False
        while True:
            connections, has_more, has_work, *_ = output
            clients = {number: client for client, number in self._numbers.items()}
            for number, data, _, wants_input in connections:
                if (client := clients.get(number)) is not None:
                    has_said |= bool(data)
                    self._is_read[client] = wants_input
                    self._readers[client].feed(data)
            if not has_more:
                return has_said, has_work
            output = self.broker.take_output()

    # ---- restarts ----

    def stop(self) -> None:
        """Stop the broker in good order."""
        self.broker.stop("over", self.now)
        self.settle()
        del self.broker

    def kill(self) -> None:
        """End the broker without stopping it. What it has written stays, as after kill -9."""
        left = self._data
        self._starts += 1
        _copy(left, self._data)
        del self.broker
        shutil.rmtree(left)

    def end(self) -> None:
        """Let go of the broker: until then its thread may write files."""
        vars(self).pop("broker", None)

    def start(self, away_ms: int) -> None:
        """Start the broker again, after a while."""
        self.now += away_ms * 1000
        self._open()

    # ---- declarations ----

    def _declare(self, data: bytes) -> None:
        """Send a declaration.

        Raises:
            ValueError: it is refused, so this is no program.
        """
        self.call_until_answered(ADMIN, data)
        self.settle()
        if reason := self._readers[ADMIN].take().reason:
            raise ValueError(reason)

    def declare_exchange(self, spec: ExchangeSpec) -> None:
        """Declare an exchange."""
        arguments = {} if spec.alternate is None else {"alternate-exchange": spec.alternate}
        declare = commands.Exchange.Declare(
            exchange=spec.name,
            exchange_type=spec.kind,
            durable=spec.durable,
            internal=spec.internal,
            arguments=arguments,
        )
        self._declare(frames.method(declare))

    def declare_queue(self, spec: QueueSpec) -> None:
        """Declare a queue."""
        self._declare(frames.queue(spec))

    def bind(self, spec: BindingSpec) -> None:
        """Make a binding."""
        self._declare(frames.binding(spec))


def _copy(source: Path, target: Path) -> None:
    """Copy a folder as it was at one moment: again, if the journal's thread wrote meanwhile."""
    for _ in range(100):
        before = _stamps(source)
        shutil.copytree(source, target, dirs_exist_ok=True)
        if _stamps(source) == before:
            return
        shutil.rmtree(target)
    raise AssertionError("the journal is written all the time")


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    found = ((path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in found}
