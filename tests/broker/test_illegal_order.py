"""Methods in any order on any channel are answered or closed with a fitting code, and a bystander does not notice.

Everything runs in one process, without sockets, on a clock that the test controls."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tamis._core import Broker, amqp_decode_frame, amqp_encode_method
from tamis.broker.rules import Rules
from tamis.broker.users.access import Access
from tamis.broker.users.user import ALL, Limits, Permission, User
from tests.faults.promises import times

EXAMPLES = times("TAMIS_EXAMPLES", 300, 10_000)
"""The number of examples of each property."""
CHANNEL_CODES = {311, 313, 403, 404, 405, 406}
CONNECTION_CODES = {320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541}

Frame = tuple[int, str, dict[str, Any]]


class Plane:
    """A data plane with a bystander, which has a channel, a queue and a message in the queue."""

    def __init__(self) -> None:
        guest = User("guest").permitted("/", Permission("[^x].*", "[^x].*", "[^x].*"))
        access = Access({"guest": guest, "ann": User("ann").permitted("/", ALL)}, ("/",), Limits(), True)
        self.now_us = 0
        self.broker = Broker(
            Rules(access, None),
            frame_max=131072,
            channel_max=10,
            message_bytes_max=1000,
            memory_bytes_max=1 << 24,
            seed=1,
            now_us=0,
            wall_us=0,
        )
        self.client, self.bystander = self.connect("guest"), self.connect("ann")
        assert self.names(self.talk(self.bystander, method("channel.open", 1))) == ["channel.open-ok"]
        declared = self.talk(self.bystander, method("queue.declare", 1, queue="mine"))
        assert self.names(declared) == ["queue.declare-ok"]

    def connect(self, user: str) -> int:
        return self.broker.connect(
            user=user,
            vhost="/",
            frame_max=131072,
            channel_max=10,
            heartbeat_s=0,
            peer="127.0.0.1",
            client_name="a test",
            knows_blocked=True,
            knows_cancel=True,
            qos_is_for_channel=False,
            now_us=self.now_us,
        )

    def talk(self, connection: int, data: bytes) -> list[Frame]:
        """Return the output for a connection; output for others is dropped."""
        self.now_us += 1000
        outputs, has_more, *_ = self.broker.receive(connection, data, self.now_us)
        while has_more:
            further, has_more, *_ = self.broker.take_output()
            outputs += further
        out = b"".join(piece for number, piece, _, _ in outputs if number == connection)
        frames: list[Frame] = []
        while out:
            frame = amqp_decode_frame(out, 1 << 20)
            assert frame is not None, "the broker sent half a frame"
            frames.append(frame[:3])
            out = out[frame[3] :]
        return frames

    @staticmethod
    def names(frames: list[Frame]) -> list[str]:
        return [name for _, name, _ in frames]

    def check_the_bystander(self) -> None:
        """Check that the bystander publishes and gets as if it were alone."""
        publish = method("basic.publish", 1, routing_key="mine") + header(4) + body(b"test")
        got = self.talk(self.bystander, publish + method("basic.get", 1, queue="mine", no_ack=True))
        assert self.names(got) == ["basic.get-ok", "header", "body"]
        assert got[2][2] == {"body": b"test"}


def method(name: str, channel: int, **fields: Any) -> bytes:
    return amqp_encode_method(channel, name, fields)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def header(size: int, channel: int = 1) -> bytes:
    return frame(2, channel, b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x00\x00")


def body(data: bytes, channel: int = 1) -> bytes:
    return frame(3, channel, data)


names = st.sampled_from(["", *["q1", "e1"] * 3, "q2", "amq.topic", "amq.fanout", "x-forbidden", "amq.own"])
bits = st.booleans()
tags = st.integers(0, 3)
tables = st.sampled_from([{}, {"x-query": "a > 1"}, {"x-query": "a >"}, {"x-max-length": 1}, {"x-max-length": "a"}])
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "channel.open": {},
    "channel.close": {"reply_code": st.just(200), "reply_text": st.just("")},
    "channel.close-ok": {},
    "channel.flow": {"active": bits},
    "exchange.declare": {
        "exchange": names,
        "exchange_type": st.sampled_from(["direct", "topic", "headers", "x-query", "none"]),
        "passive": bits,
        "no_wait": bits,
        "arguments": tables,
    },
    "exchange.delete": {"exchange": names, "if_unused": bits, "no_wait": bits},
    "exchange.bind": {"destination": names, "source": names, "routing_key": names, "arguments": tables},
    "exchange.unbind": {"destination": names, "source": names, "routing_key": names, "arguments": tables},
    "queue.declare": {"queue": names, "passive": bits, "exclusive": bits, "auto_delete": bits, "arguments": tables},
    "queue.bind": {"queue": names, "exchange": names, "routing_key": names, "no_wait": bits, "arguments": tables},
    "queue.unbind": {"queue": names, "exchange": names, "routing_key": names, "arguments": tables},
    "queue.purge": {"queue": names, "no_wait": bits},
    "queue.delete": {"queue": names, "if_unused": bits, "if_empty": bits, "no_wait": bits},
    "basic.qos": {"prefetch_size": st.integers(0, 1), "prefetch_count": tags, "global": bits},
    "basic.consume": {"queue": names, "consumer_tag": names, "no_ack": bits, "exclusive": bits, "no_wait": bits},
    "basic.cancel": {"consumer_tag": names, "no_wait": bits},
    "basic.get": {"queue": names, "no_ack": bits},
    "basic.ack": {"delivery_tag": tags, "multiple": bits},
    "basic.nack": {"delivery_tag": tags, "multiple": bits, "requeue": bits},
    "basic.reject": {"delivery_tag": tags, "requeue": bits},
    "basic.recover": {"requeue": bits},
    "basic.publish": {"exchange": names, "routing_key": names, "mandatory": bits, "immediate": bits},
    "basic.deliver": {"consumer_tag": names},
    "confirm.select": {"no_wait": bits},
    "tx.select": {},
    "tx.commit": {},
    "tx.rollback": {},
    "connection.start-ok": {},
    "connection.open": {},
    "connection.blocked": {"reason": st.just("")},
}

channels = st.sampled_from([*[1] * 60, 0, 2, 11])  # mostly the open one: a closed connection tests nothing more
SENSIBLE = [name for name in FIELDS if not name.startswith(("connection", "channel", "tx", "basic.deliver"))]
KINDS = [*SENSIBLE * 4, *["message", "basic.get", "basic.consume"] * 6, *FIELDS, "header", "body", "heartbeat"]


@st.composite
def frames(draw: st.DrawFn, without: str = "") -> bytes:
    """Draw valid frames in any order; content often follows a publish, as it should."""
    kind = draw(st.sampled_from([kind for kind in KINDS if kind != without]))
    channel = draw(channels)
    if kind == "header":
        return header(draw(st.sampled_from([0, 4, 2000])), channel)
    if kind == "body":
        return body(draw(st.sampled_from([b"", b"abcd", b"abcde"])), channel)
    if kind == "heartbeat":
        return frame(8, draw(st.sampled_from([0] * 9 + [1])), b"")
    if kind == "message":
        fields = {name: draw(value) for name, value in FIELDS["basic.publish"].items()}
        return method("basic.publish", channel, **fields) + header(4, channel) + body(b"abcd", channel)
    return method(kind, channel, **{name: draw(value) for name, value in FIELDS[kind].items()})


BEGIN = b"".join(
    [
        method("channel.open", 1),
        method("exchange.declare", 1, exchange="e1", exchange_type="topic"),
        *(method("queue.declare", 1, queue=queue) for queue in ("q1", "q2")),
        method("queue.bind", 1, queue="q1", exchange="e1", routing_key="#"),
    ]
)


@settings(max_examples=EXAMPLES)
@given(st.lists(frames(), max_size=50))
def test_any_order_is_answered_or_refused_and_the_bystander_goes_on(sent: list[bytes]) -> None:
    plane = Plane()
    answers = plane.talk(plane.client, BEGIN + b"".join(sent))
    for _, name, fields in answers:
        if name == "connection.close":
            assert fields["reply_code"] in CONNECTION_CODES, fields
        elif name == "channel.close":
            assert fields["reply_code"] in CHANNEL_CODES, fields
        if name.endswith(".close"):
            assert len(fields["reply_text"].encode()) <= 255
            assert fields["reply_text"].isprintable()
    closed = [index for index, name in enumerate(plane.names(answers)) if name == "connection.close"]
    assert closed in ([], [len(answers) - 1]), "after connection.close nothing more is said"
    plane.check_the_bystander()
    plane.broker.disconnect(plane.client, plane.now_us)
    plane.check_the_bystander()
    rows = {kind: plane.broker.rows(kind, 0, 100)[0] for kind in ("connections", "consumers", "queues")}
    assert [row["id"] for row in rows["connections"]] == [plane.bystander]
    assert rows["consumers"] == []
    assert [row["name"] for row in rows["queues"] if row["owner"] is not None] == []


@settings(max_examples=EXAMPLES)
@given(st.lists(frames(without="basic.consume"), max_size=25), st.lists(st.integers(0, 3000), max_size=20))
def test_the_answers_are_the_same_however_the_stream_is_cut(sent: list[bytes], cuts: list[int]) -> None:
    data = BEGIN + b"".join(sent)
    whole, in_pieces = Plane(), Plane()
    edges = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    answers = [
        answer
        for start, end in itertools.pairwise(edges)
        for answer in in_pieces.talk(in_pieces.client, data[start:end])
    ]
    # One confirm may stand for several messages, and an error that comes with them may come before it.
    at_once = whole.talk(whole.client, data)
    assert [it for it in answers if it[1] != "basic.ack"] == [it for it in at_once if it[1] != "basic.ack"]


@settings(max_examples=EXAMPLES)
@given(st.lists(frames(), max_size=6), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1))
def test_damaged_frames_are_refused_or_mean_something_else(sent: list[bytes], damage: list[tuple[int, int]]) -> None:
    plane = Plane()
    data = bytearray(BEGIN + b"".join(sent))
    for at, value in damage:
        data[at % len(data)] = value
    for _, name, fields in plane.talk(plane.client, bytes(data)):
        if name == "connection.close":
            assert fields["reply_code"] in CONNECTION_CODES
    plane.check_the_bystander()
