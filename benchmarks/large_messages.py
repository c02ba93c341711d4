"""Measures large messages through the broker, and its start with a million durable messages.

    python benchmarks/large_messages.py [--runs N] [--durable N] [--quick]

Beside large messages stand a relay, which takes each whole message and passes it on, and NATS where it is installed.
The broker is pinned to one core and the load to another. Everything listens on 127.0.0.1 and ends with this script."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import select
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _amqp_load import Flow, LoadConnection, cpu_s, publish_bytes
from _results import Results
from broker import (
    CORES,
    MeasuredServer,
    free_port,
    installed_environment,
    on_core,
    servers,
    tamis_command,
    wait_for,
)
from pamqp import commands, frame

SIZES = {"64 KB": 64 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20}
PING_BYTES = len(b"PING\r\n")
"""NATS asks its clients whether they are there."""
TOGETHER_BYTES = 64 << 20
"""So many bytes go through in each turn, one message after another."""


class Passage:
    """A sender and a receiver, and what is sent: the receiver gets each message whole before the next is sent."""

    def __init__(self, sender: socket.socket, receiver: socket.socket, message: bytes, received_bytes: int) -> None:
        self._sender, self._receiver = sender, receiver
        self._message, self._received_bytes = message, received_bytes
        self._room = bytearray(1 << 20)
        sender.setblocking(False)
        receiver.setblocking(False)

    def once(self) -> float:
        """Pass one message; return the seconds."""
        began = time.perf_counter()
        left, wanted = memoryview(self._message), self._received_bytes
        while wanted > 0:
            writers = [self._sender] if left else []
            _, writable, _ = select.select([self._receiver], writers, [], 30)
            if writable:
                with contextlib.suppress(BlockingIOError):
                    left = left[self._sender.send(left) :]
            with contextlib.suppress(BlockingIOError):
                wanted -= self._receiver.recv_into(self._room)
        assert wanted in (0, -PING_BYTES), f"{-wanted} bytes too many"
        return time.perf_counter() - began


def by_amqp(server: MeasuredServer, size: int) -> Passage:
    """Return a passage through a queue."""
    queue = f"large-{size}"
    sender, receiver = LoadConnection(server.port), LoadConnection(server.port)
    receiver.call(commands.Queue.Declare(queue=queue, exclusive=True), "Queue.DeclareOk")
    tag = receiver.call(
        commands.Basic.Consume(queue=queue, no_ack=True, consumer_tag="c"), "Basic.ConsumeOk"
    ).consumer_tag
    message = publish_bytes("", queue, b"x" * size)
    publish = len(frame.marshal(commands.Basic.Publish(exchange="", routing_key=queue), 1))
    first = frame.marshal(commands.Basic.Deliver(tag, 1, False, "", queue), 1)
    return Passage(sender.socket, receiver.socket, message, len(message) - publish + len(first))


def by_nats(server: MeasuredServer, size: int) -> Passage:
    """Return a passage through a subject."""
    sender, receiver = (socket.create_connection(("127.0.0.1", server.port)) for _ in range(2))
    for one in (sender, receiver):
        while not one.recv(1 << 16).endswith(b"\r\n"):
            pass
        subscribe = b"SUB large.%d 1\r\n" % size if one is receiver else b""
        one.sendall(b'CONNECT {"verbose":false}\r\n' + subscribe + b"PING\r\n")
        while not one.recv(1 << 16).endswith(b"PONG\r\n"):
            pass
    message = b"PUB large.%d %d\r\n" % (size, size) + b"x" * size + b"\r\n"
    return Passage(sender, receiver, message, len(b"MSG large.%d 1 %d\r\n" % (size, size)) + size + 2)


def relay(listening: socket.socket, core: int) -> None:
    """Take whole messages from one connection, each behind its size, and pass each on to another one."""
    os.sched_setaffinity(0, {core})
    sender, receiver = listening.accept()[0], listening.accept()[0]
    room = bytearray(max(SIZES.values()))
    while head := sender.recv(8, socket.MSG_WAITALL):
        size, taken = int.from_bytes(head, "big"), 0
        while taken < size:
            taken += sender.recv_into(memoryview(room)[taken:size])
        receiver.sendall(memoryview(room)[:size])


@contextlib.contextmanager
def relayed(size: int) -> Iterator[tuple[Passage, int]]:
    """Start a relay; give a passage through it, and its pid."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        arguments = (listening, CORES[0])
        process = multiprocessing.get_context("spawn").Process(target=relay, args=arguments, daemon=True)
        process.start()
        try:
            sender, receiver = (socket.create_connection(listening.getsockname()) for _ in range(2))
            assert process.pid is not None
            yield Passage(sender, receiver, size.to_bytes(8, "big") + b"x" * size, size), process.pid
        finally:
            process.kill()
            process.join()


def measured(passage: Passage, pid: int, count: int) -> dict[str, float]:
    """Pass some messages; return the milliseconds of each."""
    before = cpu_s(pid)
    times = [passage.once() for _ in range(count)]
    return {"cpu_ms": (cpu_s(pid) - before) / count * 1e3, "wall_ms": statistics.median(times) * 1e3}


def large(results: Results, up: list[MeasuredServer], runs: int, together_bytes: int) -> None:
    """Measure messages of each size, one after another; the ways alternate."""
    records: list[dict[str, Any]] = []
    for name, size in SIZES.items():
        count = max(2, together_bytes // size)
        with relayed(size) as (through_relay, relay_pid):
            ways: list[tuple[str, Passage, int]] = [("a relay", through_relay, relay_pid)]
            ways += [
                (server.name, (by_amqp if server.protocol == "amqp" else by_nats)(server, size), server.pid)
                for server in up
                if server.protocol == "amqp" or size <= 1 << 20
            ]
            for _, passage, _ in ways:
                passage.once()
            turns = [[measured(passage, pid, count) for _, passage, pid in ways] for _ in range(runs)]
        least = statistics.median(turn[0]["cpu_ms"] for turn in turns)
        for (way, _, _), figures in zip(ways, zip(*turns, strict=True), strict=True):
            record = {key: statistics.median(one[key] for one in figures) for key in figures[0]}
            records.append({"size": name, "way": way, **record, "times_relay": record["cpu_ms"] / least})
    columns = [
        ("size", "message", 0),
        ("way", "through", 0),
        ("cpu_ms", "CPU ms each", 2),
        ("wall_ms", "wall ms each", 2),
        ("times_relay", "times the relay", 2),
    ]
    notes = [
        "A relay, in Python, reads a whole message from one socket and writes it to another: two copies that no broker"
        " can do without. NATS takes no message above 1 MB by default."
    ]
    title = f"One publisher, one consumer, one message at a time, not persistent; medians of {runs} turns"
    results.table("large", title, columns, records, notes)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[tuple[int, float, float]]:
    """Start tamis; give its pid, and the wall and CPU seconds until it accepts."""
    port = free_port()
    began = time.monotonic()
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(
            tamis_command(folder, port), stdout=log, stderr=log, env=installed_environment(), preexec_fn=on_core(0)
        )
    try:
        wait_for(port)
        yield port, time.monotonic() - began, cpu_s(child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)


def fill(port: int, count: int) -> None:
    """Publish durable messages of 100 bytes into one queue, and wait for their confirms."""
    publisher = LoadConnection(port)
    publisher.call(commands.Queue.Declare(queue="kept", durable=True), "Queue.DeclareOk")
    publisher.call(commands.Confirm.Select(), "Confirm.SelectOk")
    message = publish_bytes("", "kept", b"x" * 100, delivery_mode=2)
    Flow([(publisher, [message])], [], confirms=True, window=20_000).run(count, chunk=128, limit_s=300)
    publisher.close()


def restart(results: Results, folder: Path, count: int, runs: int) -> None:
    """Measure the start with durable messages beside the start of an empty broker."""
    full, empty = folder / "full", folder / "empty"
    for one in (full, empty):
        one.mkdir()
        with started(one) as (port, _, _):
            if one is full:
                fill(port, count)

    def once(one: Path) -> dict[str, float]:
        with started(one) as (_, wall_s, spent_s):
            return {"wall_s": wall_s, "cpu_s": spent_s}

    turns = [[once(one) for one in (empty, full)] for _ in range(runs)]
    records = [
        {"messages": name, **{key: statistics.median(turn[at][key] for turn in turns) for key in ("wall_s", "cpu_s")}}
        for at, name in enumerate(("none", f"{count:,}"))
    ]
    records[1]["more_cpu_s"] = statistics.median(turn[1]["cpu_s"] - turn[0]["cpu_s"] for turn in turns)
    columns = [
        ("messages", "durable messages", 0),
        ("wall_s", "s until it accepts", 2),
        ("cpu_s", "CPU s", 2),
        ("more_cpu_s", "CPU s for the messages", 2),
    ]
    title = f"A start with messages of 100 bytes in one queue, after a clean stop; medians of {runs}"
    results.table("restart", title, columns, records)


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--durable", type=int, default=1_000_000, help="the durable messages of the start")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, once")
    arguments = parser.parse_args()
    runs = 1 if arguments.quick else arguments.runs
    count = arguments.durable // 10 if arguments.quick else arguments.durable
    results = Results("large_messages", f"--runs {runs} --durable {count}")
    on_core(1)()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with servers(folder) as up:
            large(results, up, runs, TOGETHER_BYTES // (10 if arguments.quick else 1))
        restart(results, folder, count, runs)
    results.write()


if __name__ == "__main__":
    main()
