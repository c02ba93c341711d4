"""Newsgroups of INN, where it is installed: what a real server says of numbers, expiry and articles."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tamis.adapters.sources.live.nntp import NntpSource
from tests.adapters.live_reader import readers
from tests.adapters.reading import subjects
from tests.free_port import free_port

BIN = Path("/usr/lib/news/bin")
START_S, STOP_S = 30, 20
CONFIG = """
mta: "/bin/true"
domain: example.org
fromhost: news.example.org
pathhost: news.example.org
server: 127.0.0.1
bindaddress: 127.0.0.1
nnrpdloadlimit: 0
runasuser: news
runasgroup: news
hismethod: hisv6
enableoverview: true
ovmethod: tradindexed
pathnews: /usr/lib/news
pathbin: /usr/lib/news/bin
pathetc: {folder}
pathdb: {folder}
pathrun: {folder}
pathlog: {folder}
pathtmp: {folder}
pathspool: {folder}/spool
patharticles: {folder}/spool/articles
pathoverview: {folder}/spool/overview
pathincoming: {folder}/spool/incoming
pathoutgoing: {folder}/spool/outgoing
patharchive: {folder}/spool/archive
"""
FILES = {
    "storage.conf": "method tradspool {\n newsgroups: *\n class: 0\n}\n",
    "readers.conf": 'auth "all" {\n hosts: "*"\n default: "<any>"\n}\naccess "all" {\n newsgroups: "*"\n}\n',
    "incoming.conf": 'peer ME {\n hostname: "127.0.0.1"\n}\n',
    "newsfeeds": "ME:*::\n",
    "control.ctl": "all:*:*:drop\n",
    "expire.ctl": "/remember/:11\n*:A:1:10:never\n",
    "active": "".join(f"{name} 0000000000 0000000001 n\n" for name in ("control", "control.cancel", "junk"))
    + "local.test 0000000000 0000000001 y\n",
    "newsgroups": "",
    "active.times": "",
}


class Inn:
    """A server in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("articles", "overview", "incoming/bad", "outgoing", "archive"):
            (folder / "spool" / name).mkdir(parents=True)
        for name, text in {**FILES, "inn.conf": CONFIG.format(folder=folder)}.items():
            (folder / name).write_text(text)
        for path in [folder, *folder.rglob("*")]:
            shutil.chown(path, "news", "news")
        self._environment = os.environ | {"INNCONF": str(folder / "inn.conf")}
        (folder / "history").touch()
        shutil.chown(folder / "history", "news", "news")
        self.run("makedbz", "-i", "-o")
        self.port = free_port()
        command = [str(BIN / "innd"), "-f", "-P", str(self.port)]
        self.process = subprocess.Popen(command, env=self._environment, cwd=folder, stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        self.stop()
        raise AssertionError("INN does not start")

    def run(self, program: str, *arguments: str) -> None:
        """Run one of its programs."""
        command = [str(BIN / program), *arguments]
        subprocess.run(
            command, env=self._environment, cwd=self._folder, user="news", group="news", check=True, timeout=START_S
        )

    def post(self, *numbers: int) -> None:
        """Offer articles, as another server does."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection, connection.makefile("rwb") as talk:
            assert talk.readline().startswith(b"200")
            for number in numbers:
                for text, code in ((f"IHAVE <{number}@x>\r\n", b"335"), (_article(number) + ".\r\n", b"235")):
                    talk.write(text.encode())
                    talk.flush()
                    assert (line := talk.readline()).startswith(code), line

    def cancel(self, number: int) -> None:
        """Remove an article."""
        self.run("ctlinnd", "cancel", f"<{number}@x>")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait(STOP_S)


def _article(number: int) -> str:
    headers = {
        "Path": "elsewhere!not-for-mail",
        "From": "a@example.org",
        "Newsgroups": "local.test",
        "Subject": f"number {number}",
        "Date": formatdate(),
        "Message-ID": f"<{number}@x>",
    }
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n..Hello\r\n"


@pytest.fixture
def inn() -> Iterator[Inn]:
    if not (BIN / "innd").exists():
        pytest.skip("INN is not installed: apt-get install inn2")
    if os.geteuid() != 0:
        pytest.skip("INN needs to be started by root")
    folder = Path(mkdtemp(prefix="inn", dir="/tmp"))  # where the user news may go
    try:
        inn = Inn(folder)
        try:
            yield inn
        finally:
            inn.stop()
    finally:
        shutil.rmtree(folder)


def test_inn_gives_each_article_once(inn: Inn, tmp_path: Path) -> None:
    inn.post(1, 2)
    with readers(NntpSource, tmp_path) as make:
        reader = make(host="127.0.0.1", port=inn.port, groups="local.test", tls="none")
        rows = reader.next()
        assert subjects(rows) == ["number 1", "number 2"]
        assert rows[0].body == ".Hello\n"
        inn.post(3, 4)
        inn.cancel(3)
        assert subjects(reader.later()) == ["number 4"]
        reader.restart()
        inn.post(5)
        assert subjects(reader.later()) == ["number 5"]
