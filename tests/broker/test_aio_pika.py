"""Programs of aio-pika run unmodified: its patterns, confirms, and robust connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aio_pika
import pytest
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError
from aio_pika.patterns import RPC, Master

from tests.broker.conftest import RunningBroker, StartBroker
from tests.broker.test_pika import name


def run(broker: RunningBroker, work: Callable[[Any], Awaitable[None]]) -> None:
    """Do `work` with a connection, within a minute."""

    async def connected() -> None:
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/")
        async with connection:
            await work(connection)

    asyncio.run(asyncio.wait_for(connected(), 60))


def test_publish_with_confirms_and_consume(broker: RunningBroker) -> None:
    async def work(connection: Any) -> None:
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=10)
        queue = await channel.declare_queue(name(), auto_delete=True)
        for number in range(200):
            message = aio_pika.Message(str(number).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, queue.name)
        found = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    found.append(int(message.body))
                if len(found) == 200:
                    break
        assert found == list(range(200))

    run(broker, work)


def test_many_publishes_at_once_are_all_confirmed(broker: RunningBroker) -> None:
    async def work(connection: Any) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        message = aio_pika.Message(b"x" * 1000)
        await asyncio.gather(*(channel.default_exchange.publish(message, queue.name) for _ in range(500)))
        declared = await channel.declare_queue(queue.name, passive=True)
        assert declared.declaration_result.message_count == 500

    run(broker, work)


def test_a_message_that_nobody_gets_is_an_error_of_its_publisher(broker: RunningBroker) -> None:
    async def work(connection: Any) -> None:
        channel = await connection.channel(on_return_raises=True)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), name(), mandatory=True)

    run(broker, work)


def test_rpc(broker: RunningBroker) -> None:
    async def square(*, number: int) -> int:
        return number**2

    async def work(connection: Any) -> None:
        rpc = await RPC.create(await connection.channel())
        method = name()
        await rpc.register(method, square, auto_delete=True)
        assert [await rpc.call(method, kwargs={"number": number}) for number in range(5)] == [0, 1, 4, 9, 16]
        await rpc.close()

    run(broker, work)


def test_master_and_workers(broker: RunningBroker) -> None:
    async def work(connection: Any) -> None:
        done: list[int] = []
        master = Master(await connection.channel())
        task = name()

        async def worker(*, number: int) -> None:
            done.append(number)

        await master.create_worker(task, worker, auto_delete=True)
        for number in range(20):
            await master.create_task(task, kwargs={"number": number})
        while len(done) < 20:
            await asyncio.sleep(0.01)
        assert sorted(done) == list(range(20))

    run(broker, work)


def test_topics_with_content_filters(broker: RunningBroker) -> None:
    async def work(connection: Any) -> None:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name(), aio_pika.ExchangeType.TOPIC, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "orders.*", arguments={"x-query": "price BETWEEN 10 AND 20"})
        for price in (5, 15, 25):
            message = aio_pika.Message(str(price).encode(), headers={"price": price})
            await exchange.publish(message, "orders.new", mandatory=False)
        message = await queue.get(no_ack=True)
        assert message is not None
        assert message.body == b"15"
        assert await queue.get(fail=False) is None
        with pytest.raises(ChannelPreconditionFailed, match="expected a number"):
            await queue.bind(exchange, "#", arguments={"x-query": "price >> 3"})

    run(broker, work)


def test_an_x_query_exchange_looks_at_content_alone(broker: RunningBroker) -> None:
    async def work(connection: Any) -> None:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name(), "x-query", auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "ignored", arguments={"x-query": "app_id = 'shop' AND type IS NOT NULL"})
        for app in ("shop", "bank"):
            await exchange.publish(aio_pika.Message(app.encode(), app_id=app, type="t"), "any.key", mandatory=False)
        message = await queue.get(no_ack=True)
        assert message is not None
        assert message.body == b"shop"
        assert await queue.get(fail=False) is None

    run(broker, work)


def test_ten_thousand_subscribers_with_selectors(broker: RunningBroker) -> None:
    """Runs the README's story, with the subscribers' queues on a few connections."""

    async def work(connection: Any) -> None:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name(), "x-query", auto_delete=True)
        queues = [await channel.declare_queue(exclusive=True) for _ in range(20)]
        for number in range(10_000):
            arguments = {"x-query": f"symbol = 'S{number}' AND price > {number % 100}"}
            await queues[number % 20].bind(exchange, str(number), arguments=arguments)
        for number in (0, 77, 9_999):
            message = aio_pika.Message(b"tick", headers={"symbol": f"S{number}", "price": 99.5})
            await exchange.publish(message, "")
        counts = [
            (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count for queue in queues
        ]
        assert {index: count for index, count in enumerate(counts) if count} == {0: 1, 17: 1, 19: 1}

    run(broker, work)


def test_a_robust_connection_comes_back_after_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()

    async def work() -> None:
        connection = await aio_pika.connect_robust(f"amqp://127.0.0.1:{broker.port}/", reconnect_interval=0.2)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("robust", auto_delete=True)
            received = asyncio.Event()

            async def on_message(message: Any) -> None:
                await message.ack()
                received.set()

            await queue.consume(on_message)
            broker.kill()
            await asyncio.to_thread(broker.start)
            until = asyncio.get_running_loop().time() + 30
            while not received.is_set() and asyncio.get_running_loop().time() < until:
                try:
                    other = await connection.channel()
                    await other.default_exchange.publish(aio_pika.Message(b"again"), "robust", mandatory=False)
                    await asyncio.wait_for(received.wait(), 1)
                except (TimeoutError, aio_pika.exceptions.AMQPError, ConnectionError, RuntimeError):
                    await asyncio.sleep(0.1)
            assert received.is_set()

    asyncio.run(asyncio.wait_for(work(), 60))
