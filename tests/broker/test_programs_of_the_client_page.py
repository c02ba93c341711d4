"""The programs of docs/client.md and docs/broker.md that use pika, aio-pika or the client do what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("aio_pika", reason="the client is not installed: pip install 'tamis[client]'")

from tamis.client import blocking
from tests.broker.conftest import RunningBroker, StartBroker
from tests.fenced import blocks

DOCS = Path(__file__).resolve().parents[2] / "docs"
LIMIT_S = 60


def programs(page: str, *words: str) -> list[str]:
    """Return the Python blocks of a page that have all these words."""
    found = [block.text for block in blocks(DOCS / page) if block.language == "python"]
    return [text for text in found if all(word in text for word in words)]


def promised(program: str) -> list[str]:
    """Return the lines that the comments at a program's end say it prints."""
    found = re.search(r"((?:^# .*\n)+)\Z", program, re.MULTILINE)
    return [line.removeprefix("# ") for line in found[1].splitlines()] if found else []


def at(broker: RunningBroker, program: str) -> str:
    """Return a program with this broker's port instead of the usual one."""
    program = program.replace("@127.0.0.1/", f"@127.0.0.1:{broker.port}/")
    program = program.replace(".connect(identity", f'.connect("amqp://guest:guest@127.0.0.1:{broker.port}/", identity')
    return program.replace("ConnectionParameters(", f'ConnectionParameters("127.0.0.1", {broker.port}, ')


def start(broker: RunningBroker, program: str, folder: Path) -> subprocess.Popen[str]:
    path = folder / "program.py"
    path.write_text(at(broker, program), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-u", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def output(process: subprocess.Popen[str]) -> list[str]:
    try:
        printed, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, printed
    return printed.splitlines()


def first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line that a program prints that goes on for ever, and end it."""
    assert process.stdout is not None
    try:
        return process.stdout.readline().rstrip()
    finally:
        process.kill()
        process.communicate()


def test_streams_with_pika_and_everything_with_aio_pika_print_what_the_page_says(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker()
    (with_pika,) = programs("client.md", "import pika", "x-stream-reader")
    (with_aio_pika,) = programs("client.md", "import aio_pika")
    for program in (with_pika, with_aio_pika):
        assert len(promised(program)) >= 2
        assert output(start(broker, program, tmp_path)) == promised(program)


@pytest.mark.parametrize("words", [("tamis.client", "asyncio.run", 'identity="ann"'), ("tamis.client.blocking",)])
def test_the_first_programs_of_the_client_answer_a_letter(
    start_broker: StartBroker, tmp_path: Path, words: tuple[str, ...]
) -> None:
    broker = start_broker()
    program = programs("client.md", *words)[0]
    owner = "ann" if "asyncio" in program else "bob"
    with blocking.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/", identity="zoe") as zoe:
        zoe.mailbox(owner).send(b"are you there?")
        process = start(broker, program, tmp_path)
        reply = next(zoe.mailbox().messages())
        assert (reply.sender, reply.body) == (owner, b"thanks")
        assert first_line(process) == "zoe b'are you there?'"


def test_the_mailbox_and_the_service_of_the_brokers_page_answer(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    (mailbox,) = programs("broker.md", "import pika", "amq.mailbox.ann")
    (worker,) = programs("broker.md", "amq.service.resize")
    connect = "".join(mailbox.splitlines(keepends=True)[:4])
    assert "channel()" in connect
    with blocking.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/", identity="zoe") as zoe:
        zoe.mailbox("ann").send(b"are you there?")
        process = start(broker, mailbox, tmp_path)
        assert next(zoe.mailbox().messages()).body == b"thanks"
        assert first_line(process) == "zoe b'are you there?'"
        process = start(broker, connect + worker, tmp_path)
        try:
            assert zoe.service("resize").request(b"a picture", timeout_s=LIMIT_S).body == b"a small picture"
        finally:
            process.kill()
            process.communicate()
