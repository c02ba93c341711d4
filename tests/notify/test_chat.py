"""Notifications are told in a chat; who may be reached, and what hangs, is bounded."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tamis.config.deliveries import ChatDelivery
from tamis.errors import ConfigError
from tamis.notify.channels.channel import ChannelError, ChannelTimeoutError
from tamis.notify.channels.waiting import Waiting
from tamis.store import NotificationRecord
from tests.notify.test_feed import due


def config(folder: Path, url: str, **more: object) -> ChatDelivery:
    (folder / "secret").write_text(url + "\n")
    return ChatDelivery(name="room", type="chat", url_file=folder / "secret", **more)


@pytest.mark.parametrize("url", ["slack://a/b/c", "mmosts://chat.example.org/token", "mmost://127.0.0.1:8065/token"])
def test_the_address_of_a_chat_is_taken(tmp_path: Path, url: str) -> None:
    assert config(tmp_path, url).address() == url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("json://127.0.0.1/secret", "expected the address of a chat"),
        ("file:///etc/secret", "expected the address of a chat"),
        ("slack://a/b/c json://127.0.0.1/secret", "expected the address of a chat"),
        ("secret", "expected the address of a chat"),
        ("mmost://chat.example.org/secret", "mmost:// sends messages in the clear: expected mmosts://"),
        ("ntfy://[secret", "the address of the chat cannot be read"),
    ],
)
def test_what_is_no_chat_is_refused_and_not_shown(tmp_path: Path, url: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(tmp_path, url).address()
    assert expected in str(error.value)
    assert "secret" not in str(error.value)


def test_work_that_hangs_is_given_up_and_nothing_else_begins_meanwhile() -> None:
    waiting, may_end = Waiting(), threading.Event()
    with pytest.raises(ChannelTimeoutError, match=r"the chat: no answer within 0\.05 s"):
        waiting.run(may_end.wait, 0.05, "the chat")
    with pytest.raises(ChannelError, match="still waits for an answer"):
        waiting.run(lambda: 1, 10, "the chat")
    may_end.set()
    until = time.monotonic() + 60
    while True:
        try:
            assert waiting.run(lambda: 1, 60, "the chat") == 1
            break
        except ChannelError:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_the_errors_of_the_work_come_through_and_an_interruption_ends_the_wait() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    waiting, may_end = Waiting(), threading.Event()
    with pytest.raises(TimeoutError, match="its own"):
        waiting.run(fail, 60, "the chat")
    waiting.interrupt()  # nothing is under way
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        may_end.wait()

    def interrupt() -> None:
        begun.wait()
        waiting.interrupt()

    threading.Thread(target=interrupt).start()
    with pytest.raises(ChannelError, match="stopped while there was no answer"):
        waiting.run(hang, 60, "the chat")
    may_end.set()


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise imports it
def test_a_chat_gets_a_notification_and_a_digest(record: NotificationRecord, tmp_path: Path) -> None:
    pytest.importorskip("apprise", reason="Apprise is not installed: pip install 'tamis[chat]' runs this test")
    from tamis.notify.channels.chat import ChatChannel

    bodies: list[bytes] = []

    class Service(BaseHTTPRequestHandler):
        status = 200

        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(self.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            channel = ChatChannel(config(tmp_path, f"mmost://127.0.0.1:{server.server_port}/token"))
            channel.open()
            assert not channel.deliver([due(record, 1)]).failures
            assert not channel.deliver_digest([due(record, 2), due(record, 3)]).failures
            Service.status = 404
            assert "404" in channel.deliver([due(record, 4)]).failures[4]
        finally:
            server.shutdown()
            thread.join()
    one, digest, _ = (json.loads(body)["text"] for body in bodies)
    assert "The query 'frost' matched a message." in one
    assert "2 notifications" in digest
    with pytest.raises(ChannelError):
        channel.deliver([due(record, 5)])
