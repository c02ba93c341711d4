"""While the pipeline runs, a channel that hangs stops neither the others nor the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tamis.config.deliveries import JsonlDelivery, SmtpDelivery
from tamis.errors import StoreBusyError, StoreError, StoreLostError
from tamis.notify.dispatch import DeliveryCounts
from tamis.notify.engine import NotificationEngine
from tamis.spark.deliveries import GRACE_S, DeliveryThreads
from tamis.spark.progress import RunTally
from tamis.store import Store
from tests.store.rows import fill

COUNT = 40
TIMEOUT_S = 600.0
"""The server's time-out: whoever waits for it fails the test by far."""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Serve SMTP that takes a message and never answers; yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connections.append(listener.accept()[0])
            except OSError:
                return
            threading.Thread(target=_talk, args=(connections[-1],), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
    for connection in connections:
        connection.close()


def _talk(connection: socket.socket) -> None:
    try:
        connection.sendall(b"220 here\r\n")
        for line in connection.makefile("rb"):
            connection.sendall(b"354 go on\r\n" if line.upper().startswith(b"DATA") else b"250 OK\r\n")
            if line.upper().startswith(b"DATA"):
                return
    except OSError:
        pass


def _threads(store: Store, folder: Path, port: int) -> DeliveryThreads:
    mail = SmtpDelivery.model_validate(
        {"name": "mail", "type": "smtp", "host": "127.0.0.1", "port": port, "tls": "none", "timeout_s": TIMEOUT_S}
        | {"from": "tamis@example.org", "to": "ann@example.org"}
    )
    lines = JsonlDelivery(name="lines", type="jsonl", path=folder / "lines.jsonl")
    return DeliveryThreads(NotificationEngine(store, [mail, lines]).dispatchers, RunTally())


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        fill(store, COUNT, deliveries=("mail", "lines"))
        yield store


def test_the_other_channels_and_the_stop_do_not_wait_for_a_server_that_hangs(
    store: Store, tmp_path: Path, silent_port: int
) -> None:
    threads = _threads(store, tmp_path, silent_port)
    threads.start()
    _until(lambda: store.delivery_counts().get("lines", {}).get("delivered") == COUNT)
    started = time.monotonic()
    threads.close(drain=False, stop=threading.Event())
    assert time.monotonic() - started < GRACE_S + 20
    assert store.delivery_counts() == {"lines": {"delivered": COUNT}, "mail": {"pending": COUNT}}
    assert {(record.attempts, record.reason) for record in store.deliveries(name="mail")} == {(0, None)}


def test_a_stop_ends_the_draining_too(store: Store, tmp_path: Path, silent_port: int) -> None:
    threads = _threads(store, tmp_path, silent_port)
    threads.start()
    stop = threading.Event()
    closer = threading.Thread(target=threads.close, kwargs={"drain": True, "stop": stop})
    closer.start()
    _until(lambda: store.delivery_counts().get("lines", {}).get("delivered") == COUNT)
    closer.join(GRACE_S + 1)
    assert closer.is_alive(), "the control: without a stop it waits for the server"
    stop.set()
    closer.join(GRACE_S + 20)
    assert not closer.is_alive()
    assert threads.failure is None


class SlowDispatcher:
    """Delivers for ever, one notification after another, and looks at the stop between two of them."""

    name = "slow"

    def __init__(self) -> None:
        self.delivered = 0

    def deliver(self, limit: int, stopped: Callable[[], bool]) -> DeliveryCounts:
        for _ in range(limit):
            if stopped():
                break
            time.sleep(0.05)
            self.delivered += 1
        return DeliveryCounts(delivered=1)

    def interrupt(self) -> None:
        pass


def test_a_stop_comes_between_two_notifications() -> None:
    slow = SlowDispatcher()
    threads = DeliveryThreads([slow], RunTally())
    threads.start()
    _until(lambda: slow.delivered > 0)
    threads.close(drain=False, stop=threading.Event())
    assert slow.delivered < 400, "a call of 500 would go on for 25 s"


@pytest.mark.parametrize("kind", [StoreBusyError, StoreLostError])
def test_a_store_that_is_busy_or_lost_is_tried_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[StoreError]
) -> None:
    due, calls = Store.due_deliveries, []

    def busy_at_first(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) <= 4:
            raise kind("another process has held the store")
        return due(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "due_deliveries", busy_at_first)
    threads = _threads(store, tmp_path, 1)
    threads.start()
    _until(lambda: "another process has held the store" in threads.troubles.values())
    _until(lambda: len(calls) > 4)
    threads.close(drain=True, stop=threading.Event())
    assert threads.failure is None


def test_what_ends_one_thread_is_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "due_deliveries", lambda *_: (_ for _ in ()).throw(StoreError("the disk is full")))
    threads = _threads(store, tmp_path, 1)
    threads.start()
    _until(lambda: threads.failure is not None)
    assert str(threads.failure) == "the disk is full"
    threads.close(drain=True, stop=threading.Event())
