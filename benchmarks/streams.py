"""Measures streams and services over AMQP, beside classic queues in the same run.

    python benchmarks/streams.py [--messages N] [--runs N] [--quick]

The broker is pinned to one core and the load, from this script's own sockets, to another. Replay by query
is measured without sockets, by `benches/benches/replay.rs`, and many live readers also by
`benches/benches/data_plane.rs`.
Everything listens on 127.0.0.1 and ends with this script."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _amqp_load import READ_BYTES, Flow, FrameCounter, LoadConnection, cpu_s, publish_bytes
from _results import Results
from broker import MeasuredServer, median_of, on_core, servers
from pamqp import commands, frame

BODY = b"x" * 256
STREAM = {"x-queue-type": "stream"}
NO_HISTORY = {**STREAM, "x-max-length-bytes": 0}
WINDOW = 1_000
"""Messages on their way."""
CHUNK = 250
"""Messages that the publisher sends at once."""
READERS = 300
"""Readers that catch up at once."""
BEHIND = 200_000
"""Messages that they have to read."""


@dataclass(frozen=True)
class StreamKind:
    """A kind of queue that a message goes through."""

    name: str
    durable: bool = True
    arguments: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)


KINDS = [
    StreamKind("classic queue, transient", durable=False),
    StreamKind("classic queue, persistent", properties={"delivery_mode": 2}),
    StreamKind("stream without history", arguments=NO_HISTORY),
    StreamKind("stream with history on disk", arguments=STREAM),
]


def open_pair(server: MeasuredServer, kind: StreamKind, stack: ExitStack) -> tuple[LoadConnection, LoadConnection, str]:
    """Return a publisher, and a consumer of a new queue of this kind, with the queue's name."""
    publisher, consumer = (stack.enter_context(closing(LoadConnection(server.port))) for _ in range(2))
    queue = f"{kind.name}-{time.monotonic_ns()}"
    declare = commands.Queue.Declare(queue=queue, durable=kind.durable, arguments=kind.arguments)
    consumer.call(declare, "Queue.DeclareOk")
    stack.callback(lambda: LoadConnection(server.port).call(commands.Queue.Delete(queue=queue), "Queue.DeleteOk"))
    consumer.call(commands.Basic.Consume(queue=queue, no_ack=True), "Basic.ConsumeOk")
    return publisher, consumer, queue


def throughput(results: Results, server: MeasuredServer, count: int, runs: int) -> None:
    """Measure one publisher and one reader that keeps up."""

    def once(kind: StreamKind) -> dict[str, float]:
        with ExitStack() as stack:
            publisher, consumer, queue = open_pair(server, kind, stack)
            message = publish_bytes("", queue, BODY, **kind.properties)
            # A reader of a stream without history misses what it has no room for.
            flow = Flow([(publisher, [message])], [consumer], window=WINDOW)
            flow.run(count // 10, CHUNK)
            before = cpu_s(server.pid)
            seconds = flow.run(count, CHUNK)
            return {"cpu_s": (cpu_s(server.pid) - before) * 1e6 / count, "rate": count / seconds}

    records = [{"what": kind.name, **median_of(runs, lambda kind=kind: once(kind))} for kind in KINDS]
    columns = [
        ("what", "1 publisher, 1 reader", 0),
        ("cpu_s", "CPU s per million", 2),
        ("rate", "messages/s", 0),
    ]
    notes = ["Goals: at most 1 s per million with history on disk, and 0.5 s without history."]
    results.table("throughput", f"{count:,} messages of 256 B; medians of {runs} runs", columns, records, notes)


def percentiles_us(times_s: list[float]) -> dict[str, float]:
    """Return the percentiles of times in seconds, in µs."""
    ordered = sorted(times_s)
    return {"p50": ordered[len(ordered) // 2] * 1e6, "p99": ordered[len(ordered) * 99 // 100] * 1e6}


def disk_times(folder: Path, count: int) -> dict[str, float]:
    """Measure the least that a message on disk can take: a write into a file that has its size, and its fdatasync."""
    with (folder / "alone").open("w+b", buffering=0) as file:
        file.write(bytes(count * 512))
        os.fsync(file.fileno())
        times = []
        for number in range(count):
            began = time.perf_counter()
            os.pwrite(file.fileno(), BODY, number * 512)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return percentiles_us(times)


def latency(results: Results, server: MeasuredServer, folder: Path, count: int, runs: int) -> None:
    """Measure the time from a publish to its delivery, one message at a time."""
    records: list[dict[str, Any]] = []
    for kind in KINDS:

        def once(kind: StreamKind = kind) -> dict[str, float]:
            with ExitStack() as stack:
                publisher, consumer, queue = open_pair(server, kind, stack)
                message, counter = publish_bytes("", queue, BODY, **kind.properties), FrameCounter()
                times = [round_trip(publisher, consumer, message, counter) for _ in range(count)]
            return percentiles_us(times)

        records.append({"what": kind.name, **median_of(runs, once)})
    for stream, classic in ((2, 0), (3, 1)):
        records[stream]["times_classic"] = records[stream]["p50"] / records[classic]["p50"]
    alone = median_of(runs, lambda: disk_times(folder, count))
    records.append({"what": "the disk alone: a write and its fdatasync", **alone})
    columns = [
        ("what", "256 B, one at a time", 0),
        ("p50", "p50 µs", 0),
        ("p99", "p99 µs", 0),
        ("times_classic", "p50 / classic", 2),
    ]
    notes = [
        "Goal: the p50 of a stream within 1.5 times of a classic queue's that keeps its messages as long.",
        "A stream with history delivers what is on disk; a classic queue delivers before that, and confirms after it.",
    ]
    results.table("latency", f"Wall time from publish to delivery; medians of {runs} runs", columns, records, notes)


class Receivers:
    """Connections that read, each for many consumers, which need no acknowledgement."""

    def __init__(self, server: MeasuredServer, stack: ExitStack) -> None:
        self.connections = [stack.enter_context(closing(LoadConnection(server.port))) for _ in range(10)]
        self._count = 0

    def read(self, stream: str, query: str) -> None:
        """Add a reader of a stream, with a query of its own."""
        self._consume(self._next(), stream, {"x-query": query})

    def bind(self, exchange: str, query: str) -> None:
        """Add a queue that is bound with a query, and its consumer."""
        connection = self._next()
        queue = connection.call(commands.Queue.Declare(exclusive=True), "Queue.DeclareOk").queue
        bind = commands.Queue.Bind(queue=queue, exchange=exchange, arguments={"x-query": query})
        connection.call(bind, "Queue.BindOk")
        self._consume(connection, queue, {})

    def _next(self) -> LoadConnection:
        self._count += 1
        return self.connections[self._count % len(self.connections)]

    def _consume(self, connection: LoadConnection, queue: str, arguments: dict[str, Any]) -> None:
        consume = commands.Basic.Consume(queue=queue, consumer_tag=str(self._count), no_ack=True, arguments=arguments)
        connection.call(consume, "Basic.ConsumeOk")


def many_readers(results: Results, server: MeasuredServer, many: int, count: int, runs: int) -> None:
    """Measure live readers of a stream, each with a query of its own, beside as many bindings."""
    few = many // 10

    def measured(what: str, readers: int, matching: int, *, has_bindings: bool = False) -> dict[str, Any]:
        with ExitStack() as stack:
            publisher = stack.enter_context(closing(LoadConnection(server.port)))
            receivers = Receivers(server, stack)
            name = f"many-{time.monotonic_ns()}"
            publisher.call(commands.Exchange.Declare(exchange=name, exchange_type="fanout"), "Exchange.DeclareOk")
            publisher.call(commands.Queue.Declare(queue=name, durable=True, arguments=NO_HISTORY), "Queue.DeclareOk")
            for number in range(readers):
                # As many readers as shall match have the part of the message; each query is another one.
                query = f"part = {number // matching} OR number = {number}"
                if has_bindings:
                    receivers.bind(name, query)
                else:
                    receivers.read(name, query)
            to = (name, "") if has_bindings else ("", name)
            message = publish_bytes(*to, BODY, headers={"part": readers // matching // 2, "number": -1})
            window = max(4, 400 // matching)
            flow = Flow([(publisher, [message])], receivers.connections, per_message=matching, window=window)
            amount = max(20, count // matching)

            def once() -> dict[str, float]:
                before = cpu_s(server.pid)
                flow.run(amount, min(32, window), limit_s=300)
                cpu_us = (cpu_s(server.pid) - before) * 1e6 / amount
                return {"us": cpu_us, "us_delivery": cpu_us / matching}

            once()
            record = {"what": what, **median_of(runs, once)}
            publisher.socket.setblocking(True)
            publisher.call(commands.Queue.Delete(queue=name), "Queue.DeleteOk")
            publisher.call(commands.Exchange.Delete(exchange=name), "Exchange.DeleteOk")
            return record

    records = [
        measured(f"{many:,} readers, 1 of them matches", many, 1),
        measured(f"{many:,} readers, {few:,} of them match", many, few),
        measured(f"{few:,} readers, 1 of them matches", few, 1),
        measured(f"{few:,} bindings, 1 of them matches", few, 1, has_bindings=True),
    ]
    records[2]["times_bindings"] = records[2]["us"] / records[3]["us"]
    columns = [
        ("what", "a stream without history, 256 B", 0),
        ("us", "CPU µs per message", 2),
        ("us_delivery", "CPU µs per delivery", 2),
        ("times_bindings", "readers / bindings", 2),
    ]
    notes = [
        "Goals: 10,000 readers at most 20 µs per message where one matches, and 1 µs per delivery where 1,000 match; "
        "1,000 readers at most 1.5 times as much as 1,000 bindings."
    ]
    results.table("readers", f"Live readers with a query each; medians of {runs} runs", columns, records, notes)


def replay(results: Results, server: MeasuredServer, count: int, runs: int) -> None:
    """Measure one reader that reads a long stream from its first message, over its socket."""
    with closing(LoadConnection(server.port)) as publisher:
        publisher.call(commands.Queue.Declare(queue="past", durable=True, arguments=STREAM), "Queue.DeclareOk")
        publisher.call(commands.Confirm.Select(), "Confirm.SelectOk")
        Flow([(publisher, [publish_bytes("", "past", BODY)])], [], confirms=True).run(count, limit_s=600)
        publisher.socket.setblocking(True)

        def once() -> dict[str, float]:
            with closing(LoadConnection(server.port)) as reader:
                counter, before, began = FrameCounter(), cpu_s(server.pid), time.monotonic()
                arguments: dict[str, Any] = {"x-stream-offset": "first"}
                consume = commands.Basic.Consume(queue="past", no_ack=True, arguments=arguments)
                reader.socket.sendall(frame.marshal(consume, 1))
                while counter.delivered < count:
                    counter.feed(reader.socket.recv(READ_BYTES))
                spent_s = cpu_s(server.pid) - before
                return {"rate": count / (time.monotonic() - began), "per_cpu_s": count / spent_s}

        record = {"what": f"{count:,} messages of 256 B", **median_of(runs, once)}
        publisher.call(commands.Queue.Delete(queue="past"), "Queue.DeleteOk")
    columns = [
        ("what", "read by one reader", 0),
        ("rate", "messages/s", 0),
        ("per_cpu_s", "messages per CPU s of the broker", 0),
    ]
    notes = ["Goal: at least 1,000,000 messages per CPU second without a query. The load reads slower than the broker."]
    results.table("replay", f"Replay over a socket; medians of {runs} runs", columns, [record], notes)


def round_trip(
    publisher: LoadConnection, consumer: LoadConnection, message: bytes, counter: FrameCounter, limit_s: float = 30.0
) -> float:
    """Publish a message and wait for its delivery; return the seconds that it took."""
    consumer.socket.settimeout(limit_s)
    target, began = counter.delivered + 1, time.perf_counter()
    publisher.socket.sendall(message)
    while counter.delivered < target:
        if not (data := consumer.socket.recv(READ_BYTES)):
            raise RuntimeError("the broker hung up")
        counter.feed(data)
    return time.perf_counter() - began


def drain(port: int, query: str | None, seconds: float, ready: Any) -> None:
    """Read a stream from its first message with many readers, and drop what comes."""
    arguments: dict[str, Any] = {"x-stream-offset": "first"} | ({} if query is None else {"x-query": query})
    selector, got = selectors.DefaultSelector(), 0
    readers = [LoadConnection(port) for _ in range(READERS)]
    ready.wait()
    for reader in readers:
        reader.socket.sendall(frame.marshal(commands.Basic.Consume(queue="long", no_ack=True, arguments=arguments), 1))
        reader.socket.setblocking(False)
        selector.register(reader.socket, selectors.EVENT_READ)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(0.1):
            opened = key.fileobj
            assert isinstance(opened, socket.socket)
            got += len(opened.recv(READ_BYTES))
    print(f"{READERS} readers took {got / 1e6:,.0f} MB in {seconds:.0f} s", flush=True)


class Bystander(threading.Thread):
    """Sends itself a message every 2 ms through a queue of its own, and notes how long each takes."""

    def __init__(self, server: MeasuredServer, stack: ExitStack) -> None:
        super().__init__(daemon=True)
        self._publisher, self._consumer, self._queue = open_pair(server, KINDS[0], stack)
        self._stopping = threading.Event()
        self.times: list[float] = []

    def run(self) -> None:
        """Send and wait until it is stopped."""
        if os.geteuid() == 0:  # it measures the broker, not the load beside it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        message, counter = publish_bytes("", self._queue, b"x"), FrameCounter()
        while not self._stopping.wait(0.002):
            self.times.append(round_trip(self._publisher, self._consumer, message, counter))

    def during(self, work: Callable[[], None]) -> dict[str, float]:
        """Return the percentiles of the times while `work` runs, in ms."""
        start = len(self.times)
        work()
        times = sorted(self.times[start:])
        return {
            "p50": 1e3 * times[len(times) // 2],
            "p99": 1e3 * times[len(times) * 99 // 100],
            "longest": 1e3 * times[-1],
        }

    def stop(self) -> None:
        """Let it end."""
        self._stopping.set()
        self.join(30)


def catching_up(results: Results, server: MeasuredServer, data: Path, seconds: float) -> None:
    """Measure another client while many readers read a long stream."""
    with closing(LoadConnection(server.port)) as publisher:
        publisher.call(commands.Queue.Declare(queue="long", durable=True, arguments=STREAM), "Queue.DeclareOk")
        publisher.call(commands.Confirm.Select(), "Confirm.SelectOk")
        Flow([(publisher, [publish_bytes("", "long", BODY, headers={"price": 7})])], [], confirms=True).run(BEHIND)
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        bystander = Bystander(server, stack)
        bystander.start()
        records = [{"what": "nobody reads", **bystander.during(lambda: time.sleep(seconds))}]
        for what, query in (
            ("all messages", None),
            ("by a query that no message satisfies", "price + 0 > 1000"),
        ):
            ready = spawn.Event()
            load = spawn.Process(target=drain, args=(server.port, query, seconds, ready))
            load.start()
            time.sleep(2)

            def work(ready: Any = ready, load: Any = load) -> None:
                ready.set()
                load.join()

            records.append({"what": f"{READERS} readers: {what}", **bystander.during(work)})
        bystander.stop()
    for record in records[1:]:
        record["times_quiet"] = record["p99"] / records[0]["p99"]
    columns = [
        ("what", f"{BEHIND:,} messages of 256 B", 0),
        ("p50", "p50 ms", 2),
        ("p99", "p99 ms", 2),
        ("longest", "longest ms", 1),
        ("times_quiet", "p99 / quiet", 2),
    ]
    stall = about(data)
    notes = [
        "Goals: a p99 of at most 1.2 times the quiet one; no stall over 20 ms.",
        f"The longest stall of the broker's loop, of all of this: {stall['stall_s_max'] * 1e3:.1f} ms.",
    ]
    title = f"Round trips of another client while readers catch up for {seconds:.0f} s"
    results.table("catching_up", title, columns, records, notes)


def about(data: Path) -> dict[str, Any]:
    """Return what the broker says of itself over its control socket."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(data / "control.sock"))
        control.sendall(b'{"op": "about"}\n')
        with control.makefile() as answers:
            return dict(json.loads(answers.readline())["result"])


class Worker:
    """A worker of a service, which acknowledges whatever it gets."""

    def __init__(self, server: MeasuredServer, service: str, credit: int) -> None:
        self.connection = LoadConnection(server.port)
        self.connection.call(commands.Basic.Qos(prefetch_count=credit), "Basic.QosOk")
        self.connection.call(commands.Basic.Consume(queue=f"amq.service.{service}"), "Basic.ConsumeOk")
        self.counter = FrameCounter()

    def take(self) -> None:
        """Take what has come, and acknowledge all of it."""
        before = self.counter.delivered
        self.counter.feed(self.connection.socket.recv(READ_BYTES))
        if self.counter.delivered > before:
            ack = commands.Basic.Ack(delivery_tag=self.counter.delivered, multiple=True)
            self.connection.socket.sendall(frame.marshal(ack, 1))


def services(results: Results, server: MeasuredServer, count: int, runs: int) -> None:
    """Measure confirmed requests, each taken and acknowledged by a worker."""

    def once(credit: int, count: int) -> dict[str, float]:
        service = f"s{time.monotonic_ns()}"
        worker = Worker(server, service, credit)
        with closing(LoadConnection(server.port)) as requester, closing(worker.connection):
            requester.call(commands.Confirm.Select(), "Confirm.SelectOk")
            before, began = cpu_s(server.pid), time.monotonic()
            request(requester, publish_bytes("service", service, BODY), worker, count)
            seconds = time.monotonic() - began
        return {"rate": count / seconds, "cpu_us": (cpu_s(server.pid) - before) * 1e6 / count}

    records = [
        {"credit": credit, **median_of(runs, lambda c=credit, n=amount: once(c, n))}
        for credit, amount in ((1, count // 20), (100, count), (1_000, count))
    ]
    columns = [
        ("credit", "requests at a time", 0),
        ("rate", "requests/s", 0),
        ("cpu_us", "CPU µs per request", 2),
    ]
    title = f"Requests of 256 B from one client, stored, confirmed, taken and acknowledged; medians of {runs} runs"
    notes = ["Goal: at least 100,000 requests per second."]
    results.table("services", title, columns, records, notes)


def request(requester: LoadConnection, message: bytes, worker: Worker, count: int, window: int = 5_000) -> None:
    """Send requests until all are confirmed and taken, with at most `window` unfinished."""
    confirms, chunk = FrameCounter(), 64
    sent, pending = 0, memoryview(b"")
    selector = selectors.DefaultSelector()
    for opened in (requester.socket, worker.connection.socket):
        selector.register(opened, selectors.EVENT_READ)
    requester.socket.setblocking(False)
    try:
        while confirms.confirmed < count or worker.counter.delivered < count:
            if not pending and sent < count and sent - min(confirms.confirmed, worker.counter.delivered) < window:
                amount = min(chunk, count - sent)
                pending, sent = memoryview(message * amount), sent + amount
            if pending:
                with suppress(BlockingIOError):
                    pending = pending[requester.socket.send(pending) :]
            for key, _ in selector.select(0 if pending or sent < count else 0.01):
                if key.fileobj is requester.socket:
                    confirms.feed(requester.socket.recv(READ_BYTES))
                else:
                    worker.take()
    finally:
        requester.socket.setblocking(True)


def handover(results: Results, server: MeasuredServer, times: int) -> None:
    """Measure the time from the death of a worker to its request with the next one."""
    found = []
    for number in range(times):
        service = f"h{number}"
        first = Worker(server, service, 1)
        second = None
        with closing(LoadConnection(server.port)) as requester:
            requester.socket.sendall(publish_bytes("service", service, BODY))
            first.connection.socket.settimeout(30)
            while first.counter.delivered == 0:
                first.counter.feed(first.connection.socket.recv(READ_BYTES))  # and does not acknowledge
            second = Worker(server, service, 1)
            linger = struct.pack("ii", 1, 0)  # a process that dies resets its connection
            first.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            second.connection.socket.settimeout(30)
            began = time.perf_counter()
            first.connection.close()
            while second.counter.delivered == 0:
                second.counter.feed(second.connection.socket.recv(READ_BYTES))
            found.append((time.perf_counter() - began) * 1e3)
        second.connection.close()
    found.sort()
    record = {"what": f"{times} workers", "p50": statistics.median(found), "longest": found[-1]}
    columns = [("what", "die with a request", 0), ("p50", "p50 ms", 2), ("longest", "longest ms", 2)]
    notes = ["Goal: at most 10 ms."]
    results.table("handover", "A dead worker's request is with the next one", columns, [record], notes)


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, once")
    arguments = parser.parse_args()
    count, runs = (arguments.messages // 10, 1) if arguments.quick else (arguments.messages, arguments.runs)
    results = Results("streams", f"--messages {count} --runs {runs}")
    with tempfile.TemporaryDirectory() as name, servers(Path(name)) as up:
        on_core(1)()
        server = up[0]
        throughput(results, server, count, runs)
        latency(results, server, Path(name), count // 200, runs)
        many_readers(results, server, 1_000 if arguments.quick else 10_000, count // 50, runs)
        replay(results, server, count, runs)
        services(results, server, count, runs)
        handover(results, server, 20 if arguments.quick else 100)
        catching_up(results, server, Path(name) / "tamis", 3 if arguments.quick else 10)
    results.write()


if __name__ == "__main__":
    main()
