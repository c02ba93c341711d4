"""The shell listens, stops and logs clients in, and mistakes of one client do not affect others."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import trustme
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.frame import marshal
from pamqp.header import ContentHeader
from pika.exceptions import (
    AMQPConnectionError,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tamis._core import amqp_decode_frame, amqp_encode_method
from tamis.broker.login.handshake import PROTOCOL_HEADER
from tamis.broker.users.users_file import UsersFile
from tests.broker.conftest import RunningBroker, StartBroker
from tests.broker.test_pika import get, name

# pika leaves the sockets of connections that were refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module", autouse=True)
def _pikas_garbage() -> Iterator[None]:
    yield
    gc.collect()


def method(name: str, channel: int = 0, **fields: Any) -> bytes:
    return amqp_encode_method(channel, name, fields)


def received(wire: socket.socket) -> list[tuple[int, str, dict[str, Any]]]:
    """Return all frames until the broker closes the socket."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := wire.recv(65536):
            data += piece
    return frames(data)


def frames(data: bytes) -> list[tuple[int, str, dict[str, Any]]]:
    found = []
    while data and (frame := amqp_decode_frame(data, 1 << 20)) is not None:
        found.append(frame[:3])
        data = data[frame[3] :]
    return found


def shake_hands(wire: socket.socket, capabilities: bool = True, password: bytes = b"guest", heartbeat: int = 0) -> None:
    """Log in as guest, up to open-ok."""
    client = {"capabilities": {"authentication_failure_close": True}} if capabilities else {}
    response = b"\x00guest\x00" + password
    wire.sendall(PROTOCOL_HEADER)
    wait_for(wire, "connection.start")
    wire.sendall(
        method("connection.start-ok", client_properties=client, mechanism="PLAIN", response=response, locale="en_US")
    )
    wait_for(wire, "connection.tune")
    tune_ok = method("connection.tune-ok", channel_max=0, frame_max=0, heartbeat=heartbeat)
    wire.sendall(tune_ok + method("connection.open", virtual_host="/"))
    wait_for(wire, "connection.open-ok")


def wait_for(wire: socket.socket, expected: str) -> dict[str, Any]:
    data = b""
    while (frame := amqp_decode_frame(data, 1 << 20)) is None:
        piece = wire.recv(65536)
        assert piece, f"the broker closed the socket before {expected}"
        data += piece
    assert frame[1] == expected, frame
    return frame[2]


def can_work(broker: RunningBroker) -> bool:
    """Check that a client can connect, declare, publish and get."""
    with broker.connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"works")
        return get(channel, queue) == b"works"


# ---- starting and stopping ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_tells_clients_and_ends_well(start_broker: StartBroker, number: int) -> None:
    broker = start_broker()
    connection = broker.connect()
    channel = connection.channel()
    stopping = threading.Thread(target=broker.stop, args=(number,))
    stopping.start()
    with pytest.raises(ConnectionClosedByBroker) as error:
        while True:
            connection.process_data_events(time_limit=5)
            channel.basic_qos(prefetch_count=1)
    assert error.value.reply_code == 320
    stopping.join()
    assert broker.process.returncode == 0
    assert not (broker.data / "control.sock").exists()
    assert broker.log()[-1]["event"] == "stopped"


STOPPED_EARLY = """
import os, signal, sys
from tamis.broker.config import BrokerConfig
from tamis.broker.server.serve import serve
from tamis.cli.broker.serve import _start_http

def start_http(config, on_end):
    os.kill(os.getpid(), signal.SIGTERM)
    return _start_http(config, on_end)

sys.exit(serve(BrokerConfig.load(None, {"amqp_port": 0, "http_port": 0}), start_http))
"""


def test_a_signal_that_comes_as_soon_as_it_listens_ends_it_well(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_EARLY], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert '"event": "stopped"' in done.stderr


def test_a_client_that_does_not_answer_holds_nobody_up_for_long(start_broker: StartBroker) -> None:
    broker = start_broker()
    with broker.socket() as wire:
        shake_hands(wire)
        begun = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - begun < 15


def test_a_second_signal_stops_at_once(start_broker: StartBroker) -> None:
    broker = start_broker()
    with broker.socket() as wire:
        shake_hands(wire)
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_for_log("stopping")
        assert broker.stop(signal.SIGINT) == 128 + signal.SIGINT


def test_a_second_broker_on_the_same_data_is_refused(broker: RunningBroker) -> None:
    done = _serve(broker.folder, "--data", str(broker.data), "--amqp-port", "0")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {broker.data}: another broker (process {broker.process.pid}) uses this data")


def test_a_port_that_is_taken_is_told(broker: RunningBroker, tmp_path: Path) -> None:
    done = _serve(tmp_path, "--amqp-port", str(broker.port))
    assert done.returncode == 2
    expected = f"127.0.0.1:{broker.port} is taken by another process: stop it, or give another amqp-port"
    assert done.stderr == f"error: {expected}\n"


def test_another_address_needs_tls_or_insecure(tmp_path: Path) -> None:
    done = _serve(tmp_path, "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "--insecure" in done.stderr
    assert not (tmp_path / "tamis-data").exists(), "nothing was made"


def _serve(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tamis", "serve", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_what_a_killed_broker_left_behind_is_in_nobodys_way(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker("--unix", str(tmp_path / "amqp.sock"))
    broker.kill()
    assert (tmp_path / "amqp.sock").exists()
    broker.start()
    assert can_work(broker)


@pytest.mark.parametrize("what", ["a file", "another broker's socket"])
def test_what_stands_where_the_unix_socket_should_be_is_left_alone(
    start_broker: StartBroker, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "amqp.sock"
    if what == "a file":
        path.write_text("precious")
        refused = "expected a Unix socket or nothing there"
    else:
        start_broker("--unix", str(path))
        refused = "another process listens on this Unix socket"
    done = _serve(tmp_path, "--data", "other", "--amqp-port", "0", "--http-port", "0", "--unix", str(path))
    assert (done.returncode, done.stderr) == (2, f"error: {path}: {refused}\n")
    if what == "a file":
        assert path.read_text() == "precious"
    else:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


# ---- users ----


def test_a_wrong_password_is_refused_and_logged(start_broker: StartBroker) -> None:
    broker = start_broker()
    for user in ("guest", "nobody"):
        with pytest.raises(ProbableAuthenticationError):
            pika.BlockingConnection(broker.parameters(user, "wrong"))
    event = broker.wait_for_log("login refused")
    assert (event["user"], event["reason"]) == ("guest", "wrong password, or no such user")
    assert re.fullmatch(r"127\.0\.0\.1:\d+", event["peer"])
    assert "wrong" not in event["user"]


@pytest.mark.serial
def test_wrong_logins_wait_and_right_ones_do_not(start_broker: StartBroker) -> None:
    broker = start_broker()

    def seconds(password: str) -> float:
        begun = time.monotonic()
        with contextlib.suppress(AMQPConnectionError):
            pika.BlockingConnection(broker.parameters("guest", password)).close()
        return time.monotonic() - begun

    assert can_work(broker)
    waits = [seconds("wrong") for _ in range(6)]
    assert waits[-1] > 1.0
    assert seconds("guest") < waits[-1] / 2


def test_the_administrators_password_stands_where_the_log_says(start_broker: StartBroker) -> None:
    broker = start_broker()
    told = broker.wait_for_log("first users")
    password = Path(told["password"]).read_text().strip()
    pika.BlockingConnection(broker.parameters(told["administrator"], password)).close()
    assert password not in broker.log_path.read_text()


def test_guest_stays_out_when_others_could_come(start_broker: StartBroker) -> None:
    broker = start_broker("--host", "0.0.0.0", "--insecure")
    with pytest.raises(ProbableAuthenticationError):
        broker.connect()
    refused = broker.wait_for_log("login refused")["reason"]
    assert refused == "user 'guest' may log in only while the broker listens on this machine alone"
    password = (broker.data / "admin-password").read_text().strip()
    pika.BlockingConnection(broker.parameters("admin", password)).close()


def test_users_change_while_it_runs(start_broker: StartBroker) -> None:
    broker = start_broker()

    def users(*arguments: str, stdin: str = "") -> None:
        command = [sys.executable, "-m", "tamis", "users", *arguments, "--data", str(broker.data)]
        subprocess.run(command, input=stdin, text=True, check=True, timeout=60, capture_output=True)
        broker.ask("reload_users")

    users("add", "ann", stdin="secret\n")
    users("permit", "ann", "--configure", "ann\\..*", "--write", ".*", "--read", "ann\\..*")
    skip = len(broker.log())
    users("permit", "ann", "--write", "ann\\..*|amq\\.default")
    broker.wait_for_log("users changed", skip=skip)
    connection = pika.BlockingConnection(broker.parameters("ann", "secret"))
    connection.channel().queue_declare("ann.queue", exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connection.channel().queue_declare("bob.queue", exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connection.channel().queue_bind("ann.queue", "amq.topic", "#")
    users("remove", "ann")
    with pytest.raises(ConnectionClosedByBroker) as error:
        while True:
            connection.process_data_events(time_limit=1)
            connection.channel()
    assert error.value.reply_code == 320
    with pytest.raises(ProbableAuthenticationError):
        pika.BlockingConnection(broker.parameters("ann", "secret"))


def test_without_its_users_a_broker_with_records_does_not_start(start_broker: StartBroker) -> None:
    broker = start_broker()
    assert broker.stop() == 0
    users = UsersFile(broker.data)
    kept = users.path.read_text()
    users.path.unlink()
    done = _serve(broker.folder, "--data", str(broker.data), "--amqp-port", "0")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {users.path} is missing, but a broker has kept messages or definitions")
    assert not users.path.exists()
    users.path.write_text('{"version": 1, "users": {}}')  # as the message says
    broker.start()
    with pytest.raises(ProbableAuthenticationError):
        broker.connect()
    users.path.write_text(kept)
    broker.stop()
    broker.start()
    assert can_work(broker)


def test_a_bad_users_file_changes_nothing_while_it_runs(start_broker: StartBroker) -> None:
    broker = start_broker()
    UsersFile(broker.data).path.write_text("{")
    assert "expected JSON" in broker.wait_for_log("users not changed")["reason"]
    assert can_work(broker)


def test_limits_of_a_user_hold(start_broker: StartBroker) -> None:
    broker = start_broker(config="[limits]\nconnections_per_user = 2\nqueues_per_user = 1\n")
    first, second = broker.connect(), broker.connect()
    with pytest.raises(ProbableAccessDeniedError, match=r"\(530\) .*user 'guest' has 2 of 2 already"):
        broker.connect()
    second.close()
    broker.connect().close()
    channel = first.channel()
    channel.queue_declare("", exclusive=True)
    with pytest.raises((pika.exceptions.ChannelClosedByBroker, ConnectionClosedByBroker), match="queue limit"):
        channel.queue_declare("", exclusive=True)


def test_a_vhost_that_is_not_there_is_refused(broker: RunningBroker) -> None:
    with pytest.raises(ProbableAccessDeniedError, match=r"\(530\) \"NOT_ALLOWED - vhost 'nowhere' not found\""):
        broker.connect(virtual_host="nowhere")


# ---- bad input, with a bystander who must not notice ----


@pytest.fixture
def bystander(broker: RunningBroker) -> Iterator[None]:
    """Keep a client connected during the test, and check that it works before and after."""
    with broker.connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"before")
        yield
        channel.basic_publish("", queue, b"after")
        assert [get(channel, queue), get(channel, queue)] == [b"before", b"after"]


OPEN_CHANNEL = method("channel.open", 1)
PUBLISH = method("basic.publish", 1, exchange="", routing_key="q")
HEADER = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\xce"


def frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + bytes([end])


def nested(depth: int) -> bytes:
    """Return deeply nested tables, as the bytes of queue.declare's arguments."""
    table = b""
    for _ in range(depth):
        table = b"\x01aF" + len(table).to_bytes(4, "big") + table
    return len(table).to_bytes(4, "big") + table


BAD = {
    "no end octet": (frame(1, 0, b"\x00\x0a\x00\x32", end=0), {501}),
    "an unknown type": (frame(7, 0, b""), {501}),
    "a frame of 4 GiB": (b"\x01\x00\x00\xff\xff\xff\xff", {501}),
    "an unknown class": (frame(1, 1, b"\x0f\xff\x00\x0a"), {540, 503, 502}),
    "a method on channel 0 that is none of its": (method("queue.declare", 0, queue="q"), {503, 504}),
    "a method on a channel that is not open": (method("queue.declare", 5, queue="q"), {504}),
    "a channel opened twice": (OPEN_CHANNEL + OPEN_CHANNEL, {504}),
    "a channel above the limit": (method("channel.open", 2048), {530, 504}),
    "a body without a header": (OPEN_CHANNEL + frame(3, 1, b"x"), {505}),
    "a method in the middle of content": (OPEN_CHANNEL + PUBLISH + method("basic.qos", 1), {505}),
    "more body than was announced": (OPEN_CHANNEL + PUBLISH + HEADER + frame(3, 1, b"123456"), {501, 505}),
    "a server's method": (OPEN_CHANNEL + method("queue.declare-ok", 1, queue="q"), {503, 540}),
    "arguments cut short": (OPEN_CHANNEL + frame(1, 1, b"\x00\x32\x00\x0a\x00\x00\x05ab"), {502}),
    "a heartbeat on a channel": (frame(8, 1, b""), {501, 503, 505, 504}),
    "the handshake again": (method("connection.open", virtual_host="/"), {503, 504}),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.usefixtures("bystander")
def test_bad_frames_close_that_connection_with_the_right_code(broker: RunningBroker, kind: str) -> None:
    data, codes = BAD[kind]
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(data)
        until = time.monotonic() + 20
        got = b""
        while time.monotonic() < until and b"\x00\x0a\x00\x32" not in got:
            piece = wire.recv(65536)
            assert piece, f"the broker closed the socket without a reason: {frames(got)}"
            got += piece
        closed = [fields for _, name, fields in frames(got) if name == "connection.close"]
        assert closed[0]["reply_code"] in codes, closed
        assert closed[0]["reply_text"].split(" - ")[0].replace("_", "").isupper()
        wire.sendall(method("connection.close-ok"))
        assert received(wire) == []


@pytest.mark.usefixtures("bystander")
def test_a_message_that_is_too_large_is_refused_by_its_header(broker: RunningBroker) -> None:
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(OPEN_CHANNEL)
        wait_for(wire, "channel.open-ok")
        wire.sendall(PUBLISH + HEADER.replace(b"\x00" * 7 + b"\x05", (2**63).to_bytes(8, "big")))
        assert wait_for(wire, "channel.close")["reply_code"] in (406, 311)


def headers(table: bytes) -> bytes:
    """Return a message of five bytes with these headers."""
    header = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + b"\x20\x00" + table
    return PUBLISH + frame(2, 1, header) + frame(3, 1, b"12345")


def large(size: int) -> bytes:
    """Return a table of one text of `size` bytes."""
    field = b"\x01aS" + size.to_bytes(4, "big") + b"x" * size
    return len(field).to_bytes(4, "big") + field


@pytest.mark.parametrize("table", [nested(40), nested(10_000)])
@pytest.mark.usefixtures("bystander")
def test_headers_that_are_too_deep_close_the_channel_and_not_the_connection(
    broker: RunningBroker, table: bytes
) -> None:
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(method("channel.open", 2))
        wait_for(wire, "channel.open-ok")
        wire.sendall(OPEN_CHANNEL)
        wait_for(wire, "channel.open-ok")
        wire.sendall(headers(table))
        assert wait_for(wire, "channel.close")["reply_code"] == 406
        wire.sendall(method("queue.declare", 2, queue="", exclusive=True))
        wait_for(wire, "queue.declare-ok")


def test_headers_may_fill_a_frame(broker: RunningBroker) -> None:
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(OPEN_CHANNEL + method("queue.declare", 1, queue="q", exclusive=True))
        wire.sendall(headers(large(130_000)) + method("basic.get", 1, queue="q", no_ack=True))
        data = b""
        while b"12345" not in data:
            data += wire.recv(65536)
        assert b"x" * 130_000 in data


@pytest.mark.usefixtures("bystander")
def test_random_bytes_after_the_handshake_end_that_connection_alone(broker: RunningBroker) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    dice = random.Random(seed)
    good = OPEN_CHANNEL + method("queue.declare", 1, exclusive=True) + PUBLISH + HEADER + frame(3, 1, b"12345")
    for _ in range(60):
        mutated = bytearray(good * 2)
        for _ in range(dice.randint(1, 6)):
            mutated[dice.randrange(len(mutated))] = dice.randrange(256)
        with broker.socket() as wire:
            shake_hands(wire)
            wire.settimeout(0.2)
            with contextlib.suppress(TimeoutError, ConnectionError):
                wire.sendall(bytes(mutated))
                received(wire)
    assert broker.process.poll() is None


def test_another_protocol_gets_the_header_and_the_log_says_what_it_was(broker: RunningBroker) -> None:
    for spoken, hint in ((b"GET / HTTP/1.1\r\n\r\n", "not HTTP"), (b"AMQP\x01\x01\x00\x0a", "not AMQP version")):
        skip = len(broker.log())
        with broker.socket() as wire:
            wire.sendall(spoken)
            assert wire.recv(100) == PROTOCOL_HEADER
            assert wire.recv(100) == b""
        assert hint in broker.wait_for_log("handshake failed", skip=skip)["reason"]


def test_who_says_nothing_is_closed_in_time_and_others_come_in_meanwhile(start_broker: StartBroker) -> None:
    broker = start_broker(config="[limits]\nhandshake_s = 4.0\n")
    silent = [broker.socket() for _ in range(200)]
    for wire in silent[::2]:
        wire.sendall(PROTOCOL_HEADER)
    assert can_work(broker)
    begun = time.monotonic()
    for index, wire in enumerate(silent):
        names = [name for _, name, _ in received_then_closed(wire)]
        assert names == ([] if index % 2 else ["connection.start", "connection.close"])
        wire.close()
    assert time.monotonic() - begun < 15


def received_then_closed(wire: socket.socket) -> list[tuple[int, str, dict[str, Any]]]:
    """Return all frames, and answer connection.close."""
    data = b""
    while piece := wire.recv(65536):
        data += piece
        if any(name == "connection.close" for _, name, _ in frames(data)):
            wire.sendall(method("connection.close-ok"))
    return frames(data)


def test_no_more_connections_than_the_limit(start_broker: StartBroker) -> None:
    broker = start_broker(config="[limits]\nconnections = 3\n")
    kept = [broker.connect() for _ in range(3)]
    with pytest.raises(AMQPConnectionError):
        broker.connect(connection_attempts=1)
    kept.pop().close()
    broker.connect().close()


def test_an_idle_connection_takes_little_memory(start_broker: StartBroker) -> None:
    broker = start_broker()
    assert can_work(broker)
    before = broker.ask("about")["memory_bytes"]
    wires = [broker.socket() for _ in range(500)]
    for wire in wires:
        shake_hands(wire)
    after = broker.ask("about")
    assert after["sockets"] == 500
    assert (after["memory_bytes"] - before) / 500 < 20 * 1024
    for wire in wires:
        wire.close()


def test_it_works_on_asyncios_own_loop(start_broker: StartBroker) -> None:
    program = "import sys; sys.modules['uvloop'] = None; from tamis.__main__ import main; main()"
    broker = start_broker(python=("-c", program))
    assert can_work(broker)
    with broker.connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(20):
            channel.basic_publish("", queue, b"x" * 500_000)
        assert [len(get(channel, queue) or b"") for _ in range(20)] == [500_000] * 20
    assert broker.stop() == 0


def test_a_client_that_does_not_read_holds_up_nobody(broker: RunningBroker) -> None:
    queue = name()
    with broker.connect() as connection, broker.socket() as wire:
        channel = connection.channel()
        channel.queue_declare(queue, auto_delete=True)
        shake_hands(wire)
        wire.sendall(OPEN_CHANNEL + method("basic.consume", 1, queue=queue, no_ack=True))
        wait_for(wire, "channel.open-ok")
        before = broker.ask("about")["memory_bytes"]
        for _ in range(300):
            channel.basic_publish("", queue, b"x" * 100_000)
        assert can_work(broker)
        assert broker.ask("about")["memory_bytes"] - before < 128 * 2**20


# ---- TLS and Unix sockets ----


class Certificates:
    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.ca, self.cert, self.key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        made = self.authority.issue_cert("127.0.0.1", "localhost")
        made.private_key_pem.write_to_path(str(self.key))
        made.cert_chain_pems[0].write_to_path(str(self.cert))

    def context(self, user: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if user is not None:
            self.authority.issue_cert("client.example.org", common_name=user).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def tls_config(certificates: Certificates, more: str = "") -> str:
    return (
        f'[tls]\nport = 0\ncert = "{certificates.cert}"\nkey = "{certificates.key}"\n'
        f'ca = "{certificates.ca}"\nverify_peer = "optional"\n{more}'
    )


@pytest.fixture
def tls_broker(start_broker: StartBroker, certificates: Certificates) -> RunningBroker:
    return start_broker(config=tls_config(certificates, 'login_from = "common_name"\n'))


def over_tls(broker: RunningBroker, context: ssl.SSLContext, **options: Any) -> pika.BlockingConnection:
    tls = pika.SSLOptions(context, "localhost")
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.tls_port, ssl_options=tls, **options))


def test_tls_with_a_password(tls_broker: RunningBroker, certificates: Certificates) -> None:
    with over_tls(tls_broker, certificates.context()) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x" * 500_000)
        assert get(channel, queue) == b"x" * 500_000


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_confirm_over_tls_does_not_wait_for_what_the_client_sends_next(
    tls_broker: RunningBroker, certificates: Certificates, pieces: int
) -> None:
    persistent = ContentHeader(body_size=6, properties=commands.Basic.Properties(delivery_mode=2))
    parts = (commands.Basic.Publish(routing_key="kept"), persistent, ContentBody(b"secret"))
    frames = b"".join(marshal(part, 1) for part in parts)
    plain = socket.create_connection(("127.0.0.1", tls_broker.tls_port))
    with certificates.context().wrap_socket(plain, server_hostname="localhost") as wire:
        wire.settimeout(20)
        shake_hands(wire)
        for name, fields in (
            ("channel.open", {}),
            ("confirm.select", {}),
            ("queue.declare", {"queue": "kept", "durable": True}),
        ):
            wire.sendall(method(name, 1, **fields))
            wait_for(wire, f"{name}-ok")
        for _ in range(10):
            for start in range(pieces):  # each piece is a read of its own
                wire.sendall(frames[start : start + 1] if start < pieces - 1 else frames[start:])
                time.sleep(0.01)
            wait_for(wire, "basic.ack")


def test_a_certificate_logs_in_the_user_that_it_names(tls_broker: RunningBroker, certificates: Certificates) -> None:
    external = pika.credentials.ExternalCredentials()
    with over_tls(tls_broker, certificates.context("guest"), credentials=external) as connection:
        connection.channel().queue_declare("", exclusive=True)
    for context in (certificates.context("nobody"), certificates.context()):
        with pytest.raises(AMQPConnectionError):
            over_tls(tls_broker, context, credentials=external)


@pytest.mark.parametrize(("more", "is_offered"), [("", False), ('login_from = "common_name"\n', True)])
def test_a_certificate_logs_in_only_where_the_configuration_says_so(
    start_broker: StartBroker, certificates: Certificates, more: str, is_offered: bool
) -> None:
    broker = start_broker(config=tls_config(certificates, more))
    plain = socket.create_connection(("127.0.0.1", broker.tls_port))
    with certificates.context("guest").wrap_socket(plain, server_hostname="localhost") as wire:
        wire.settimeout(20)
        wire.sendall(PROTOCOL_HEADER)
        offered = wait_for(wire, "connection.start")["mechanisms"].split()
    assert (b"EXTERNAL" in offered) is is_offered
    with over_tls(broker, certificates.context("guest")) as connection:  # with the password
        connection.channel().queue_declare("", exclusive=True)


def test_old_tls_and_plain_text_are_refused_on_the_tls_port(
    tls_broker: RunningBroker, certificates: Certificates
) -> None:
    old = certificates.context()
    with pytest.warns(DeprecationWarning, match="deprecated"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", tls_broker.tls_port)) as wire, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(wire, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", tls_broker.tls_port)) as wire:
        wire.settimeout(20)
        wire.sendall(PROTOCOL_HEADER)
        with contextlib.suppress(ConnectionResetError):
            assert b"AMQP" not in wire.recv(1000)
    assert can_work(tls_broker)


def test_a_unix_socket_takes_local_clients(start_broker: StartBroker, tmp_path: Path) -> None:
    path = tmp_path / "amqp.sock"
    start_broker("--unix", str(path))
    assert path.stat().st_mode & 0o777 == 0o660
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(20)
        wire.connect(str(path))
        shake_hands(wire)


# ---- HTTP beside it, and the control socket ----


def test_http_is_served_beside_and_ends_with_the_broker(start_broker: StartBroker) -> None:
    broker = start_broker(config="http_port = 0\n")
    (url,) = [address for address in broker.wait_for_log("ready")["addresses"] if address.startswith("http")]
    with urllib.request.urlopen(f"{url}/health", timeout=30) as answer:
        assert json.load(answer) == {"status": "ok"}
    assert broker.stop() == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/health", timeout=30)


def test_an_http_port_that_is_taken_is_told_before_anything_is_served(broker: RunningBroker, tmp_path: Path) -> None:
    done = _serve(tmp_path, "--amqp-port", "0", "--http-port", str(broker.port))
    assert done.returncode == 2
    assert f"HTTP cannot listen on 127.0.0.1:{broker.port}" in done.stderr


def test_the_control_socket_shows_what_there_is(broker: RunningBroker) -> None:
    assert (broker.data / "control.sock").stat().st_mode & 0o777 == 0o600
    queue = name()
    with broker.connect(client_properties={"connection_name": "the test"}) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, exclusive=True, arguments={"x-max-length": 5})
        channel.queue_bind(queue, "amq.topic", "a.#", {"x-query": "price > 10"})
        channel.basic_consume(queue, lambda *_: None, consumer_tag="reader")
        mine = {row["client_name"]: row for row in broker.ask("connections")["rows"]}["the test"]
        assert (mine["user"], mine["vhost"], mine["state"], mine["channels"]) == ("guest", "/", "running", 1)
        found = {row["name"]: row for row in broker.ask("queues")["rows"]}[queue]
        assert (found["type"], found["arguments"], found["consumers"]) == ("classic", {"x-max-length": 5}, 1)
        (bound,) = [row for row in broker.ask("bindings")["rows"] if row["destination"] == queue]
        assert (bound["source"], bound["routing_key"], bound["arguments"]) == (
            "amq.topic",
            "a.#",
            {"x-query": "price > 10"},
        )
        assert [row["tag"] for row in broker.ask("consumers")["rows"] if row["queue"] == queue] == ["reader"]
        assert {"amq.direct", "amq.topic"} <= {row["name"] for row in broker.ask("exchanges")["rows"]}
        overview = broker.ask("overview")
        assert overview["health"] == {"status": "ok"}
        assert overview["metrics"]["connections"] >= 1
        broker.ask("close_connection", id=mine["id"], reason="a test")
        with pytest.raises(ConnectionClosedByBroker, match="a test"):
            connection.process_data_events(time_limit=10)
            connection.channel()


def test_the_control_socket_answers_page_by_page(start_broker: StartBroker) -> None:
    broker = start_broker()
    with broker.connect() as connection:
        channel = connection.channel()
        for number in range(1010):
            channel.queue_declare(f"page-{number}", exclusive=True)
        whole, rest = broker.ask("queues"), broker.ask("queues", offset=1000, limit=100)
        assert (len(whole["rows"]), whole["total_count"], len(rest["rows"])) == (1000, 1010, 10)
        assert len({row["name"] for row in [*whole["rows"], *rest["rows"]]}) == 1010
        assert broker.ask("queues", offset=5, limit=2)["rows"] == whole["rows"][5:7]
        assert broker.ask("queues", limit=10**9)["rows"] == whole["rows"]
        for wrong in ({"offset": -1}, {"offset": 2**70}, {"limit": "many"}):
            with pytest.raises(AssertionError, match="expected a whole number from 0"):
                broker.ask("queues", **wrong)


def test_who_still_looks_when_the_broker_stops_is_no_bug(start_broker: StartBroker) -> None:
    broker = start_broker()
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(broker.data / "control.sock"))
        control.sendall(b'{"op": "health"}\n')
        assert b'"ok": true' in control.recv(1000)
        assert broker.stop() == 0
    assert "a bug in tamis" not in {event["event"] for event in broker.log()}


def test_the_control_socket_survives_nonsense(broker: RunningBroker) -> None:
    for line in (b"\n", b"{\n", b"[]\n", b'{"op": "no"}\n', b'{"op": "queues", "offset": -1}\n', b"[" * 60_000 + b"\n"):
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(20)
            control.connect(str(broker.data / "control.sock"))
            control.sendall(line)
            assert b'"ok": false' in control.makefile("rb").readline()
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(20)
        control.connect(str(broker.data / "control.sock"))
        with contextlib.suppress(BrokenPipeError):
            control.sendall(b"x" * 1_000_000)
        with contextlib.suppress(ConnectionResetError):
            assert control.recv(100) == b""
    assert broker.ask("health") == {"status": "ok"}
