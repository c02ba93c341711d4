"""The channel `webhook` against a real HTTP server on this machine."""

from __future__ import annotations

import hmac
import json
import random
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tamis.config.deliveries import WebhookDelivery
from tamis.config.owners import OwnerConfig
from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError
from tamis.notify.channels.webhook import WebhookChannel, signature
from tamis.notify.engine import DeliveryCounts, NotificationEngine
from tamis.store import DueDelivery, NotificationRecord, Store
from tests.faults.promises import times
from tests.notify.conftest import Clock
from tests.notify.killed_sender import send_and_kill
from tests.store.rows import fill

SECRET, OLD = bytes(range(32)), bytes(range(100, 124))
Answer = tuple[int, dict[str, str]]
HOOKS, KILLS = times("TAMIS_HOOKS", 400, 10_000), times("TAMIS_HOOK_KILLS", 10, 20)


class Receiver:
    """What a server received, and its answers."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[int], Answer] = lambda number: (204, {})
        self.answer_after_s = 0.0
        self.hangs_up: Callable[[str], bool] = lambda _id: False
        self.poison = ""
        self.refused: Counter[str] = Counter()
        self.port = 0

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.received]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Return a running server; the variables with its secrets are set."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(length := int(self.headers["Content-Length"]))
            if len(body) < length:  # its sender was killed before the call was whole
                self.close_connection = True
                return
            receiver.received.append((dict(self.headers.items()), body))
            time.sleep(receiver.answer_after_s)
            if receiver.hangs_up(self.headers["webhook-id"]):
                self.close_connection = True
                return
            status, headers = receiver.answer(len(receiver.received))
            if self.headers["webhook-id"] == receiver.poison:
                status = 500
            receiver.refused[self.headers["webhook-id"]] += status >= 400
            text = b"no room\nhere" if status >= 400 else b""
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("NEW_SECRET", "whsec_" + b64encode(SECRET).decode())
    monkeypatch.setenv("OLD_SECRET", "whsec_" + b64encode(OLD).decode())
    yield receiver
    server.shutdown()
    server.server_close()


def hook(port: int, **settings: Any) -> WebhookDelivery:
    """Return a delivery to a port of this machine."""
    url = f"http://127.0.0.1:{port}/hook"
    told = {"name": "hook", "type": "webhook", "url": url, "secret_env": ["NEW_SECRET", "OLD_SECRET"], "tries": 3}
    return WebhookDelivery.model_validate({**told, "back_off_s": [1.0], **settings})


def engine_of(store: Store, clock: Clock, port: int, **settings: Any) -> NotificationEngine:
    """Return an engine with this one delivery."""
    return NotificationEngine(store, [hook(port, **settings)], clock)


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of the specification's libraries."""
    secret = b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected


def test_every_notification_arrives_once_and_signed(store: Store, clock: Clock, receiver: Receiver) -> None:
    fill(store, 3, deliveries=("hook",))
    assert engine_of(store, clock, receiver.port).deliver_pending() == DeliveryCounts(delivered=3)
    assert sorted(receiver.ids) == sorted(store.notification_ids())
    for headers, body in receiver.received:
        assert json.loads(body)["id"] == headers["webhook-id"]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        by_hand = ["v1," + b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in (SECRET, OLD)]
        assert headers["webhook-signature"].split() == by_hand
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 300


def test_a_failure_is_tried_again_with_the_same_id_and_its_reason(
    store: Store, clock: Clock, receiver: Receiver
) -> None:
    fill(store, 1, deliveries=("hook",))
    receiver.answer = lambda number: (500, {}) if number < 3 else (200, {})
    engine = engine_of(store, clock, receiver.port)
    assert engine.deliver_pending() == DeliveryCounts(retried=1)
    assert store.deliveries()[0].reason == "500 Internal Server Error: no room here"
    for expected in (DeliveryCounts(retried=1), DeliveryCounts(delivered=1)):
        clock.move(1)
        assert engine.deliver_pending() == expected
    assert len(set(receiver.ids)) == 1
    assert len(receiver.ids) == 3


def test_who_is_gone_gets_nothing_more_and_redirections_are_not_followed(
    store: Store, clock: Clock, receiver: Receiver
) -> None:
    fill(store, 2, deliveries=("hook",))
    elsewhere = f"http://127.0.0.1:{receiver.port}/elsewhere"
    receiver.answer = lambda number: (410, {}) if number == 1 else (307, {"Location": elsewhere})
    engine = engine_of(store, clock, receiver.port)
    assert engine.deliver_pending() == DeliveryCounts(dead=1, retried=1)
    assert {row.state: (row.reason or "").partition(":")[0] for row in store.deliveries()} == {
        "dead": "410 Gone",
        "pending": "307 Temporary Redirect",
    }
    assert len(receiver.received) == 2


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_left_alone_as_long_as_it_says(
    store: Store, clock: Clock, receiver: Receiver, status: int
) -> None:
    fill(store, 2, deliveries=("hook",))
    receiver.answer = lambda number: (status, {"Retry-After": "100"}) if number == 1 else (200, {})
    engine = engine_of(store, clock, receiver.port)
    assert str(status) in engine.deliver_pending().troubles["hook"]
    clock.move(50)
    assert engine.deliver_pending().tried == 0
    clock.move(51)
    assert engine.deliver_pending() == DeliveryCounts(delivered=2)
    assert {row.attempts for row in store.deliveries()} == {1}


def test_no_server_and_a_server_that_hangs_cost_no_try(store: Store, clock: Clock, receiver: Receiver) -> None:
    fill(store, 1, deliveries=("hook",))
    assert "hook" in engine_of(store, clock, 1).deliver_pending().troubles
    receiver.answer_after_s = 0.5
    assert (
        "no answer within 0.1 s"
        in engine_of(store, clock, receiver.port, timeout_s=0.1).deliver_pending().troubles["hook"]
    )
    clock.move(2)
    assert store.deliveries()[0].attempts == 0
    receiver.answer_after_s = 0.0
    assert engine_of(store, clock, receiver.port).deliver_pending() == DeliveryCounts(delivered=1)


def test_one_over_which_the_server_hangs_up_holds_up_no_other(store: Store, clock: Clock, receiver: Receiver) -> None:
    fill(store, 4, deliveries=("hook",))
    dropped = min(store.notification_ids())
    receiver.hangs_up = dropped.__eq__
    engine = engine_of(store, clock, receiver.port)
    assert "hook" in engine.deliver_pending().troubles
    for _ in range(6):
        clock.move(2)
        engine.deliver_pending()
    states = {row.state for row in store.deliveries() if row.notification_id != dropped}
    assert states == {"delivered"}
    assert len(set(receiver.ids)) == 4


SENDER = """
import sys
from tamis.config.deliveries import WebhookDelivery
from tamis.notify.channels.webhook import WebhookChannel
from tamis.notify.engine import NotificationEngine
from tamis.store import Store

before = []

async def post_one_before(self, delivery, sent):
    before.append(delivery)
    if len(before) > 5:
        await post(self, before.pop(0), sent)

post = WebhookChannel._post
if "careless" in sys.argv[3:]:
    WebhookChannel._post = post_one_before
config = WebhookDelivery.model_validate({"name": "hook", "type": "webhook", "url": sys.argv[2], "tries": 5,
    "secret_env": ["NEW_SECRET"], "back_off_s": [0.001]})
with Store.open(sys.argv[1]) as store:
    engine = NotificationEngine(store, [config])
    print("ready", flush=True)
    while store.counts().deliveries_pending:
        engine.deliver_pending()
"""


def command(store: Store, receiver: Receiver, *kind: str) -> list[str]:
    """Return what starts a sender."""
    return [sys.executable, "-c", SENDER, str(store.path), f"http://127.0.0.1:{receiver.port}/hook", *kind]


@pytest.mark.timeout(120 + HOOKS // 5)
def test_a_bad_server_and_a_killed_sender_lose_no_call(store: Store, receiver: Receiver) -> None:
    """Connections that end before the answer, 500, kill -9, and a call that is always refused."""
    chance = random.Random(seed := random.randrange(2**32))
    print(f"{HOOKS} calls, {KILLS} kills, seed {seed}")
    dropped: Counter[str] = Counter()

    def hangs_up(key: str) -> bool:
        drops = key != receiver.poison and chance.random() < 0.10
        dropped[key] += drops
        return drops

    receiver.hangs_up = hangs_up
    receiver.answer = lambda _number: (500 if chance.random() < 0.05 else 204, {})
    fill(store, HOOKS, deliveries=("hook",))
    wanted = store.notification_ids()
    receiver.poison = min(wanted)
    send_and_kill(store, command(store, receiver), KILLS, chance)
    dead = {it.notification_id for it in store.deliveries(state="dead", limit=HOOKS)}
    calls = Counter(receiver.ids)
    assert receiver.poison in dead
    assert all(calls[key] >= 5 for key in dead)
    assert set(calls) == wanted
    assert store.counts().deliveries_delivered == HOOKS - len(dead)
    taken = calls - receiver.refused  # also those without an answer
    assert taken.total() - len(taken) <= dropped.total() + KILLS
    bodies = {(headers["webhook-id"], body) for headers, body in receiver.received}
    assert len(bodies) == HOOKS, "a call that is repeated says the same"


def test_control_a_sender_that_notes_calls_before_it_makes_them_loses(store: Store, receiver: Receiver) -> None:
    fill(store, 400, deliveries=("hook",))
    send_and_kill(store, command(store, receiver, "careless"), 4, random.Random(1))
    assert len(store.notification_ids() - set(receiver.ids)) > 5  # the last five are never made


def test_a_stop_gives_up_a_request_under_way(store: Store, clock: Clock, receiver: Receiver) -> None:
    fill(store, 1, deliveries=("hook",))
    receiver.answer_after_s = 30.0
    (dispatcher, *_) = engine_of(store, clock, receiver.port).dispatchers

    def interrupt_when_asked() -> None:
        while not receiver.received:
            time.sleep(0.01)
        dispatcher.interrupt()

    threading.Thread(target=interrupt_when_asked, daemon=True).start()
    began = time.monotonic()
    dispatcher.deliver(10, lambda: bool(receiver.received))
    assert time.monotonic() - began < 15
    assert store.deliveries()[0].state == "pending"
    receiver.answer_after_s = 0.0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('url = "http://example.org/x"', "in the clear"),
        ('url = "ftp://example.org/x"', "expected an address such as https://example.org/hook"),
        ('url = "https://example.org/x"\nsecret_env = []', "secret_env"),
        ('url = "https://example.org/x"', "secret_env"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, line: str, expected: str) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(f'[[delivery]]\nname = "hook"\ntype = "webhook"\n{line}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=expected):
        PipelineConfig.load(file)


@pytest.mark.parametrize("value", [None, "secret", "whsec_c2hvcnQ=", "whsec_!"])
def test_a_variable_without_a_secret_is_named(value: str | None, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEW_SECRET", raising=False)
    if value is not None:
        monkeypatch.setenv("NEW_SECRET", value)
    with pytest.raises(ConfigError, match="NEW_SECRET"):
        NotificationEngine(store, [hook(1)])


def test_an_unknown_profile_has_the_time_zone_of_its_owner(
    record: NotificationRecord, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "webhook.json").write_text('{"zone": {{ zone | tojson }}, "owner": {{ owner | tojson }}}')
    owners = {"ann": OwnerConfig(name="ann", time_zone="Europe/Berlin")}
    channel = WebhookChannel(hook(receiver.port, templates=tmp_path), owners)
    channel.open()
    for number, owner in enumerate(("ann", "ann/gone", "bob")):
        assert channel.deliver([DueDelivery(number, 0, record, owner=owner)]).failures == {}
    channel.close()
    assert [json.loads(body) for _, body in receiver.received] == [
        {"zone": "Europe/Berlin", "owner": "ann"},
        {"zone": "Europe/Berlin", "owner": "ann/gone"},
        {"zone": "UTC", "owner": "bob"},
    ]
