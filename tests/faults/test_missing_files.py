"""A broker does not start while a file of its data is missing, names it, and has everything when it is back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import Client, Ledger, drain
from tests.faults.broker_process import BrokerProcess

SETTINGS = "[journal]\nsegment_bytes = 1048576\n"
BODY = "x" * 100_000
COUNT = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a stopped broker: a queue and a stream, each with several segments."""
    path = tmp_path_factory.mktemp("missing") / "data"
    with BrokerProcess(path, SETTINGS) as broker:
        client = Client(broker.port)
        client.call(commands.Confirm.Select(), "Confirm.SelectOk")
        # Retention has removed the stream's first segments.
        arguments = {"x-queue-type": "stream", "x-max-length-bytes": 3_500_000}
        client.call(commands.Queue.Declare(queue="log", durable=True, arguments=arguments), "Queue.DeclareOk")
        client.call(commands.Queue.Declare(queue="work", durable=True), "Queue.DeclareOk")
        for number in range(COUNT):
            for queue in ("log", "work"):
                client.publish("", queue, f"{number}-{BODY}".encode(), delivery_mode=2)
                client.wait("Basic.Ack")
        assert broker.stop() == 0
    return path


def logs(data: Path) -> list[Path]:
    return [data / "journal", *(data / "streams").iterdir()]


def first_middle_last(data: Path) -> Iterator[Path]:
    """Return the mark, and the first, a middle and the last segment of each log."""
    for log in logs(data):
        segments = sorted(log.glob("0*.segment"))
        assert len(segments) >= 3, log
        yield from (log / "mark", segments[0], segments[len(segments) // 2], segments[-1])


def contents(data: Path, log: Path) -> dict[str, str]:
    """Return the files of all logs, those of `log` with a digest: the journal is opened before the streams."""
    files = [path for log in logs(data) for path in log.iterdir()]
    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in log.iterdir()}
    return {str(path.relative_to(data)): digests.get(path, "") for path in files}


def start_and_fail(data: Path) -> str:
    broker = BrokerProcess(data, SETTINGS)
    broker.log.unlink(missing_ok=True)
    with pytest.raises(RuntimeError, match="ended with 2"):
        broker.start()
    return broker.said()


def stream_length(broker: BrokerProcess) -> int:
    client = Client(broker.port)
    declared = client.call(commands.Queue.Declare(queue="log", passive=True), "Queue.DeclareOk")
    return int(declared.message_count)


@pytest.mark.timeout(240)
def test_each_missing_file_is_named_and_put_back_everything_is_there(data: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    for path in list(first_middle_last(data)):
        path.rename(away)
        without = contents(data, path.parent)
        for _ in range(2):
            said = start_and_fail(data)
            assert f"{path.name} is missing" in said
            assert str(path.parent) in said
        assert contents(data, path.parent) == without, "nothing was changed, made or removed"
        away.rename(path)
    stream = next((data / "streams").iterdir())
    stream.rename(away)
    assert f"{stream} is missing" in start_and_fail(data)
    away.rename(stream)
    (data / "journal").rename(away)
    assert f"{data / 'journal'} has nothing in it" in start_and_fail(data)
    assert not (data / "journal").exists()
    away.rename(data / "journal")
    # The control: a file that nothing is in may be missing. And everything is there again.
    for spare in (data / "journal").glob("spare-*"):
        spare.unlink()
    ledger = Ledger()
    with BrokerProcess(data, SETTINGS) as broker:
        assert 20 < stream_length(broker) < COUNT
        assert drain(broker.port, "work", ledger) == COUNT
        assert broker.stop() == 0
    assert [body.partition("-")[0] for body in ledger.delivered] == [str(number) for number in range(COUNT)]
