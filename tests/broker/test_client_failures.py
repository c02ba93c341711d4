"""The client when something goes wrong: full mailboxes, broken connections, deleted queues and forged headers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import aio_pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("aio_pika", reason="the client is not installed: pip install 'tamis[client]'")

import tamis.client
from tamis.client import (
    Client,
    ClientError,
    ReceivedMessage,
    ReplyTimeoutError,
    SendTimeoutError,
    UnconfirmedError,
    receiving,
)
from tamis.client.errors import client_error
from tamis.client.message import received
from tests.broker.conftest import RunningBroker
from tests.broker.proxy import proxy_to
from tests.broker.test_client import run, take, url


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Return a broker whose mailboxes and services have room for two messages, or for 1,000 bytes."""
    limits = "messages = 2\nbytes = 1000\n"
    running = RunningBroker(tmp_path_factory.mktemp("small"), config=f"[mailboxes]\n{limits}[services]\n{limits}")
    yield running
    running.kill()


async def send_all(client: Client, address: str, count: int) -> None:
    await asyncio.gather(*(client.mailbox(address).send(str(number).encode()) for number in range(count)))


def test_a_send_that_waits_for_room_holds_up_nothing_else_of_its_client(small: RunningBroker) -> None:
    async def work() -> None:
        async with (
            await tamis.client.connect(url(small), identity="f1.ann") as ann,
            await tamis.client.connect(url(small), identity="f1.bob") as bob,
        ):
            waiting = asyncio.create_task(send_all(ann, "f1.bob", 40))
            await asyncio.sleep(0.2)
            for number in range(3):  # it sends, receives and acknowledges meanwhile
                await ann.mailbox("f1.ann").send(str(number).encode())
                (message,) = await take(ann.mailbox().messages(), 1)
                assert message.body == str(number).encode()
            assert not waiting.done()
            bodies = [message.body for message in await take(bob.mailbox().messages(), 40)]
            assert sorted(bodies, key=int) == [str(number).encode() for number in range(40)]
            await waiting

    run(work)


def test_two_clients_that_fill_each_others_mailboxes_go_on(small: RunningBroker) -> None:
    async def work() -> None:
        async with (
            await tamis.client.connect(url(small), identity="f2.ann") as ann,
            await tamis.client.connect(url(small), identity="f2.bob") as bob,
        ):
            sending = asyncio.gather(send_all(ann, "f2.bob", 30), send_all(bob, "f2.ann", 30))
            await asyncio.sleep(0.2)
            found = await asyncio.gather(take(ann.mailbox().messages(), 30), take(bob.mailbox().messages(), 30))
            assert [len(messages) for messages in found] == [30, 30]
            await sending

    run(work)


def test_a_send_has_a_time_out_and_its_message_may_still_be_stored(small: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(small), identity="f3.ann") as ann:
            to = ann.mailbox("f3.bob")
            await send_all(ann, "f3.bob", 2)
            with pytest.raises(SendTimeoutError, match="not stored in 0.2 s: exchange 'mailbox', key 'f3.bob'"):
                await to.send(b"late", timeout_s=0.2)
            await ann.mailbox("f3.ann").send(b"another", timeout_s=20)
            async with await tamis.client.connect(url(small), identity="f3.bob") as bob:
                messages = await take(bob.mailbox().messages(), 3)
                assert messages[2].body == b"late"

    run(work)


def test_a_request_that_finds_the_service_full_has_its_time_out(small: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(small)) as client:
            service = client.service("f4")
            for _ in range(2):
                await service.send(b"waits")
            with pytest.raises(ReplyTimeoutError, match="service 'f4' has not replied in 0.3 s"):
                await service.request(b"no room", timeout_s=0.3)

    run(work)


def test_a_message_that_never_fits_fails_alone(small: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(small), identity="f5.ann") as ann:
            sends = [ann.mailbox("f5.bob").send(body) for body in (b"one", bytes(2_000), b"two")]
            one, never, two = await asyncio.gather(*sends, return_exceptions=True)
            assert (one, two) == (None, None)
            assert isinstance(never, ClientError)
            assert "never fits into queue 'amq.mailbox.f5.bob'" in str(never)

    run(work)


def test_a_sender_in_a_stream_is_not_believed(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker), identity="f6.mallory") as mallory:
            stream = mallory.stream("f6")
            await stream.publish(b"", {"x-sender": "f6.ann"})
            (message,) = await take(stream.subscribe(start="first"), 1)
            assert message.sender is None
            await mallory.mailbox("f6.mallory").send(b"", {"x-sender": "f6.ann"})
            (message,) = await take(mallory.mailbox().messages(), 1)
            assert message.sender == "f6.mallory"

    run(work)


def test_a_named_reader_comes_back_before_the_broker_knows_that_it_had_gone(broker: RunningBroker) -> None:
    async def work() -> None:
        async with proxy_to(broker.port) as network, await tamis.client.connect(network.url()) as client:
            stream = client.stream("f7")
            for number in range(3):
                await stream.publish(str(number).encode())
            reading = stream.subscribe(start="first", name="audit", credit=1)
            numbers = [(await anext(reading)).number]
            sides = network.cut_off_clients()
            following = asyncio.ensure_future(anext(reading))
            done, _ = await asyncio.wait([following], timeout=1)
            assert not done, "the broker has its earlier connection still, and refuses a second reader of this name"
            for side in sides:
                side.close()
            numbers += [(await following).number, (await anext(reading)).number]
            assert numbers == [1, 2, 3]
            await reading.aclose()

    run(work)


def test_a_name_that_another_reads_under_is_refused_at_once(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("f8")
            await stream.publish(b"")
            first = stream.subscribe(start="first", name="audit")
            await anext(first)
            with pytest.raises(ClientError, match="reader 'audit' of stream 'f8' is read by another consumer"):
                await take(stream.subscribe(name="audit"), 1)
            await first.aclose()

    run(work)


def test_a_request_whose_reply_was_lost_is_made_again_and_can_be_recognised(broker: RunningBroker) -> None:
    async def work() -> None:
        async with (
            proxy_to(broker.port) as network,
            await tamis.client.connect(network.url()) as requester,
            await tamis.client.connect(url(broker)) as worker,
        ):
            asking = asyncio.create_task(requester.service("f9").request(b"compute", timeout_s=40))
            async with aclosing(worker.service("f9").offer()) as requests:
                first = await anext(requests)
                network.cut()  # the queue of its replies goes with the connection
                second = await anext(requests)
                assert (second.body, second.message_id) == (first.body, first.message_id)
                await second.reply(b"done")
                assert (await asking).body == b"done"

    run(work)


def test_a_worker_whose_requester_has_left_goes_on(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as worker:
            async with await tamis.client.connect(url(broker)) as requester:
                asking = asyncio.create_task(requester.service("f16").request(b"first"))
                requests = worker.service("f16").offer()
                first = await anext(requests)
                asking.cancel()
            assert not await first.reply(b"nobody waits for it")
            async with await tamis.client.connect(url(broker)) as requester:
                asking = asyncio.create_task(requester.service("f16").request(b"second"))
                assert await (await anext(requests)).reply(b"done")
                assert (await asking).body == b"done"
            await requests.aclose()

    run(work)


def test_a_request_that_was_not_confirmed_does_not_name_a_queue_that_has_gone(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_by = []
    publish = Client.publish

    async def unconfirmed(self: Client, *to: Any, **options: Any) -> None:
        asked_by.append(to[2].reply_to)
        await publish(self, *to, **options)
        if len(asked_by) == 1:
            network.cut()
            raise UnconfirmedError("the connection broke before the confirm came")

    async def work() -> None:
        nonlocal network
        async with (
            proxy_to(broker.port) as network,
            await tamis.client.connect(network.url()) as requester,
            await tamis.client.connect(url(broker)) as worker,
        ):
            monkeypatch.setattr(requester, "publish", unconfirmed.__get__(requester))
            asking = asyncio.create_task(requester.service("f17").request(b"compute"))
            async with aclosing(worker.service("f17").offer()) as requests:
                await anext(requests)
                assert await (await anext(requests)).reply(b"done"), "the queue of the first request has gone"
                assert (await asking).body == b"done"
            assert len(set(asked_by)) == 2

    network: Any = None
    run(work)


def test_replies_that_a_broken_connection_cuts_off_say_so(broker: RunningBroker) -> None:
    async def work() -> None:
        async with (
            proxy_to(broker.port) as network,
            await tamis.client.connect(network.url()) as requester,
            await tamis.client.connect(url(broker)) as worker,
        ):
            replies = requester.service("f10").replies(b"count")
            asking = asyncio.ensure_future(anext(replies))
            async with aclosing(worker.service("f10").offer()) as requests:
                await (await anext(requests)).reply(b"1", more=True)
                assert (await asking).body == b"1"
                network.cut()
                with pytest.raises(ClientError, match="the connection broke after reply 1 of service 'f10'"):
                    await anext(replies)

    run(work)


def test_whoever_reads_what_is_deleted_is_told(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("f11")
            await stream.publish(b"")
            reading = stream.subscribe(start="first")
            await anext(reading)
            following = asyncio.ensure_future(anext(reading))
            await asyncio.sleep(0.1)
            channel = await client.channel()
            await channel.queue_delete("f11")
            with pytest.raises(ClientError, match="the broker has ended the reading of 'f11': it was deleted"):
                await following

    run(work)


def test_a_reader_without_acknowledgement_that_falls_behind_misses_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "WAITING_MAX", 20)

    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("f12")
            reading = stream.subscribe(start="first", credit=None)
            await stream.publish(b"")
            numbers = [(await anext(reading)).number]
            await asyncio.gather(*(stream.publish(b"") for _ in range(200)))
            numbers += [(await anext(reading)).number for _ in range(200)]
            assert numbers == list(range(1, 202))
            await reading.aclose()
            with pytest.raises(ValueError, match="a reader with a name acknowledges"):
                await anext(stream.subscribe(name="audit", credit=None))

    run(work)


def test_a_stream_has_the_topics_of_an_exchange_and_queries_see_bodies(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("f13")
            await stream.bind("amq.topic", "f13.#")
            for topic, body in (("f13.eur", b'{"price": 7}'), ("f13.usd", b'{"price": 9}')):
                await stream.publish(body, exchange="amq.topic", topic=topic)
            (euro,) = await take(stream.subscribe("*.eur", language="topic", start="first"), 1)
            assert (euro.topic, euro.number) == ("f13.eur", 1)
            (dear,) = await take(stream.subscribe("body.price > 8", query_body="json", start="first"), 1)
            assert (dear.topic, dear.number) == ("f13.usd", 2)
            with pytest.raises(ClientError, match="no queue takes the message"):
                await stream.publish(b"", exchange="amq.topic", topic="nobody")
            with pytest.raises(ValueError, match="a topic needs an exchange"):
                await stream.publish(b"", topic="f13.eur")
            with pytest.raises(ClientError, match="no exchange 'none'"):
                await stream.bind("none")

    run(work)


def test_a_reader_with_several_queries_gets_one_copy_of_each_message(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("f19")
            for price in range(10):
                await stream.publish(b"", {"price": price})
            queries = ["price > 6", "price < 2", "price > 8"]
            found = await take(stream.subscribe(queries, start="first"), 5)
            assert [message.headers["price"] for message in found] == [0, 1, 7, 8, 9]
            with pytest.raises(ClientError, match="expected a number"):
                await take(stream.subscribe(["price > 6", "price >> 3"]), 1)

    run(work)


def message(body: bytes, parts: Any) -> ReceivedMessage:
    """Return a message whose sender has written `parts` into the header of their sizes."""
    sent = aio_pika.Message(body, headers={"x-parts": parts})
    names = ("body", "headers", "reply_to", "correlation_id", "message_id")
    fields = {name: getattr(sent, name) for name in names} | {"routing_key": "", "redelivered": False}
    return received(SimpleNamespace(**fields), Client("", None), is_addressed=False)


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_the_parts_are_those_that_were_sent(parts: list[bytes]) -> None:
    assert message(b"".join(parts), [len(part) for part in parts]).parts == parts


@given(
    st.binary(max_size=20),
    st.one_of(st.none(), st.booleans(), st.text(), st.lists(st.one_of(st.integers(-5, 25), st.text(), st.booleans()))),
)
def test_parts_are_the_whole_body_whatever_the_header_says(body: bytes, sizes: Any) -> None:
    assert b"".join(message(body, sizes).parts) == body


def test_a_connection_that_breaks_while_much_is_sent_loses_nothing(broker: RunningBroker) -> None:
    async def work() -> None:
        async with proxy_to(broker.port) as network, await tamis.client.connect(network.url()) as client:
            stream, count = client.stream("f14"), 300
            sending = [asyncio.create_task(stream.publish(str(number).encode())) for number in range(count)]
            for _ in range(5):
                await asyncio.sleep(0.2)
                network.cut()
            await asyncio.gather(*sending)
            found = [message.body for message in await take(stream.subscribe(start="first"), await stream.count())]
            assert set(found) == {str(number).encode() for number in range(count)}

    run(work)


def test_what_waits_to_be_written_when_a_connection_breaks_is_sent_on_the_next(broker: RunningBroker) -> None:
    async def work() -> None:
        async with proxy_to(broker.port) as network, await tamis.client.connect(network.url()) as client:
            stream, count = client.stream("f18"), 20
            await stream.make()
            network.bytes_per_s = 100_000  # what is sent fills the socket, then the queue of the connection
            bodies = [str(number).encode().ljust(2_000_000) for number in range(count)]
            sending = [asyncio.create_task(stream.publish(body)) for body in bodies]
            await asyncio.sleep(1)
            network.bytes_per_s = None
            network.cut()
            await asyncio.gather(*sending)
            assert await stream.count() == count

    run(work)


def test_a_message_that_is_not_to_be_sent_again_fails_when_its_connection_breaks(small: RunningBroker) -> None:
    async def work() -> None:
        async with (
            proxy_to(small.port) as network,
            await tamis.client.connect(network.url(), identity="f15") as client,
        ):
            for _ in range(2):
                await client.mailbox("f15").send(b"")
            message = aio_pika.Message(b"waits", delivery_mode=2)
            sending = asyncio.create_task(client.publish("mailbox", "f15", message, resend=False))
            await asyncio.sleep(0.2)
            network.cut()
            with pytest.raises(UnconfirmedError, match="the connection broke: exchange 'mailbox', key 'f15'"):
                await sending

    run(work)


@pytest.mark.timeout(20)
def test_an_error_that_comes_before_itself_in_its_causes_has_a_text() -> None:
    """aiormq raises one error for all that wait, so its chain of causes may be a circle."""
    first, second = ConnectionError("the connection broke"), RuntimeError("closed")
    first.__cause__, second.__context__ = second, first
    assert str(client_error(first)) == "the connection broke"
    assert str(client_error(second)) == "closed"
