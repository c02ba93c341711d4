"""The client: streams, mailboxes and services, through a broker that is killed and comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis.client
from tamis.client import Address, Client, ClientError, IdentityTakenError, ReplyTimeoutError, SendTimeoutError, blocking
from tests.broker.conftest import RunningBroker, StartBroker


def url(broker: RunningBroker) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.port}/"


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` in a loop, within a minute."""
    asyncio.run(asyncio.wait_for(work(), 60))


async def take(messages: AsyncGenerator[Any, None], count: int) -> list[Any]:
    """Return the next messages, all acknowledged but the last."""
    found = []
    async with aclosing(messages) as following:
        async for message in following:
            found.append(message)
            if len(found) == count:
                await message.ack()
                break
    return found


def test_an_address_names_a_broker_and_what_is_there() -> None:
    address = Address.parse("tamis://ann:secret@news.example/mailbox/a%2Fb")
    assert (address.broker, address.kind, address.name) == ("amqp://ann:secret@news.example:5672/", "mailbox", "a/b")
    assert str(address) == "tamis://ann:secret@news.example/mailbox/a%2Fb"
    for wrong in ("amqp://h/stream/x", "tamis://h/queue/x", "tamis://h/stream/", "tamis:///stream/x", "x"):
        with pytest.raises(ValueError, match="expected tamis://host/stream/name"):
            Address.parse(wrong)
    with pytest.raises(ValueError, match=r"expected nothing but \?vhost=name behind the path"):
        Address.parse("tamis://h/stream/x?user=ann")


@pytest.mark.parametrize(("scheme", "amqp"), [("tamis", "amqp"), ("tamiss", "amqps")])
@given(st.sampled_from(["h", "h:1", "ann:s%2Fe@h"]), st.text(min_size=1), st.text(min_size=1))
def test_an_address_that_is_written_is_read_as_what_it_was(
    scheme: str, amqp: str, host: str, name: str, vhost: str
) -> None:
    text = f"{scheme}://{host}/stream/{quote(name, '')}?vhost={quote(vhost, '')}"
    address = Address.parse(text)
    assert Address.parse(str(address)) == address
    assert address.name == name
    assert address.broker.startswith(f"{amqp}://{host}")
    assert unquote(urlsplit(address.broker).path[1:]) == ("" if vhost == "/" else vhost)


def test_an_address_is_enough_to_connect(broker: RunningBroker) -> None:
    async def work() -> None:
        address = f"tamis://guest:guest@127.0.0.1:{broker.port}/stream/c10"
        async with await tamis.client.connect(address) as client:
            stream = client.stream(Address.parse(address).name)
            await stream.publish(b"one")
            assert (await take(stream.subscribe(start="first"), 1))[0].body == b"one"
        with pytest.raises(ClientError, match="none"):
            await tamis.client.connect(f"{address}?vhost=none")

    run(work)


def test_a_message_comes_with_its_sender_and_its_parts(broker: RunningBroker) -> None:
    async def work() -> None:
        ann, bob = (
            await tamis.client.connect(url(broker), identity="c1.ann"),
            await tamis.client.connect(url(broker), identity="c1.bob"),
        )
        async with ann, bob:
            await ann.mailbox("c1.bob").send([b"one", b"", b"three"], {"n": 1})
            (message,) = await take(bob.mailbox().messages(), 1)
            assert (message.sender, message.parts, message.headers["n"]) == ("c1.ann", [b"one", b"", b"three"], 1)
            await message.reply(b"thanks")
            (reply,) = await take(ann.mailbox().messages(), 1)
            assert (reply.sender, reply.body, reply.parts) == ("c1.bob", b"thanks", [b"thanks"])
            with pytest.raises(ClientError, match="is read by the client with that identity alone"):
                await take(bob.mailbox("c1.ann").messages(), 1)

    run(work)


def test_a_number_in_a_header_keeps_all_its_digits(broker: RunningBroker) -> None:
    headers = {"price": 0.1, "more": [1e300, {"deep": -2.5}]}

    async def work() -> None:
        async with await tamis.client.connect(url(broker), identity="c1.ann") as ann:
            await ann.mailbox("c1.ann").send(b"", headers)
            (message,) = await take(ann.mailbox().messages(), 1)
            assert {name: message.headers[name] for name in headers} == headers

    run(work)


def test_a_request_has_one_reply_or_several_or_none_in_time(broker: RunningBroker) -> None:
    async def serve(worker: Client) -> None:
        async for request in worker.service("c2").offer():
            if request.body == b"count":
                await request.reply(b"1", more=True)
                await request.reply(b"2", more=True)
            if request.body != b"silence":
                await request.reply(b"last")

    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client, await tamis.client.connect(url(broker)) as worker:
            serving = asyncio.create_task(serve(worker))
            service = client.service("c2")
            assert (await service.request(b"one")).body == b"last"
            assert [reply.body async for reply in service.replies(b"count")] == [b"1", b"2", b"last"]
            with pytest.raises(ReplyTimeoutError, match="service 'c2' has not replied in 0.3 s"):
                await service.request(b"silence", timeout_s=0.3)
            serving.cancel()

    run(work)


def test_a_stream_is_read_from_anywhere_with_a_query(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("c3", max_age="1h")
            for price in range(10):
                await stream.publish(str(price).encode(), {"price": price})
            assert [message.number for message in await take(stream.subscribe(start="first"), 10)] == list(range(1, 11))
            found = await take(stream.subscribe("price > 6", start=3), 3)
            assert [(message.number, message.body) for message in found] == [(8, b"7"), (9, b"8"), (10, b"9")]
            with pytest.raises(ClientError, match="position 7: expected a number"):
                await take(stream.subscribe("price >> 3"), 1)

    run(work)


def test_a_named_reader_goes_on_where_the_last_one_was(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker)) as client:
            stream = client.stream("c8")
            for number in range(1, 7):
                await stream.publish(str(number).encode())
            first = await take(stream.subscribe(start="first", name="audit"), 3)
            assert [message.number for message in first] == [1, 2, 3]
        async with await tamis.client.connect(url(broker)) as client:
            again = await take(client.stream("c8").subscribe(start="next", name="audit"), 3)
            assert [message.number for message in again] == [4, 5, 6]

    run(work)


def test_everything_goes_on_where_it_was_when_the_broker_comes_back(start_broker: StartBroker) -> None:
    broker = start_broker()

    async def restart() -> None:
        broker.kill()
        await asyncio.sleep(0.2)
        await asyncio.to_thread(broker.start)

    async def work() -> None:
        async with await tamis.client.connect(url(broker), identity="ann") as client:
            stream, mailbox = client.stream("log"), client.mailbox()
            for number in range(20):
                await stream.publish(str(number).encode())
                await mailbox.send(str(number).encode())
            reading, letters = stream.subscribe(start="first", credit=5), mailbox.messages(credit=5)
            numbers = [(await anext(reading)).number for _ in range(10)]
            bodies = [(await anext(letters)).body for _ in range(10)]
            await asyncio.gather(restart(), stream.publish(b"20"), mailbox.send(b"20"))
            numbers += [(await anext(reading)).number for _ in range(11)]
            assert numbers == list(range(1, 22)), "no gap and no double"
            # What was not acknowledged, or whose acknowledgement was not written yet, comes again.
            again = [await anext(letters)]
            while again[-1].body != b"20":
                again.append(await anext(letters))
            assert [int(letter.body) for letter in again] == list(range(21 - len(again), 21))
            assert len(again) >= 12
            assert all(letter.is_redelivered for letter in again if letter.body in bodies)
            await reading.aclose()
            await letters.aclose()

    run(work)


def test_an_identity_that_is_taken_is_told(start_broker: StartBroker) -> None:
    broker = start_broker(config='[mailboxes]\nsecond_client = "take_over"\n')

    async def work() -> None:
        async with await tamis.client.connect(url(broker), identity="ann") as first:
            reading = asyncio.ensure_future(anext(first.mailbox().messages()))
            await asyncio.sleep(0.2)
            async with await tamis.client.connect(url(broker), identity="ann"):
                with pytest.raises(IdentityTakenError, match="has taken over the identity 'ann'"):
                    await reading

    run(work)


def test_a_second_client_of_an_identity_is_refused(broker: RunningBroker) -> None:
    async def work() -> None:
        async with await tamis.client.connect(url(broker), identity="c6"):
            with pytest.raises(IdentityTakenError, match="identity 'c6' in vhost '/' is in use"):
                await tamis.client.connect(url(broker), identity="c6")
        async with await tamis.client.connect(url(broker)) as nobody:
            with pytest.raises(ValueError, match="has no mailbox"):
                nobody.mailbox()

    run(work)


def test_scripts_do_the_same_without_asyncio(broker: RunningBroker) -> None:
    with blocking.connect(url(broker), identity="c7.ann") as client:
        client.mailbox("c7.ann").send(b"to myself")
        message = next(client.mailbox().messages())
        assert (message.body, message.sender) == (b"to myself", "c7.ann")
        client.stream("c7").publish([b"one", b"", b"body"], {"n": 1})
        message = next(client.stream("c7").subscribe(start="first", credit=None))
        assert (message.number, message.parts, message.headers["n"]) == (1, [b"one", b"", b"body"], 1)
        with pytest.raises(ReplyTimeoutError):
            client.service("c7").request(b"anybody?", timeout_s=0.2)
        with pytest.raises(SendTimeoutError):
            client.mailbox("c7.ann").send(b"", timeout_s=0)


def test_scripts_work_for_services_without_asyncio(broker: RunningBroker) -> None:
    with blocking.connect(url(broker), identity="c9.ann") as client, blocking.connect(url(broker)) as worker:
        client.service("c9").send([b"a", b"b"], {"n": 1}, correlation_id="7", expires_s=60, timeout_s=20)
        requests = worker.service("c9").offer()
        request = next(requests)
        assert (request.sender, request.parts, request.headers["n"]) == ("c9.ann", [b"a", b"b"], 1)
        worker.reject(request, requeue=True)
        request = next(requests)
        assert request.is_redelivered
        worker.reply(request, [b"1", b"2"], {"more": "headers"}, more=True)
        worker.reply(request, b"last")
        worker.ack(request)
        letters = client.mailbox().messages()
        first, last = next(letters), next(letters)
        assert (first.parts, first.headers["more"], first.has_more) == ([b"1", b"2"], "headers", True)
        assert (last.body, last.correlation_id, last.has_more) == (b"last", "7", False)
        serving = threading.Thread(target=lambda: worker.reply(next(requests), [b"one", b"two"]))
        serving.start()
        replies = client.service("c9").replies([b"count", b"down"], timeout_s=20)
        assert [reply.parts for reply in replies] == [[b"one", b"two"]]
        serving.join()
