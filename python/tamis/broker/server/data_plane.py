"""The data plane and its clients: one call hands over a read and returns everything to be written."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tamis._core import Broker
from tamis.broker import system
from tamis.broker.config import BrokerConfig
from tamis.broker.rules import Rules

if TYPE_CHECKING:
    from tamis._core import _BrokerOutput
    from tamis.broker.server.connection import ClientConnection

READ_BYTES = 256 * 1024
"""Size of the buffer that all connections share: every read is handed over before the next one begins."""
PIECE_BYTES = 64 * 1024
"""How much of a large body is read at once while another client waits for its answer. To take it in takes longer
than to read it: the system has to find memory for it, page by page."""
CONNECTION_BYTES = 8 * 1024
"""Memory of a connection outside the data plane: its transport, its socket, and what belongs to them."""
TURN_BYTES_MAX = 3 << 20
"""Output that is handed to sockets in one turn of the event loop, about. The system copies it when the turn ends."""
ATTENTIVE_PART = 3
"""The part of it while a client waits for its answer."""
ROUND_BYTES = TURN_BYTES_MAX // ATTENTIVE_PART // 2
"""The bytes for which each further round of output counts while a client waits: to make it takes up to 0.25 ms."""
WRITE_BYTES = 4096
"""The bytes for which each write counts beside its own: it takes as long as copying them."""
ALARM_S_MIN, ALARM_S_MAX = 0.001, 3600.0
"""Shortest and longest sleep until something expires: what expires in the same millisecond is done in one call."""


def now_us() -> int:
    """Return the time of a monotonic clock, in microseconds."""
    return time.monotonic_ns() // 1000


def wall_us() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1000


def room_bytes(limit: int) -> int:
    """Return what the data plane may take: `limit` bytes for the whole process, less what it takes before it begins.

    Half of the limit is left to it in any case, so that a very low limit does not stop every publisher.

    Args:
        limit: the setting `memory_bytes`.
    """
    return max(limit - system.memory_bytes(), limit // 2)


class DataPlane:
    """The data plane in Rust, with the clients it writes to.

    Attributes:
        broker: the data plane itself.
        clients: the open connections, by the data plane's number.
        read_buffer: where every socket's bytes are read into.
    """

    def __init__(self, config: BrokerConfig, data: Path, rules: Rules, streams_max: int) -> None:
        limits = config.limits
        self._at_first_bytes = system.memory_bytes()
        self.broker = Broker(
            rules,
            frame_max=limits.frame_bytes,
            channel_max=limits.channels,
            message_bytes_max=limits.message_bytes,
            memory_bytes_max=room_bytes(limits.memory_bytes),
            connection_bytes=CONNECTION_BYTES,
            streams_max=streams_max,
            seed=int.from_bytes(os.urandom(8), "big"),
            now_us=now_us(),
            wall_us=wall_us(),
            data=data,
            segment_bytes=config.journal.segment_bytes,
            syncs=config.journal.sync,
            confirms_received=config.journal.confirm == "received",
            queries=limits.query_limits(),
            addresses={"mailbox": config.mailboxes.settings(), "service": config.services.settings()},
        )
        for vhost in config.vhosts:
            self.broker.add_vhost(vhost)
        self.clients: dict[int, ClientConnection] = {}
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self._piece_buffer = self.read_buffer[:PIECE_BYTES]
        self._is_writing = self._is_flush_wanted = self._is_work_scheduled = self._is_turn_scheduled = False
        self._room_bytes = TURN_BYTES_MAX
        self._alarm: asyncio.TimerHandle | None = None

    def buffer_for(self, number: int) -> memoryview:
        """Return where to read the next bytes of a client that has filled its buffer: `read_buffer`, or a part."""
        return self._piece_buffer if self.broker.wants_pieces(number) else self.read_buffer

    def receive(self, number: int, data: memoryview | bytes) -> None:
        """Hand over bytes that a client has sent, and write what follows from them.

        A transport never reads while it writes, so this is never called from within `_write`.
        """
        self._write(self.broker.receive(number, data, now_us(), self._room_bytes))

    def flush(self) -> None:
        """Write all output of the data plane. Called while output is being written, it adds a round to that."""
        self._is_flush_wanted = True
        if not self._is_writing:
            self._write(self.broker.take_output(self._room_bytes))

    def tick(self) -> None:
        """Tell the data plane the time, and what memory the process has. Call it ten times a second."""
        self.broker.tick(now_us(), wall_us())
        self.flush()
        self.broker.note_process_memory(max(system.memory_bytes() - self._at_first_bytes, 0))

    def close(self, number: int, reason: str) -> None:
        """Close a connection with 320 (connection-forced). `flush` writes it."""
        self.broker.close(number, reason, now_us())

    def _write(self, output: _BrokerOutput) -> None:
        """Write `output` and what follows, until there is no more or sockets have to be read again."""
        self._is_writing = True
        try:
            while self._write_round(output) and self._room_bytes:
                output = self.broker.take_output(self._room_bytes)
                if self.broker.is_attentive():
                    self._room_bytes = max(0, self._room_bytes - ROUND_BYTES)
        finally:
            self._is_writing = False
        # What waits is written when the sockets have been looked after.
        if not self._room_bytes and not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        has_work = output[2]
        if has_work and not self._is_work_scheduled:
            self._is_work_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _write_round(self, output: _BrokerOutput) -> bool:
        """Write `output`; return whether there is more."""
        self._is_flush_wanted = False
        connections, has_more, _, alarm_us = output
        if alarm_us is not None:
            self._set_alarm(alarm_us)
        for number, data, is_open, wants_input in connections:
            self._room_bytes = max(0, self._room_bytes - len(data) - WRITE_BYTES)
            if client := self.clients.get(number):
                try:
                    client.write(data, is_open, wants_input)
                except Exception as error:  # noqa: BLE001 - the others must get their bytes whatever happened here
                    client.transport.abort()
                    context = {"message": "writing to a client failed", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(context)
        return has_more or self._is_flush_wanted

    def _next_turn(self) -> None:
        """Write on, in another turn of the event loop."""
        self._is_turn_scheduled = False
        self._room_bytes = TURN_BYTES_MAX // (ATTENTIVE_PART if self.broker.is_attentive() else 1)
        self.flush()

    def _set_alarm(self, alarm_us: int) -> None:
        """Wake up at this time, because something expires then, and not at the time set before."""
        if self._alarm is not None:
            self._alarm.cancel()
        delay_s = min(max((alarm_us - now_us()) / 1e6, ALARM_S_MIN), ALARM_S_MAX)
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._wake_up)

    def _wake_up(self) -> None:
        self._alarm = None
        if not self._is_work_scheduled:
            self._work()

    def _work(self) -> None:
        """Continue deferred work, between what comes from clients."""
        self._is_work_scheduled = False
        self._write(self.broker.work(now_us(), self._room_bytes))
