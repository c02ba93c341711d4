"""Measures the CPU time of the broker itself, beside that of NATS where it is installed.

    python benchmarks/broker.py [--messages N] [--quick]

The load comes from `bench/broker_load` of the shared folder (needs Go). Two workloads that it lacks come from this
script's own sockets: 64 publishers of durable messages, and the PNNL paper's selectors. The broker is pinned to one
core and the load to another. Everything listens on 127.0.0.1 and ends with this script."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _amqp_load import Flow, LoadConnection, cpu_s, publish_bytes
from _results import Results
from pamqp import commands

import tamis
from tamis.broker.config import LimitsConfig
from tamis.broker.system import allow_files

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"
CORES = sorted(os.sched_getaffinity(0))
"""What this program may use when it starts."""
IDLE = 20_000
FILES_OF_OTHERS = 100
"""Files that a server or the load tool has open besides the connections, and connections that nobody measures."""
FIGURE = re.compile(r"(\w[\w.]*)=([-\d.]+)")


@dataclass(frozen=True)
class MeasuredServer:
    """A broker that this script started."""

    name: str
    protocol: str
    port: int
    pid: int


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def on_core(core: int) -> Callable[[], None]:
    """Return a `preexec_fn` that pins a process to one core, whatever core this process is pinned to."""
    return lambda: os.sched_setaffinity(0, {CORES[core % len(CORES)]})


def wait_for(port: int, limit_s: float = 60.0) -> None:
    """Wait until the port accepts connections."""
    began = time.monotonic()
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if time.monotonic() - began > limit_s:
            raise SystemExit(f"error: nothing accepts on port {port} after {limit_s:.0f} s")
        time.sleep(0.01)


def installed_environment() -> dict[str, str]:
    """Return this process's environment, in which Python keeps its compiled files, as on users' machines."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def tamis_command(folder: Path, port: int) -> list[str]:
    """Return the command that starts tamis."""
    options = ["--data", str(folder / "tamis"), "--amqp-port", str(port), "--http-port", str(free_port())]
    return [sys.executable, "-m", "tamis", "serve", *options]


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[list[MeasuredServer]]:
    """Start tamis, and NATS if it is installed; stop them by pid at the end."""
    commands_: list[tuple[str, str, int, list[str]]] = [
        ("tamis", "amqp", port := free_port(), tamis_command(folder, port))
    ]
    if nats := shutil.which("nats-server"):
        port = free_port()
        commands_.append(
            ("NATS", "nats", port, [nats, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "nats")])
        )
    started = []
    try:
        for _, _, _, command in commands_:
            log = (folder / f"{len(started)}.log").open("wb")
            started.append(subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=on_core(0)))
        for _, _, port, _ in commands_:
            wait_for(port)
        yield [
            MeasuredServer(name, protocol, port, child.pid)
            for (name, protocol, port, _), child in zip(commands_, started, strict=True)
        ]
    finally:
        for child in started:
            child.terminate()
        for child in started:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


class Load:
    """The load tool of the shared folder: builds it, runs it, and parses the figures that it prints."""

    def __init__(self, folder: Path) -> None:
        source = shutil.copytree(SHARED / "bench" / "broker_load", folder / "broker_load")
        self._program = folder / "load"
        subprocess.run(["go", "build", "-o", str(self._program), "."], cwd=source, check=True)

    def __call__(self, server: MeasuredServer, phase: str, *options: object) -> dict[str, float]:
        """Run one phase against a server; return the figures it printed, and the broker's CPU time for new bindings."""
        words = [str(self._program), phase, "-proto", server.protocol, "-addr", f"127.0.0.1:{server.port}"]
        words += ["-pid", str(server.pid), *map(str, options)]
        ended = subprocess.run(words, capture_output=True, text=True, preexec_fn=on_core(1), timeout=600)
        figures = {name: float(value) for name, value in FIGURE.findall(ended.stdout)}
        if made := re.search(r"in ([\d.]+) s \(broker CPU ([\d.]+) s\)", ended.stdout):
            figures |= {"made_s": float(made[1]), "made_cpu_s": float(made[2])}
        if bytes_each := re.search(r"= ([\d.]+) KiB/conn", ended.stdout):
            figures["kib_each"] = float(bytes_each[1])
        if ended.returncode or ("ok=true" not in ended.stdout and phase in {"thr", "routes", "fan"}):
            raise SystemExit(f"error: {' '.join(words)}: {ended.stdout}{ended.stderr}")
        return figures

    def start(self, command: list[str], protocol: str, port: int) -> float:
        """Return the seconds from the start of a command to its first accept."""
        words = [str(self._program), "startup", "-proto", protocol, "-addr", f"127.0.0.1:{port}", "--", *command]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120, env=installed_environment())
        accepted = re.search(r"accept=([\d.]+)s", ended.stdout)
        if not accepted:
            raise SystemExit(f"error: {ended.stdout}{ended.stderr}")
        return float(accepted[1])


def median_of(runs: int, work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure over the runs."""
    all_ = [work() for _ in range(runs)]
    return {name: statistics.median(one[name] for one in all_ if name in one) for name in all_[0]}


def throughput(results: Results, load: Load, up: list[MeasuredServer], count: int, runs: int) -> None:
    """Measure one publisher and one consumer."""
    records = []
    for confirm in (False, True):
        for size in (16, 256, 1024):
            for server in up:
                amount = count // 4 if confirm else count
                options = ["-size", size, "-n", amount, *(["-confirm"] if confirm else [])]
                figures = median_of(runs, lambda s=server, o=options: load(s, "thr", *o))
                work = "persistent, confirmed" if confirm else "transient"
                records.append(
                    {"work": f"{work}, {size} B", "broker": server.name, "cpu_s": figures["brokerCPU_s_per_M"]}
                )
    columns = [("work", "1 publisher, 1 consumer", 0), ("broker", "broker", 0), ("cpu_s", "CPU s per million", 2)]
    title = f"{count:,} messages, a quarter of them where they are confirmed; medians of {runs} runs"
    results.table("throughput", title, columns, records)


def routing(results: Results, load: Load, up: list[MeasuredServer], runs: int, bindings: list[int]) -> None:
    """Measure topic bindings for all brokers, and header bindings for tamis, since NATS has none."""
    records = []
    kinds = [("easy", "topic"), ("hash", "topic, `#` at the end"), ("headers", "headers")]
    for kind, title in kinds:
        for amount in bindings:
            for server in up:
                if server.protocol != "amqp" and kind != "easy":
                    continue
                if kind != "easy" and amount > 10_000:
                    continue
                options = ["-bindings", amount, "-kind", kind, "-n", 50_000]
                figures = median_of(runs, lambda s=server, o=options: load(s, "routes", *o))
                records.append(
                    {
                        "work": f"{amount:,} bindings, {title}",
                        "broker": server.name,
                        "us": figures["brokerCPU_us_per_msg"],
                        "made_cpu_s": figures.get("made_cpu_s"),
                    }
                )
    columns = [
        ("work", "bindings", 0),
        ("broker", "broker", 0),
        ("us", "CPU us per message", 2),
        ("made_cpu_s", "CPU s to make", 2),
    ]
    results.table(
        "routing", f"One match per message, receiving and delivering included; medians of {runs} runs", columns, records
    )


def fan_out(results: Results, load: Load, up: list[MeasuredServer], runs: int) -> None:
    """Measure one publish to many queues."""
    records = []
    for queues, count in ((100, 3_000), (1_000, 300)):
        for server in up:
            figures = median_of(runs, lambda s=server, o=("-subs", queues, "-n", count): load(s, "fan", *o))
            records.append({"queues": f"{queues:,}", "broker": server.name, "us": figures["brokerCPU_us_per_publish"]})
    columns = [("queues", "queues", 0), ("broker", "broker", 0), ("us", "CPU us per publish", 1)]
    results.table("fan_out", f"One publish of 256 B to many queues; medians of {runs} runs", columns, records)


def latency(results: Results, load: Load, up: list[MeasuredServer], runs: int, seconds: int, rates: list[int]) -> None:
    """Measure the time from publish to delivery at fixed rates; brokers alternate, so that other load affects all."""
    records = []
    for rate in rates:
        figures_of: dict[str, list[dict[str, float]]] = {server.name: [] for server in up}
        for _ in range(runs):
            for server in up:
                figures_of[server.name].append(load(server, "lat", "-rate", rate, "-secs", seconds))
        for name, all_ in figures_of.items():
            figures = median_of(runs, iter(all_).__next__)
            records.append({"rate": f"{rate:,}/s", "broker": name, **figures})
        p99 = {record["broker"]: record["p99"] for record in records[-len(up) :]}
        if "NATS" in p99:
            records[-len(up)]["times_nats"] = p99["tamis"] / p99["NATS"]
    names = ("p50", "p90", "p99", "p99.9", "max")
    columns = [("rate", "rate", 0), ("broker", "broker", 0), *((name, f"{name} us", 0) for name in names)]
    title = f"Wall time from publish to delivery, 256 B; medians of {runs} runs of {seconds} s"
    results.table("latency", title, [*columns, ("brokerCPU", "CPU %", 1)], records)


def idle(results: Results, load: Load, up: list[MeasuredServer], count: int, folder: Path) -> None:
    """Measure idle connections, at most as many as the broker takes with the files that the system lets it open.

    A process that has served before has free memory, which connections take first: new processes are measured, too."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit != resource.RLIM_INFINITY:
        default = LimitsConfig()
        count = min(count, min(allow_files(default.connections, default.streams)[0], limit) - FILES_OF_OTHERS)
    records = []
    with servers(folder) as fresh:
        for process, servers_ in (("new", fresh), ("has served before", up)):
            for server in servers_:
                figures = load(server, "idle", "-n", count)
                size = {"connections": count, "kib": figures.get("kib_each"), "cpu": figures.get("idleCPU")}
                records.append({"broker": server.name, "process": process, **size})
    columns = [
        ("broker", "broker", 0),
        ("process", "process", 0),
        ("connections", "connections", 0),
        ("kib", "KiB each", 1),
        ("cpu", "CPU % idle", 1),
    ]
    notes = [f"The system lets a process open {limit:,} files."] if count < IDLE else []
    results.table("idle", "Connections held open", columns, records, notes)


def start_up(results: Results, load: Load, folder: Path, runs: int) -> None:
    """Measure the time from the start to the first accept; the first start compiles Python files and does not count."""
    load.start(tamis_command(folder / "start-first", port := free_port()), "amqp", port)
    records = []
    for name in ("an empty folder", "a folder it has used"):
        times = []
        for run in range(runs):
            port = free_port()
            data = folder / (f"start-{run}" if name == "an empty folder" else "start-0")
            times.append(load.start(tamis_command(data, port), "amqp", port))
        records.append({"data": name, "seconds": statistics.median(times)})
    results.table("start", f"Start to accept; medians of {runs}", [("data", "data", 0), ("seconds", "s", 3)], records)


def many_publishers(results: Results, server: MeasuredServer, count: int, publishers: int = 64) -> None:
    """Measure durable messages from many publishers with confirms."""
    name = "many-publishers"
    control = LoadConnection(server.port)
    control.call(commands.Queue.Declare(queue=name, durable=True), "Queue.DeclareOk")
    message = publish_bytes("", name, b"x" * 256, delivery_mode=2)
    flow_of = []
    for _ in range(publishers):
        connection = LoadConnection(server.port)
        connection.call(commands.Confirm.Select(), "Confirm.SelectOk")
        flow_of.append((connection, [message]))
    flow = Flow(flow_of, [], confirms=True, window=20_000)
    flow.run(count // 10)
    before = cpu_s(server.pid)
    seconds = flow.run(count, chunk=64)
    spent = cpu_s(server.pid) - before
    control.call(commands.Queue.Delete(queue=name), "Queue.DeleteOk")
    record = {"work": f"{publishers} publishers, 256 B", "rate": count / seconds, "cpu_s": spent / count * 1e6}
    columns = [("work", "durable, confirmed", 0), ("rate", "messages/s", 0), ("cpu_s", "CPU s per million", 2)]
    results.table("publishers", f"{count:,} messages into a durable queue", columns, [record])


def by_query(results: Results, server: MeasuredServer, count: int, runs: int, bindings: int = 10_000) -> None:
    """Measure messages by their headers, which one of many queries on bindings is true of."""
    reader = LoadConnection(server.port)
    queues = [f"by-query-{number}" for number in range(100)]
    for queue in queues:
        reader.call(commands.Queue.Declare(queue=queue, exclusive=True), "Queue.DeclareOk")
        reader.call(commands.Basic.Consume(queue=queue, no_ack=True), "Basic.ConsumeOk")
    binds = []
    for number in range(bindings):
        query = {"x-query": f"symbol = 'S{number}' AND price > {number % 100}"}
        binds.append(commands.Queue.Bind(queue=queues[number % 100], exchange="amq.fanout", arguments=query))
    reader.bind_all(binds)
    headers = ({"symbol": f"S{number * 7919 % bindings}", "price": 100, "region": "west"} for number in range(1_000))
    messages = [publish_bytes("amq.fanout", "", b"x" * 256, headers=one) for one in headers]
    flow = Flow([(LoadConnection(server.port), messages)], [reader], per_message=1, window=2_000)
    spent = [_cost(flow, server, count) for _ in range(runs + 1)][1:]
    reader.close()
    record = {"bindings": f"{bindings:,} queries", "us": statistics.median(spent)}
    columns = [("bindings", "bindings", 0), ("us", "CPU us per message", 2)]
    title = f"Messages of 256 B with three headers, one query true of each; medians of {runs} runs"
    results.table("selectors", title, columns, [record])


def new_keys(results: Results, server: MeasuredServer, count: int, runs: int, bindings: int = 100_000) -> None:
    """Measure messages whose routing key the broker has never seen, against many topic bindings."""
    reader = LoadConnection(server.port)
    reader.call(commands.Queue.Declare(queue="new-keys", exclusive=True), "Queue.DeclareOk")
    reader.call(commands.Basic.Consume(queue="new-keys", no_ack=True), "Basic.ConsumeOk")
    keys = (f"market.{number}.*" for number in range(bindings))
    reader.bind_all([commands.Queue.Bind(queue="new-keys", exchange="amq.topic", routing_key=key) for key in keys])
    spent = []
    for run in range(runs):
        names = (f"market.{number * 7919 % bindings}.{run}-{number}" for number in range(count))
        messages = [publish_bytes("amq.topic", name, b"x" * 256) for name in names]
        flow = Flow([(LoadConnection(server.port), messages)], [reader], per_message=1, window=2_000)
        spent.append(_cost(flow, server, count))
    reader.close()
    record = {"bindings": f"{bindings:,} topic bindings", "us": statistics.median(spent)}
    columns = [("bindings", "bindings", 0), ("us", "CPU us per message", 2)]
    title = f"Messages of 256 B, each with a routing key of its own; medians of {runs} runs"
    results.table("new_keys", title, columns, [record])


def _cost(flow: Flow, server: MeasuredServer, count: int) -> float:
    """Publish `count` messages; return the broker's CPU microseconds per message."""
    before = cpu_s(server.pid)
    flow.run(count, chunk=64, limit_s=120)
    return (cpu_s(server.pid) - before) / count * 1e6


class PnnlWork:
    """The PNNL paper's test at one level: subscribers with selectors, and 10 publishers."""

    def __init__(self, server: MeasuredServer, subscribers: int, level: int) -> None:
        self.subscribers, self.level = subscribers, level
        # Up to 100 subscribers have the same selector; more have ten, of which each message matches one.
        self.distinct = 1 if subscribers <= 100 else 10
        self._pid = server.pid
        exchange = f"pnnl-{subscribers}-{level}"
        reader = LoadConnection(server.port)
        reader.call(
            commands.Exchange.Declare(exchange=exchange, exchange_type="fanout", auto_delete=True), "Exchange.DeclareOk"
        )
        for number in range(subscribers):
            queue = f"{exchange}-{number}"
            reader.call(commands.Queue.Declare(queue=queue, exclusive=True), "Queue.DeclareOk")
            arguments = {"x-query": self.selector(number), "x-query-language": "cbm", "x-query-body": "text"}
            reader.call(commands.Queue.Bind(queue=queue, exchange=exchange, arguments=arguments), "Queue.BindOk")
            reader.call(commands.Basic.Consume(queue=queue, no_ack=True), "Basic.ConsumeOk")
        posts = [pnnl_post(self._which(turn), turn) for turn in range(100)]
        messages = [publish_bytes(exchange, "", post["body"], headers=post["headers"]) for post in posts]
        publishers = [(LoadConnection(server.port), messages) for _ in range(10)]
        self._flow = Flow(publishers, [reader], per_message=subscribers / self.distinct, window=200)
        self._open = [reader, *(one for one, _ in publishers)]

    def selector(self, number: int) -> str:
        """Return the selector of a subscriber."""
        return PNNL_LEVELS[self.level - 1].format(self._which(number))

    def _which(self, number: int) -> int | str:
        """Return which of the distinct selectors has this number; the only one is the paper's, without a number."""
        return number % self.distinct if self.distinct > 1 else ""

    def run(self, count: int) -> tuple[float, float]:
        """Publish `count` messages; return the broker's CPU microseconds per message, and messages per second."""
        before = cpu_s(self._pid)
        seconds = self._flow.run(count, chunk=8, limit_s=120)
        return (cpu_s(self._pid) - before) / count * 1e6, count / seconds

    def one_by_one(self) -> float:
        """Return the CPU microseconds per message for evaluating every subscriber's selector, one after another."""
        selectors = [tamis.selector(self.selector(number), dialect="cbm") for number in range(self.subscribers)]
        posts = [pnnl_post(self._which(turn), turn) for turn in range(20)]
        before = time.thread_time()
        for post in posts:
            for selector in selectors:
                selector.evaluate(properties=post["headers"], body=post["body"].decode())
        return (time.thread_time() - before) / len(posts) * 1e6

    def close(self) -> None:
        """Close the sockets; the broker then deletes the queues and the exchange."""
        for connection in self._open:
            connection.close()


PNNL_LEVELS = (
    'From = "Someone{0} (Someone@yahoo.com)"',
    'Subject LIKE "%question{0}%"',
    "Body LIKE %garlic{0}%",
    "Body LIKE %warmer{0}%",
)
"""The PNNL paper, section 4.1, with a number where a tenth of the subscribers match."""
PNNL_BODY = """\
I covered my daffodils, garlic{0}, and rhubarb
last night in hopes of saving them from freezing.
Should one uncover them during the day if the temp
is above freezing, and re-cover them in the late
afternoon? Or can I just leave them covered for a
few days till the nights get warmer{0}? (may be a moot
point after I look at them...) {1}"""
"""The PNNL paper, figure 5."""


def pnnl_post(which: int | str, turn: int) -> dict[str, Any]:
    """Return the paper's newsgroup post; consecutive ones differ by a byte, so that none is looked up."""
    headers = {"author": f"Someone{which} (Someone@yahoo.com)", "subject": f"I have a question{which}..."}
    return {"body": PNNL_BODY.format(which, turn % 10).encode(), "headers": headers}


def pnnl(results: Results, server: MeasuredServer, count: int, runs: int) -> None:
    """Measure the PNNL paper's test; the levels alternate, so that other load affects all of them."""
    records = []
    for subscribers in (10, 20, 50, 100, 200, 400):
        works = [PnnlWork(server, subscribers, level) for level in (1, 2, 3, 4)]
        for work in works:
            work.run(count // 10 + 1)
        turns = [[work.run(count) for work in works] for _ in range(runs)]
        record: dict[str, Any] = {"subscribers": f"{subscribers}"}
        for work, figures in zip(works, zip(*turns, strict=True), strict=True):
            record[f"level_{work.level}"] = statistics.median(cost for cost, _ in figures)
            record[f"rate_{work.level}"] = statistics.median(rate for _, rate in figures)
        record["ratio"] = statistics.median(turn[3][0] / turn[0][0] for turn in turns)
        record["one_by_one_1"], record["one_by_one_4"] = works[0].one_by_one(), works[3].one_by_one()
        for work in works:
            work.close()
        records.append(record)
    columns = [
        ("subscribers", "subscribers", 0),
        *((f"level_{i}", f"level {i}", 1) for i in (1, 2, 3, 4)),
        ("ratio", "level 4 / level 1", 2),
        *((f"rate_{i}", f"messages/s, level {i}", 0) for i in (1, 4)),
        ("one_by_one_1", "one by one, level 1", 1),
        ("one_by_one_4", "one by one, level 4", 1),
    ]
    results.table(
        "pnnl",
        "the PNNL paper's post of 327 bytes and its selectors on bindings: the broker's CPU us per message,"
        f" not persistent; medians of {runs} turns",
        columns,
        records,
        [
            "Up to 100 subscribers have one selector and all match; of 200 and 400 a tenth does, with ten selectors."
            " One by one: the same selectors and messages through `Query.evaluate` in Python, without delivery; most of"
            " it is the cost of the calls. The section on selectors has the same in the core."
        ],
    )


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, once")
    arguments = parser.parse_args()
    if not shutil.which("go") or not SHARED.is_dir():
        raise SystemExit("skipped: needs Go, and bench/broker_load of the shared folder")
    count, runs = (arguments.messages // 10, 1) if arguments.quick else (arguments.messages, arguments.runs)
    results = Results("broker", f"--messages {count} --runs {runs}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load = Load(folder)
        start_up(results, load, folder, runs)
        with servers(folder) as up:
            throughput(results, load, up, count, runs)
            routing(results, load, up, runs, [1, 100, 10_000] if arguments.quick else [1, 100, 10_000, 100_000])
            fan_out(results, load, up, runs)
            many_publishers(results, up[0], count)
            pnnl(results, up[0], count // 100, runs)
            latency(results, load, up, runs, 2 if arguments.quick else 8, [1_000, 50_000])
            by_query(results, up[0], count // 10, runs)
            new_keys(results, up[0], count // 10, runs)
            idle(results, load, up, 1_000 if arguments.quick else IDLE, Path(tempfile.mkdtemp(dir=folder)))
    results.write()


if __name__ == "__main__":
    main()
