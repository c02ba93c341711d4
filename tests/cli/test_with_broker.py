"""`publish`, `consume` and `tail` work with a running broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("pika", reason="the client is not installed: pip install 'tamis[client]'")

import trustme
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker.conftest import RunningBroker
from tests.cli.conftest import Tamis

WAIT_S = 60


@pytest.fixture
def tamis(tamis_process: Tamis) -> Tamis:
    """Run commands in processes of their own: they wait for the broker with signals and time limits."""
    return tamis_process


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("broker")
    running = RunningBroker(folder, "--unix", str(folder / "amqp.sock"))
    yield running
    running.kill()


@pytest.fixture
def url(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the broker's URL in the environment, where the commands find it."""
    found = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
    monkeypatch.setenv("TAMIS_AMQP_URL", found)
    return found


@pytest.fixture
def channel(broker: RunningBroker) -> Iterator[BlockingChannel]:
    connection = broker.connect()
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture
def queue(channel: BlockingChannel, url: str) -> str:
    """Declare a new queue."""
    name = f"q-{uuid4().hex}"
    channel.queue_declare(name)
    return name


@pytest.fixture
def exchange(channel: BlockingChannel, url: str) -> str:
    """Declare a new topic exchange."""
    name = f"e-{uuid4().hex}"
    channel.exchange_declare(name, "topic")
    return name


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def count_in(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


class Running:
    """A command that keeps running; it is waiting for messages when this is made."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tamis", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()
        assert self.said.startswith("waiting for messages"), self.said + self.process.stderr.read()

    def end(self, number: int | None = None) -> tuple[int, list[dict[str, Any]], str]:
        """Return exit code, stdout and stderr; `number` is a signal to end it."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err


# ---- publish and consume ----


def test_what_is_published_is_consumed(tamis: Tamis, queue: str) -> None:
    options = (
        "--header",
        "price=12.5",
        "--header",
        "region=EU",
        "--property",
        "app_id=mine",
        "--property",
        "priority=3",
    )
    done = tamis("publish", "hellö", "-k", queue, *options)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("1 of 1 messages confirmed")
    done = tamis("consume", queue, "--count", "1", "--details")
    assert done.returncode == 0
    assert lines(done) == [
        {
            "topic": queue,
            "price": 12.5,
            "region": "EU",
            "delivery_mode": 2,
            "priority": 3,
            "app_id": "mine",
            "body": "hellö",
            "delivery": {"exchange": "", "redelivered": False},
        }
    ]


def test_lines_go_through_in_order_and_can_be_matched(tamis: Tamis, queue: str, tmp_path: Path) -> None:
    sent = [{"topic": "x", "price": number, "body": f"text {number}"} for number in range(5000)]
    done = tamis("publish", "--key", queue, "--json", stdin="".join(json.dumps(line) + "\n" for line in sent))
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert (counts["published"], counts["confirmed"], counts["unroutable"], counts["bad"]) == (5000, 5000, 0, 0)
    done = tamis("consume", queue, "--count", "5000")
    assert [(line["price"], line["body"]) for line in lines(done)] == [(line["price"], line["body"]) for line in sent]
    (tmp_path / "queries.txt").write_text("expensive: price >= 4990 AND CONTAINS(body, 'text')\n")
    assert len(lines(tamis("match", "queries.txt", "-", stdin=done.stdout))) == 10


def test_a_message_without_a_queue_is_told(tamis: Tamis, exchange: str) -> None:
    done = tamis("publish", "x", "-e", exchange, "-k", "a.b")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        f"warning: no queue received a message: exchange '{exchange}', key 'a.b' (312 NO_ROUTE)"
    )


def test_lines_that_cannot_be_read_are_told_and_the_others_published(tamis: Tamis, queue: str) -> None:
    done = tamis("publish", "-k", queue, stdin='{"a": 1}\nnonsense\n\n{"a": 99999999999999999999}\n{"a": 2}\n')
    assert done.returncode == 2
    assert "error: stdin, line 2: not a message: " in done.stderr
    assert "error: stdin, line 4: not a message: a: expected a whole number of 64 bits" in done.stderr
    assert "2 of 2 messages confirmed, 2 lines could not be read" in done.stderr
    assert [line["a"] for line in lines(tamis("consume", queue, "--timeout", "0"))] == [1, 2]


def test_all_of_stdin_may_be_one_body(tamis: Tamis, queue: str, channel: BlockingChannel) -> None:
    body = "a line\nanother\n" * 20_000  # more than one frame
    assert tamis("publish", "-", "-k", queue, "--transient", stdin=body).returncode == 0
    method, properties, received = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    assert (received, properties.delivery_mode) == (body.encode(), 1)


def test_no_more_is_taken_than_was_asked_for(tamis: Tamis, queue: str, channel: BlockingChannel) -> None:
    for number in range(300):
        channel.basic_publish("", queue, str(number).encode())
    done = tamis("consume", queue, "--count", "150")
    assert [line["body"] for line in lines(done)] == [str(number) for number in range(150)]
    done = tamis("consume", queue, "--timeout", "0", "--details")
    assert [line["body"] for line in lines(done)] == [str(number) for number in range(150, 300)]
    assert not any(line["delivery"]["redelivered"] for line in lines(done))


def test_who_only_looks_leaves_everything(tamis: Tamis, queue: str, channel: BlockingChannel) -> None:
    for number in range(120):
        channel.basic_publish("", queue, str(number).encode())
    for options, expected in ((("--timeout", "0"), 120), (("--count", "110"), 110)):
        done = tamis("consume", queue, "--no-ack", *options)
        assert (done.returncode, len(lines(done))) == (0, expected)
    assert count_in(channel, queue) == 120


def test_an_empty_queue_is_no_match_as_with_grep(tamis: Tamis, queue: str) -> None:
    done = tamis("consume", queue, "--timeout", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("0 messages taken")
    summary = json.loads(tamis("consume", queue, "--timeout", "0.1", "--json").stderr)
    assert summary["taken"] == 0


def test_a_reader_that_goes_away_loses_nothing(tamis: Tamis, queue: str, channel: BlockingChannel) -> None:
    for number in range(3000):
        channel.basic_publish("", queue, str(number).encode() + b"x" * 1000)
    process = subprocess.Popen(
        [sys.executable, "-m", "tamis", "consume", queue], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    seen = [json.loads(process.stdout.readline())["body"][:4] for _ in range(5)]
    process.stdout.close()
    assert process.wait(WAIT_S) == 141
    assert process.stderr.read() == b""
    process.stderr.close()
    rest = [line["body"][:4] for line in lines(tamis("consume", queue, "--timeout", "0"))]
    taken = 3000 - len(rest)
    assert rest == sorted(rest, key=lambda text: int(text.strip("x")))
    assert 0 <= taken <= 3000 - 100
    assert [text.strip("x") for text in seen] == ["0", "1", "2", "3", "4"]


def test_the_end_of_the_queue_is_the_end(queue: str, channel: BlockingChannel) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tamis", "consume", queue], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    channel.basic_publish("", queue, b"x")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["body"] == "x"
    channel.queue_delete(queue)
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert err.startswith("the queue has been deleted\n1 message taken")


def test_a_unix_socket_will_do(tamis: Tamis, broker: RunningBroker, queue: str) -> None:
    unix = ("--unix", str(broker.folder / "amqp.sock"))
    assert tamis("publish", "hello", "-k", queue, *unix).returncode == 0
    assert [line["body"] for line in lines(tamis("consume", queue, "--timeout", "0", *unix))] == ["hello"]


# ---- tail ----


def test_tail_shows_what_satisfies_the_query_and_nobody_misses_it(
    tamis: Tamis, exchange: str, queue: str, channel: BlockingChannel, broker: RunningBroker
) -> None:
    channel.queue_bind(queue, exchange, "#")
    queues = broker.ask("queues")["total_count"]
    tail = Running("tail", exchange, "--query", "price > 10", "--count", "2")
    assert tail.said == f"waiting for messages of '{exchange}' where price > 10 ... (Ctrl-C ends)\n"
    prices = [5, 20, 10, 30]
    tamis("publish", "-e", exchange, stdin="".join(f'{{"topic": "a.b", "price": {price}}}\n' for price in prices))
    code, printed, _ = tail.end()
    assert (code, [line["price"] for line in printed]) == (0, [20, 30])
    assert count_in(channel, queue) == 4
    assert broker.ask("queues")["total_count"] == queues


def test_tail_sees_fields_of_json_bodies_and_words(tamis: Tamis, exchange: str, tmp_path: Path) -> None:
    tails = [
        Running("tail", exchange, "--query", "body.price > 10", "--count", "1"),
        Running("tail", exchange, "--language", "near", "--query", "garlic frost 5", "--count", "1"),
        Running("tail", exchange, "--key", "c.#", "--count", "1"),
    ]
    sent = [
        {"topic": "a", "body": {"price": 3}},
        {"topic": "a", "body": {"price": 30}},
        {"topic": "b", "body": "Cover the garlic: frost tonight."},
        {"topic": "c.d", "body": "last"},
    ]
    tamis("publish", "-e", exchange, stdin="".join(json.dumps(line) + "\n" for line in sent))
    ended = [tail.end() for tail in tails]
    assert [code for code, _, _ in ended] == [0, 0, 0]
    line = ended[0][1][0]
    assert line["body"] == {"price": 30}
    (tmp_path / "query.txt").write_text("it: body.price > 10\n")
    assert tamis("match", "query.txt", stdin=json.dumps(line)).returncode == 0
    assert [printed[0]["topic"] for _, printed, _ in ended] == ["a", "b", "c.d"]


def test_tail_ends_with_control_c(tamis: Tamis, exchange: str) -> None:
    code, printed, said = Running("tail", exchange).end(signal.SIGINT)
    assert (code, printed) == (1, [])
    assert "0 messages shown" in said
    code, _, _ = Running("tail", exchange, "--count", "3").end(signal.SIGINT)
    assert code == 130
    tail = Running("tail", exchange)
    tamis("publish", "x", "-e", exchange, "-k", "a")
    assert tail.process.stdout is not None
    tail.process.stdout.readline()
    assert tail.end(signal.SIGINT)[0] == 0


def test_tail_does_not_take_a_queues_messages(tamis: Tamis, queue: str, channel: BlockingChannel) -> None:
    channel.basic_publish("", queue, b"mine")
    done = tamis("tail", queue, "--timeout", "5")
    assert (done.returncode, done.stdout) == (2, "")
    assert "stream" in done.stderr
    channel.connection.process_data_events(0.2)
    assert count_in(channel, queue) == 1


def test_tail_from_a_place_reads_a_stream_and_no_exchange(
    tamis: Tamis, exchange: str, channel: BlockingChannel
) -> None:
    done = tamis("tail", exchange, "--from", "first")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: --from needs a stream, and '{exchange}' is an exchange, which keeps no messages\n"
    channel.queue_declare(exchange, durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_publish("", exchange, b"kept")
    done = tamis("tail", exchange, "--from", "first", "--count", "1", "--timeout", str(WAIT_S))
    channel.queue_delete(exchange)
    assert json.loads(done.stdout)["body"] == "kept"


# ---- what the broker refuses ----


def refused(call: Callable[[], subprocess.CompletedProcess[str]]) -> str:
    done = call()
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_what_is_not_there_is_said(tamis: Tamis, url: str) -> None:
    assert "404 NOT_FOUND - no queue 'none'" in refused(lambda: tamis("consume", "none"))
    assert "404 NOT_FOUND - no exchange 'none'" in refused(lambda: tamis("publish", "x", "-e", "none", "-k", "a"))
    assert refused(lambda: tamis("tail", "none")) == "error: there is no exchange and no stream 'none'\n"


def test_who_is_not_let_in_is_told_what_to_do(tamis: Tamis, broker: RunningBroker) -> None:
    for command in (("publish", "x"), ("consume", "q"), ("tail", "e")):
        said = refused(lambda: tamis(*command, "--url", f"amqp://guest:wrong@127.0.0.1:{broker.port}/"))  # noqa: B023
        assert said.startswith(f"error: 127.0.0.1:{broker.port} refused user 'guest': 403 ACCESS_REFUSED")
        assert "--url amqp://user:password@host:port/" in said
        said = refused(lambda: tamis(*command, "--url", f"amqp://guest:guest@127.0.0.1:{broker.port}/none"))  # noqa: B023
        assert said.startswith(f"error: 127.0.0.1:{broker.port} refused virtual host 'none': 530 NOT_ALLOWED")


def test_over_tls_the_certificate_is_checked_and_what_is_wrong_is_said(tamis: Tamis, tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    folder = tmp_path / "broker"
    folder.mkdir()
    tls = f"[tls]\nport = 0\ncert = '{tmp_path / 'cert.pem'}'\nkey = '{tmp_path / 'key.pem'}'\n"
    running = RunningBroker(folder, config=tls)
    publish = ("publish", "x", "--json", "--url")
    over_tls = f"amqps://guest:guest@127.0.0.1:{running.tls_port}/"
    trusted = tamis(*publish, over_tls, SSL_CERT_FILE=str(tmp_path / "ca.pem"))
    unknown = tamis(*publish, over_tls)
    mixed = (
        tamis(*publish, f"amqps://127.0.0.1:{running.port}/"),
        tamis(*publish, f"amqp://127.0.0.1:{running.tls_port}/"),
    )
    running.kill()
    assert json.loads(trusted.stdout)["confirmed"] == 1
    assert unknown.returncode == 2
    assert "has a certificate that is not trusted here: " in unknown.stderr
    assert "$SSL_CERT_FILE" in unknown.stderr
    assert [done.returncode for done in mixed] == [2, 2]
    assert mixed[0].stderr.startswith(f"error: no TLS with 127.0.0.1:{running.port}: ")
    assert mixed[0].stderr.endswith("\n  amqp:// connects without TLS\n")
    assert mixed[1].stderr.endswith("expected a broker that speaks AMQP 0-9-1\n  amqps:// connects with TLS\n")


def test_a_false_sender_is_refused(tamis: Tamis, queue: str) -> None:
    said = tamis("publish", "x", "-k", queue, "--property", "user_id=somebody")
    assert said.returncode == 2
    assert "406 PRECONDITION_FAILED" in said.stderr
