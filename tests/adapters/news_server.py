"""Serves newsgroups over NNTP in a thread, as RFC 3977 says, for tests of the adapter."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

USER, PASSWORD = "jane", "garlic"


class NewsServer:
    """Groups whose articles the test decides.

    Attributes:
        groups: name -> number -> article.
        lists: whether it knows LISTGROUP.
        locked: whether a reader must log in.
        asked: the commands that it got.
        context: for STARTTLS, if it knows that.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[int, bytes]] = {"alt.test": {}}
        self.low: dict[str, int] = {}
        self.lists, self.locked = True, False
        self.asked: list[str] = []
        self.hangs_up_after: int | None = None
        self.context: ssl.SSLContext | None = None
        self.port = 0

    def post(self, *articles: bytes, group: str = "alt.test") -> None:
        found = self.groups.setdefault(group, {})
        for article in articles:
            found[max(found, default=self.low.get(group, 1) - 1) + 1] = article

    def expire(self, number: int, group: str = "alt.test") -> None:
        """Remove the articles up to a number."""
        self.groups[group] = {n: article for n, article in self.groups[group].items() if n > number}
        self.low[group] = number + 1

    def marks(self, group: str) -> tuple[int, int, int]:
        numbers = self.groups[group]
        low = min(numbers, default=self.low.get(group, 1))
        return len(numbers), low, max(numbers, default=low - 1)


@contextmanager
def news_server() -> Iterator[NewsServer]:
    news = NewsServer()

    class Session(socketserver.StreamRequestHandler):
        group = ""
        is_open = True
        login = ""

        def handle(self) -> None:
            self.say("200 ready")
            while self.is_open and (line := self.rfile.readline()):
                command = line.decode().rstrip("\r\n")
                news.asked.append(command)
                if news.hangs_up_after is not None and len(news.asked) > news.hangs_up_after:
                    return
                name, *words = command.split()
                if news.locked and self.login != "yes" and name not in ("AUTHINFO", "QUIT", "STARTTLS"):
                    self.say("480 authentication required")
                    continue
                getattr(self, f"do_{name.lower()}", self.unknown)(*words)

        def finish(self) -> None:
            super().finish()
            self.connection.close()

        def unknown(self, *words: str) -> None:
            self.say("500 unknown command")

        def do_starttls(self) -> None:
            if news.context is None:
                self.unknown()
                return
            self.say("382 go on")
            with suppress(OSError):
                self.connection = news.context.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)

        def do_mode(self, *words: str) -> None:
            self.say("201 reader")

        def do_quit(self) -> None:
            self.is_open = False
            self.say("205 bye")

        def do_authinfo(self, kind: str, value: str) -> None:
            if kind == "USER":
                self.login = value
                self.say("381 password")
            elif (self.login, value) == (USER, PASSWORD):
                self.login = "yes"
                self.say("281 welcome")
            else:
                self.say("481 wrong name or password")

        def do_group(self, name: str) -> None:
            if name not in news.groups:
                self.say("411 no such newsgroup")
                return
            self.group = name
            self.say("211 {} {} {} {}".format(*news.marks(name), name))

        def do_listgroup(self, name: str, span: str) -> None:
            if not news.lists:
                self.say("500 unknown command")
                return
            self.group = name
            first, last = map(int, span.split("-"))
            self.say("211 {} {} {} {} list".format(*news.marks(name), name))
            for number in sorted(news.groups[name]):
                if first <= number <= last:
                    self.say(str(number))
            self.say(".")

        def do_article(self, number: str) -> None:
            article = news.groups[self.group].get(int(number))
            if article is None:
                self.say("423 no article with that number")
                return
            found = [line for line in article.split(b"\r\n") if line.lower().startswith(b"message-id: ")]
            self.say(f"220 {number} {found[0].split()[1].decode() if found else '<0>'}")
            for line in article.split(b"\r\n"):
                self.wfile.write((b"." if line.startswith(b".") else b"") + line + b"\r\n")
            self.say(".")

        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Session) as server:
        news.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield news
        finally:
            server.shutdown()
            thread.join()
