"""The handshake negotiates its values and refuses everything else, however the stream is split."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tamis._core import amqp_decode_frame, amqp_encode_method
from tamis.broker.login.handshake import (
    BUFFER_BYTES_MAX,
    CAPABILITIES,
    PROTOCOL_HEADER,
    TRANSITIONS,
    Agreed,
    Handshake,
    Input,
    Login,
    Offer,
    Open,
    Peer,
    State,
)

CLIENT = {
    "product": "a client",
    "version": "1",
    "capabilities": {"authentication_failure_close": True, "basic.nack": True},
}
LOCAL = Peer()
OLD_CLIENT = {"product": "an old client"}


def method(name: str, channel: int = 0, **fields: Any) -> bytes:
    return amqp_encode_method(channel, name, fields)


def start_ok(
    client: dict[str, Any] = CLIENT, mechanism: str = "PLAIN", response: bytes = b"\x00ann\x00secret"
) -> bytes:
    fields = {"client_properties": client, "mechanism": mechanism, "response": response, "locale": "en_US"}
    return method("connection.start-ok", **fields)


def tune_ok(channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> bytes:
    return method("connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)


def open_(vhost: str = "/") -> bytes:
    return method("connection.open", virtual_host=vhost)


HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
GOOD = PROTOCOL_HEADER + start_ok() + tune_ok() + HEARTBEAT + open_() + b"and what follows"


def frames(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    while data:
        frame = amqp_decode_frame(data, 131072)
        assert frame is not None
        _, name, fields, consumed = frame
        found.append((name, fields))
        data = data[consumed:]
    return found


def talk(handshake: Handshake, pieces: list[bytes]) -> bytes:
    """Feed `pieces`, answer every question with yes, and return all output."""
    sent = b""
    for piece in pieces:
        question = handshake.receive(piece)
        while question:
            if isinstance(question, Login):
                question = handshake.logged_in()
            else:
                handshake.admit()
                question = None
        sent += handshake.data_to_send()
    return sent


def closed_with(handshake: Handshake, data: bytes) -> int:
    """Feed `data` in one piece; return the code of the connection.close, whose text must have the usual form."""
    sent = frames(talk(handshake, [data]))
    assert sent, f"expected connection.close, nothing was sent; {handshake.state}"
    name, fields = sent[-1]
    assert name == "connection.close", sent
    assert handshake.state is State.CLOSING
    assert fields["reply_text"].split(" - ")[0].isupper()
    assert len(fields["reply_text"].encode()) <= 255
    return int(fields["reply_code"])


def at(state: State, peer: Peer = LOCAL) -> Handshake:
    """Return a handshake in `state`, without output."""
    handshake = Handshake(peer, Offer())
    steps: dict[State, Any] = {
        State.HEADER: lambda: None,
        State.START_OK: lambda: handshake.receive(PROTOCOL_HEADER),
        State.LOGIN: lambda: handshake.receive(start_ok()),
        State.TUNE_OK: handshake.logged_in,
        State.OPEN: lambda: handshake.receive(tune_ok()),
        State.ADMISSION: lambda: handshake.receive(open_()),
    }
    for reached, step in steps.items():
        step()
        assert handshake.state is reached
        handshake.data_to_send()
        if reached is state:
            return handshake
    raise AssertionError(state)


def test_a_good_client_gets_what_it_needs_and_its_next_bytes_are_kept() -> None:
    handshake = Handshake(Peer(), Offer())
    sent = frames(talk(handshake, [GOOD]))
    assert [name for name, _ in sent] == ["connection.start", "connection.tune", "connection.open-ok"]
    properties = sent[0][1]["server_properties"]
    assert properties["product"] == "tamis"
    assert [part.isdigit() for part in properties["version"].split(".")] == [True, True, True]
    assert properties["capabilities"] == dict.fromkeys(CAPABILITIES, True)
    assert sent[0][1]["mechanisms"] == b"PLAIN AMQPLAIN"
    assert sent[1][1] == {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60}
    assert handshake.state is State.OPENED
    assert handshake.agreed == Agreed(
        user="ann",
        vhost="/",
        channel_max=2047,
        frame_bytes_max=131072,
        heartbeat_s=0,
        client={"product": "a client", "version": "1"},
        capabilities=frozenset({"authentication_failure_close", "basic.nack"}),
        remaining=b"and what follows",
    )


@given(st.lists(st.integers(0, len(GOOD)), max_size=12))
def test_the_result_is_the_same_however_the_stream_is_cut(cuts: list[int]) -> None:
    whole, in_pieces = Handshake(Peer(), Offer()), Handshake(Peer(), Offer())
    edges = [0, *sorted(cuts), len(GOOD)]
    pieces = [GOOD[start:end] for start, end in itertools.pairwise(edges)]
    last = next(index for index in range(len(pieces)) if len(b"".join(pieces[: index + 1])) >= len(GOOD) - 16)
    sent = talk(in_pieces, pieces[: last + 1])  # the data plane reads what follows
    assert sent == talk(whole, [GOOD[: edges[last + 1]]])
    assert in_pieces.agreed == whole.agreed


@given(st.binary(max_size=300), st.sampled_from([State.HEADER, State.START_OK, State.TUNE_OK, State.OPEN]))
def test_garbage_is_refused_or_waited_for_and_nothing_else(garbage: bytes, state: State) -> None:
    assume(not garbage.startswith(PROTOCOL_HEADER))
    handshake = at(state)
    sent = talk(handshake, [garbage])
    assert handshake.state in (state, State.CLOSING, State.CLOSED)
    if handshake.state is State.CLOSING:
        assert frames(sent)[-1][1]["reply_code"] in (501, 502, 503, 504, 505, 530, 540)


METHODS = {
    "connection.start-ok": start_ok(),
    "connection.tune-ok": tune_ok(),
    "connection.open": open_(),
    "connection.close": method("connection.close", reply_code=200, reply_text="bye"),
    "connection.close-ok": method("connection.close-ok"),
    "heartbeat": HEARTBEAT,
    "channel.open": method("channel.open"),
    "connection.start": method("connection.start"),
}
BELONGS = {
    State.START_OK: {"connection.start-ok", "connection.close"},
    State.TUNE_OK: {"connection.tune-ok", "connection.close", "heartbeat"},
    State.OPEN: {"connection.open", "connection.close", "heartbeat"},
}


@pytest.mark.parametrize(
    ("state", "name"), [(state, name) for state in BELONGS for name in METHODS if name not in BELONGS[state]]
)
def test_every_method_out_of_order_is_refused_with_503(state: State, name: str) -> None:
    assert closed_with(at(state), METHODS[name]) == 503


@pytest.mark.parametrize("state", BELONGS)
def test_a_client_may_close_at_any_time(state: State) -> None:
    handshake = at(state)
    assert frames(talk(handshake, [METHODS["connection.close"]])) == [("connection.close-ok", {})]
    assert handshake.state is State.CLOSED


@pytest.mark.parametrize("state", BELONGS)
def test_frames_that_cannot_be_are_refused_by_their_kind(state: State) -> None:
    assert closed_with(at(state), b"\x01\x00\x00\xff\xff\xff\xff") == 501, "larger than any frame before open"
    assert closed_with(at(state), b"\x07\x00\x00\x00\x00\x00\x00\xce") == 501, "no such type"
    assert closed_with(at(state), open_()[:-1] + b"\x00") == 501, "no end octet"
    assert closed_with(at(state), method("connection.open", channel=1, virtual_host="/")) == 504, "not channel 0"
    assert closed_with(at(state), b"\x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x1f\x00\xce") in (502, 503), "cut short"


@given(st.sampled_from(sorted(set(State), key=lambda it: it.name)), st.sampled_from(list(Input)))
def test_the_table_never_leaves_the_end(state: State, happened: Input) -> None:
    if state in (State.OPENED, State.CLOSED):
        assert (state, happened) not in TRANSITIONS


def test_another_protocol_is_answered_with_the_header_that_is_spoken() -> None:
    for spoken, hint in {
        b"AMQP\x00\x01\x00\x00": "AMQP version",
        b"AMQP\x01\x01\x00\x0a": "AMQP version",
        b"GET / HTTP/1.1\r\n": "HTTP",
        b"\x16\x03\x01\x02\x00\x01": "TLS",
        b"x": "bytes 78",
    }.items():
        handshake = Handshake(Peer(), Offer())
        assert handshake.receive(spoken) is None
        assert (handshake.data_to_send(), handshake.state) == (PROTOCOL_HEADER, State.CLOSED)
        assert hint in handshake.reason


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\x00ann\x00secret"),
        ("PLAIN", b"ann\x00ann\x00secret"),
        ("AMQPLAIN", b"\x05LOGINS\x00\x00\x00\x03ann\x08PASSWORDS\x00\x00\x00\x06secret"),
    ],
)
def test_name_and_password_are_read(mechanism: str, response: bytes) -> None:
    handshake = at(State.START_OK)
    login = handshake.receive(start_ok(mechanism=mechanism, response=response))
    assert login == Login(mechanism, "ann", b"secret")
    assert "secret" not in repr(login)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"ann\x00secret"),
        ("PLAIN", b"admin\x00ann\x00secret"),
        ("PLAIN", b"\x00\x00secret"),
        ("PLAIN", b"\x00\xff\xfe\x00secret"),
        ("PLAIN", b"\x00ann\x00" + b"x" * 1025),
        ("AMQPLAIN", b"\x05LOGIN"),
        ("AMQPLAIN", b"\x05LOGINI\x00\x00\x00\x03"),
        ("AMQPLAIN", b"\x05LOGINS\xff\xff\xff\xffann"),
        ("AMQPLAIN", b"\x05LOGINS\x00\x00\x00\x03ann"),
    ],
)
def test_a_login_that_is_none_is_refused_as_a_wrong_one_is(mechanism: str, response: bytes) -> None:
    handshake = at(State.START_OK)
    assert closed_with(handshake, start_ok(mechanism=mechanism, response=response)) == 403
    assert handshake.reason


@given(st.binary(max_size=60), st.sampled_from(["PLAIN", "AMQPLAIN"]))
def test_any_response_is_a_login_or_refused(response: bytes, mechanism: str) -> None:
    handshake = at(State.START_OK)
    handshake.receive(start_ok(mechanism=mechanism, response=response))
    assert handshake.state in (State.LOGIN, State.CLOSING)


def test_a_client_that_cannot_be_told_is_dropped_when_its_login_is_wrong() -> None:
    handshake = at(State.START_OK)
    assert handshake.receive(start_ok(OLD_CLIENT)) == Login("PLAIN", "ann", b"secret")
    handshake.refuse_login("no such user")
    assert (handshake.data_to_send(), handshake.state, handshake.reason) == (b"", State.CLOSED, "no such user")


def test_a_client_that_can_be_told_is_not_told_why() -> None:
    handshake = at(State.LOGIN)
    handshake.refuse_login("no such user", "PLAIN")
    ((_, fields),) = frames(handshake.data_to_send())
    assert fields["reply_code"] == 403
    assert fields["reply_text"].startswith("ACCESS_REFUSED - ")
    assert "no such user" not in fields["reply_text"]
    assert handshake.receive(method("connection.close-ok")) is None
    assert handshake.state is State.CLOSED


def test_mechanisms_are_offered_where_they_are_safe() -> None:
    def offered(peer: Peer) -> bytes:
        handshake = Handshake(peer, Offer())
        handshake.receive(PROTOCOL_HEADER)
        return bytes(frames(handshake.data_to_send())[0][1]["mechanisms"])

    assert offered(Peer(is_private=False)) == b""
    assert offered(Peer(certificate_name="ann")) == b"PLAIN AMQPLAIN EXTERNAL"
    assert closed_with(at(State.START_OK, Peer(is_private=False)), start_ok()) == 503
    assert closed_with(at(State.START_OK), start_ok(mechanism="EXTERNAL")) == 503


def test_external_is_who_the_certificate_says_whatever_the_client_says() -> None:
    handshake = at(State.START_OK, Peer(certificate_name="ann"))
    assert handshake.receive(start_ok(mechanism="EXTERNAL", response=b"admin")) == Login("EXTERNAL", "ann", None)


@pytest.mark.parametrize("fields", [{"frame_max": 4095}, {"frame_max": 131073}, {"channel_max": 2048}])
def test_more_than_was_offered_is_refused(fields: dict[str, int]) -> None:
    assert closed_with(at(State.TUNE_OK), tune_ok(**fields)) == 530


def test_less_than_was_offered_is_agreed_on() -> None:
    handshake = at(State.TUNE_OK)
    talk(handshake, [tune_ok(10, 4096, 5) + open_("/other")])
    agreed = handshake.agreed
    assert agreed is not None
    assert (agreed.channel_max, agreed.frame_bytes_max, agreed.heartbeat_s, agreed.vhost) == (10, 4096, 5, "/other")


def test_a_vhost_may_be_refused() -> None:
    handshake = at(State.OPEN)
    assert handshake.receive(open_("/nowhere")) == Open("/nowhere")
    handshake.refuse(530, "NOT_ALLOWED - vhost '/nowhere' not found")
    ((_, fields),) = frames(handshake.data_to_send())
    assert (fields["reply_code"], fields["reply_text"]) == (530, "NOT_ALLOWED - vhost '/nowhere' not found")


def test_who_does_not_wait_for_the_answer_is_kept_within_bounds() -> None:
    patient, greedy = at(State.LOGIN), at(State.LOGIN)
    assert patient.receive(b"\x00" * BUFFER_BYTES_MAX) is None
    assert patient.state is State.LOGIN
    assert closed_with(greedy, b"\x00" * (BUFFER_BYTES_MAX + 1)) == 501
    assert greedy.logged_in() is None, "the answer comes too late"
    assert greedy.state is State.CLOSING


@pytest.mark.parametrize("state", [it for it in State if it not in (State.OPENED, State.CLOSED, State.CLOSING)])
def test_a_handshake_that_takes_too_long_ends_in_every_state(state: State) -> None:
    handshake = at(state)
    handshake.refuse(501, "FRAME_ERROR - took too long")
    assert handshake.state is (State.CLOSED if state is State.HEADER else State.CLOSING)
    handshake.refuse(501, "FRAME_ERROR - took too long")
    assert handshake.state is State.CLOSED


def test_a_reply_text_is_one_short_line() -> None:
    handshake = at(State.OPEN)
    handshake.receive(open_())
    handshake.refuse(530, "NOT_ALLOWED - a\nb " + "ä" * 300)
    ((_, fields),) = frames(handshake.data_to_send())
    assert fields["reply_text"].startswith("NOT_ALLOWED - a b ä")
    assert len(fields["reply_text"].encode()) == 254
