"""Takes messages that others push over HTTP: each is on disk before its sender has the answer.

``POST /`` takes one JSON object, or one per line as ``application/x-ndjson``. The answer 202 says how many were taken,
and how many were known already. A sender that got no answer repeats the request with the same Idempotency-Key.

Source: RFC 9110; draft-ietf-httpapi-idempotency-key-header-07."""

from __future__ import annotations

import asyncio
import hmac
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tamis.adapters.http_thread import HttpThread
from tamis.adapters.json_row import JsonRowOptions, LineError, own_identity, read_object
from tamis.adapters.options import option
from tamis.adapters.rows import digest_of
from tamis.adapters.sources.live.source import LiveOptions, LiveSource, LookError, secret
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.errors import AdapterError
from tamis.loopback import is_loopback

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import JSONResponse

MESSAGES_MAX: Final = 10_000
"""Maximum number of messages in a request."""
READ_S_MAX: Final = 30.0
KEY_CHARACTERS_MAX: Final = 255
_RETRY_S: Final = "5"


@dataclass(frozen=True, kw_only=True)
class HttpOptions(LiveOptions, JsonRowOptions):
    """The options of an endpoint.

    Attributes:
        listen: the address and port, as in ``127.0.0.1:8400``.
        token_env: the environment variable with the token that senders must give.
        token_file: a file with the token.
        cert_file: the certificate for TLS, in PEM.
        key_file: its key.
        size_bytes_max: maximum size of a request.
    """

    listen: str = option("", required="an address and a port, as in 127.0.0.1:8400")
    token_env: str | None = option(None)
    token_file: str | None = option(None, is_path=True)
    cert_file: str | None = option(None, is_path=True)
    key_file: str | None = option(None, is_path=True)
    size_bytes_max: int = option(1 << 20, minimum=1_000, maximum=64 << 20)


class HttpSource(LiveSource):
    """The messages that are pushed to an address."""

    Options = HttpOptions
    options: HttpOptions
    type: ClassVar[str] = "http"
    packages = ("starlette", "uvicorn")
    properties = "json"

    def __init__(self, options: HttpOptions) -> None:
        super().__init__(options)
        self._server: HttpThread | None = None

    def check(self) -> None:
        """Check the options; the address is taken only when the adapter runs.

        Raises:
            AdapterError: one cannot be used.
        """
        super().check()
        host, _ = self._address()
        token = self._token()
        if (self.options.cert_file is None) != (self.options.key_file is None):
            raise AdapterError("expected cert_file and key_file, or neither")
        if not is_loopback(host) and (token is None or self.options.cert_file is None):
            raise AdapterError(
                f"listen: {host} can be reached by others; expected token_env or token_file, and cert_file with "
                "key_file. Or listen on 127.0.0.1, behind a proxy"
            )

    @property
    def port(self) -> int:
        """The port on which it listens; 0 if it does not listen."""
        return self._server.port if self._server is not None else 0

    def is_due(self, spool: Spool) -> bool:
        """Implement `LiveSource.is_due`: while nothing listens."""
        return self._server is None or not self._server.is_alive()

    def look(self, spool: Spool) -> bool:
        """Implement `LiveSource.look`: begin to listen. The messages come by themselves."""
        self.check()
        host, port = self._address()
        tls = {"ssl_certfile": self.options.cert_file, "ssl_keyfile": self.options.key_file}
        try:
            self._server = HttpThread(self._application(spool), host, port, tls)
        except ImportError as error:
            raise AdapterError("expected the packages starlette and uvicorn; pip install 'tamis[adapters]'") from error
        if not self._server.start():
            raise LookError(f"{self.options.listen}: cannot be listened on; another program may use it")
        return False

    def look_for(self, count: int) -> Iterator[Item]:
        """Implement `LiveSource.look_for`: none, because messages come by themselves."""
        self.check()
        return iter(())

    def close(self) -> None:
        """Implement `LiveSource.close`, and listen no more."""
        if self._server is not None:
            self._server.stop()
        self._server = None
        super().close()

    def _application(self, spool: Spool) -> Any:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        token = self._token()

        async def take(request: Request) -> JSONResponse:
            given = request.headers.get("authorization", "")
            if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                return _refusal(401, "expected the header Authorization: Bearer, with the token")
            if spool.is_full():
                return _refusal(503, "too many messages wait to be processed; repeat the request later")
            try:
                async with asyncio.timeout(READ_S_MAX):
                    content = await _read(request, self.options.size_bytes_max)
                items = self._items(content, request)
                count = await run_in_threadpool(_store, spool, items)
            except TimeoutError:
                return _refusal(408, f"expected the whole request within {READ_S_MAX:.0f} s")
            except _RefusedError as error:
                return _refusal(error.status, str(error))
            except AdapterError as error:
                return _refusal(503, str(error))
            return JSONResponse({"taken": count, "known": len(items) - count}, 202)

        return Starlette(routes=[Route("/", take, methods=["POST"])])

    def _items(self, content: bytes, request: Request) -> list[Item]:
        """Return the messages of a request.

        Raises:
            _RefusedError: one of them is not a JSON object, or there are too many; none is taken.
        """
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind not in ("application/json", "application/x-ndjson"):
            raise _RefusedError(415, f"expected application/json or application/x-ndjson, not '{kind}'")
        lines = [line for line in content.split(b"\n") if line.strip()] if kind == "application/x-ndjson" else [content]
        if not 0 < len(lines) <= MESSAGES_MAX:
            raise _RefusedError(400, f"expected 1 to {MESSAGES_MAX:,} messages, not {len(lines):,}")
        named = request.headers.get("idempotency-key", "")
        if len(named) > KEY_CHARACTERS_MAX:
            raise _RefusedError(400, f"expected an Idempotency-Key of at most {KEY_CHARACTERS_MAX} characters")
        topic, place = request.query_params.get("topic"), f"http://{self.options.listen}/"
        return [Item(self._key(line, at, named), place, line, topic) for at, line in enumerate(lines)]

    def _key(self, line: bytes, at: int, named: str) -> str:
        """Return the name of a message: the sender's key and its line, else the member `id_field`, else None."""
        try:
            members = read_object(line)
        except LineError as error:
            raise _RefusedError(400, f"message {at + 1}: {error}") from error
        if named:
            return digest_of(json.dumps(["http", self.options.topic, named, at]).encode())
        return own_identity(members, self.options) or uuid.uuid4().hex

    def _address(self) -> tuple[str, int]:
        host, _, port = self.options.listen.rpartition(":")
        host = host.strip("[]")
        if not host or not (port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise AdapterError(
                f"listen: expected an address and a port, as in 127.0.0.1:8400, not '{self.options.listen}'"
            )
        return host, int(port)

    def _token(self) -> str | None:
        return secret(self.options.token_env, self.options.token_file, "token")


class _RefusedError(Exception):
    """A request that is refused, with the status of its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _store(spool: Spool, items: list[Item]) -> int:
    with spool.transaction():
        return spool.add(items)


async def _read(request: Request, limit_bytes: int) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit_bytes:
            raise _RefusedError(413, f"expected at most {limit_bytes:,} bytes")
    return bytes(content)


def _refusal(status: int, error: str) -> JSONResponse:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": error}, status, {"Retry-After": _RETRY_S} if status == 503 else None)
