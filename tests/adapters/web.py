"""A real HTTP server for tests, whose answers the test decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - a default that nobody changes


class Web:
    """Answers each path with a function of the request's headers, and keeps what was asked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.pages: dict[str, Callable[[dict[str, str]], Answer]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def page(self, path: str, answer: Answer | Callable[[dict[str, str]], Answer]) -> str:
        self.pages[path] = answer if callable(answer) else lambda _headers: answer
        return self.address + path

    def validated(self, path: str, body: bytes, etag: str) -> str:
        """A page that answers 304 to who knows it."""

        def answer(headers: dict[str, str]) -> Answer:
            if headers.get("if-none-match") == etag:
                return Answer(304, headers={"ETag": etag})
            return Answer(200, body, {"ETag": etag})

        return self.page(path, answer)


@contextmanager
def web_server() -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            web.asked.append((self.path, headers))
            answer = web.pages.get(self.path, lambda _headers: Answer(404))(headers)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        web = Web(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web
        finally:
            server.shutdown()
            thread.join()
