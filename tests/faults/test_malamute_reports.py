"""What users of an earlier broker reported, one scenario each: none of it happens here."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest
import trustme

pytest.importorskip("aio_pika", reason="the client is not installed: pip install 'tamis[client]'")

import tamis.client
from tamis.client import Client, ClientError, IdentityTakenError
from tests.broker.conftest import RunningBroker
from tests.broker.proxy import proxy_to
from tests.faults.amqp import BrokerClosedError, BrokerGoneError
from tests.faults.amqp import Client as PlainClient
from tests.faults.promises import times

LIMIT_S = 120
SAME_ADDRESS = times("TAMIS_SAME_ADDRESS_CLIENTS", 20, 200)
FLOOD_MIB = times("TAMIS_FLOOD_MIB", 96, 1_024)
MEMORY_MIB = 32
HELD_BYTES_MAX = 2 * MEMORY_MIB << 20
WORKER = """
import sys, tamis.client.blocking
client = tamis.client.blocking.connect(sys.argv[1])
request = next(client.service("resize").offer())
print(request.body.decode(), flush=True)
sys.stdin.read()  # and does not answer
"""
CONFIG = f"[services]\nworker_s = 2\n[limits]\nmemory_bytes = {MEMORY_MIB << 20}\n"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path, config=CONFIG)
    yield running
    assert running.process.poll() is None, running.log_path.read_text()
    running.kill()


def url(broker: RunningBroker) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.port}/"


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` in a loop, in bounded time."""
    asyncio.run(asyncio.wait_for(work(), LIMIT_S))


async def bodies_of(client: Client, count: int) -> list[bytes]:
    """Return the next messages of a client's mailbox."""
    found = []
    async with aclosing(client.mailbox().messages()) as messages:
        async for message in messages:
            found.append(message.body)
            if len(found) == count:
                await message.ack()
                break
    return found


async def is_served(broker: RunningBroker) -> None:
    """See that a new client can use the broker."""
    async with await tamis.client.connect(url(broker), identity=f"bystander{time.monotonic_ns()}") as client:
        await client.mailbox(client.identity).send(b"to myself")
        assert await bodies_of(client, 1) == [b"to myself"]


def test_what_a_mailbox_has_confirmed_is_there_after_kill_9(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker), identity="ann") as ann:
            for number in range(50):
                await ann.mailbox("bob").send(str(number).encode())
            broker.kill()
            await asyncio.to_thread(broker.start)
        async with await tamis.client.connect(url(broker), identity="bob") as bob:
            assert await bodies_of(bob, 50) == [str(number).encode() for number in range(50)]

    run(work)


def test_whoever_sends_is_told_whether_it_was_stored(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker), identity="ann") as ann:
            broker.kill()
            sending = asyncio.create_task(ann.mailbox("bob").send(b"hello"))
            done, _ = await asyncio.wait([sending], timeout=0.5)
            assert not done, "nobody can have stored it"
            await asyncio.to_thread(broker.start)
            await sending
            with pytest.raises(ClientError, match="no queue takes the message"):
                await ann.stream("s").publish(b"", exchange="amq.topic", topic="nobody.listens")
        async with await tamis.client.connect(url(broker), identity="bob") as bob:
            assert await bodies_of(bob, 1) == [b"hello"]

    run(work)


def test_a_client_can_be_sure_of_its_broker_and_nobody_reads_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "broker").mkdir()
    config = f'[tls]\nport = 0\ncert = "{tmp_path}/cert.pem"\nkey = "{tmp_path}/key.pem"\n'
    broker = RunningBroker(tmp_path / "broker", config=config)

    async def work() -> None:
        address = f"tamiss://guest:guest@localhost:{broker.tls_port}/mailbox/ann"
        with pytest.raises(ClientError, match="certificate verify failed"):
            await tamis.client.connect(address)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with await tamis.client.connect(address, identity="ann") as ann:
            await ann.mailbox().send(b"secret")
            assert await bodies_of(ann, 1) == [b"secret"]
        with pytest.raises(ClientError):
            await tamis.client.connect(f"amqp://guest:guest@localhost:{broker.tls_port}/")

    try:
        run(work)
    finally:
        broker.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_request_of_a_worker_that_dies_or_stops_is_answered_by_another(
    broker: RunningBroker, number: signal.Signals
) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, url(broker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    reading = worker.stdout

    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            asking = asyncio.create_task(client.service("resize").request(b"picture", timeout_s=60))
            assert await asyncio.to_thread(reading.readline) == "picture\n"
            os.kill(worker.pid, number)
            async with aclosing(client.service("resize").offer()) as requests:
                request = await anext(requests)
                assert (request.body, request.is_redelivered) == (b"picture", True)
                await request.reply(b"small")
                assert (await asking).body == b"small"

    try:
        run(work)
    finally:
        worker.kill()
        worker.wait()
        worker.stdin.close()
        worker.stdout.close()


def test_many_clients_with_one_address_are_refused_but_one(broker: RunningBroker) -> None:
    async def work() -> None:
        attempts = [tamis.client.connect(url(broker), identity="ann") for _ in range(SAME_ADDRESS)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        (ann,) = [outcome for outcome in outcomes if isinstance(outcome, Client)]
        assert all(isinstance(outcome, IdentityTakenError) for outcome in outcomes if outcome is not ann)
        await ann.mailbox().send(b"mine")
        assert await bodies_of(ann, 1) == [b"mine"]
        await ann.close()
        for _ in range(SAME_ADDRESS):
            async with await tamis.client.connect(url(broker), identity="ann") as again:
                assert again.identity == "ann"
        await is_served(broker)

    run(work)


def test_clients_that_send_more_than_there_is_memory_for_are_stopped_and_others_served(broker: RunningBroker) -> None:
    async def work() -> None:
        with ExitStack() as stack:
            assert held_bytes_of_floods(broker, stack, FLOOD_MIB) < HELD_BYTES_MAX
            async with await tamis.client.connect(url(broker), identity="late") as late:  # it may read, if not send
                assert late.identity == "late"
        await is_served(broker)

    run(work)


def test_control_a_broker_that_may_keep_more_is_caught(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path, config=f"[limits]\nmemory_bytes = {8 * HELD_BYTES_MAX}\n")
    try:
        with ExitStack() as stack:
            assert held_bytes_of_floods(broker, stack, HELD_BYTES_MAX >> 22) >= HELD_BYTES_MAX
    finally:
        broker.kill()


def held_bytes_of_floods(broker: RunningBroker, stack: ExitStack, each_mib: int) -> int:
    """Let eight clients send what they can, and at most so much each; return the memory that the broker counts then."""
    for number in range(8):
        sender = PlainClient(broker.port)
        stack.callback(sender.close)
        sender._socket.settimeout(1.0)
        flood(sender, number, each_mib)
    return int(broker.ask("metrics")["memory_counted_bytes"])


def flood(sender: PlainClient, number: int, each_mib: int) -> None:
    """Send transient messages to a mailbox that nobody reads, until the broker reads no more of them for a second."""
    body, left = bytes(64 << 10), each_mib << 20
    while left > 0:
        try:
            sender.publish("mailbox", f"nobody{number}", body)
            left -= len(body)
        except (BrokerGoneError, BrokerClosedError):
            return


@pytest.mark.parametrize("pattern", ["(", "[a-", "a{2,1}", "(?<=a)b", "a{1000}{1000}"])
def test_a_bad_regular_expression_is_refused_and_its_client_goes_on(broker: RunningBroker, pattern: str) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("s")
            await stream.publish(b"one")
            reading = stream.subscribe(pattern, language="regex", start="first")
            with pytest.raises(ClientError, match="PRECONDITION_FAILED"):
                await anext(reading)
            good = stream.subscribe("^s$", language="regex", start="first")
            assert (await anext(good)).body == b"one"
            await good.aclose()

    run(work)


def test_a_reader_behind_a_congested_network_has_everything_and_holds_up_nobody(broker: RunningBroker) -> None:
    count = 200

    async def work() -> None:
        async with (
            proxy_to(broker.port) as network,
            await tamis.client.connect(network.url()) as far,
            await tamis.client.connect(url(broker)) as near,
        ):
            for stream in (far.stream("s"), near.stream("s")):
                await stream.make()
            slow, fast = far.stream("s").subscribe(start="first"), near.stream("s").subscribe(start="first")
            await near.stream("s").publish(b"")
            assert (await anext(slow)).number == 1
            network.bytes_per_s = 500
            for _ in range(1, count):
                await near.stream("s").publish(bytes(1_000))
            numbers = [(await anext(fast)).number for _ in range(count)]
            assert numbers == list(range(1, count + 1))
            await is_served(broker)
            network.bytes_per_s = None
            numbers = [(await anext(slow)).number for _ in range(1, count)]
            assert numbers == list(range(2, count + 1))
            await asyncio.gather(slow.aclose(), fast.aclose())

    run(work)
