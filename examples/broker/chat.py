"""Chat by mailboxes: messages wait for whoever is away, and the broker says who wrote them."""

import asyncio
import sys

import tamis.client


async def main(url: str) -> None:
    """Let ann write to bob while he is away, and bob answer while she has not looked."""
    async with await tamis.client.connect(url, identity="ann") as ann:
        await ann.mailbox("bob").send(b"are you there?")  # bob has never been here

        async with await tamis.client.connect(url, identity="bob") as bob:
            for_bob = bob.mailbox().messages()
            question = await anext(for_bob)
            print(f"{question.sender} to bob: {question.body.decode()}")
            await question.reply(b"I am now")
            await question.ack()
            await for_bob.aclose()

        for_ann = ann.mailbox().messages()
        answer = await anext(for_ann)  # bob has gone again
        print(f"{answer.sender} to ann: {answer.body.decode()}")
        await answer.ack()
        await for_ann.aclose()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"))
