"""What is answered under which path. No socket and no clock: the server is uvicorn, the broker is behind a link."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tamis.web import metrics
from tamis.web.broker_link import BrokerBusyError, BrokerGoneError, RefusedError
from tamis.web.gate import RefusedEntryError

ROLE = "monitoring"
"""Who has it, or is an administrator, may look at everything."""
LIMIT_DEFAULT, LIMIT_MAX = 100, 500
"""Rows of an answer. One takes the broker 15 us, during which no message goes."""
OFFSET_MAX = 2**53
LISTS = ("queues", "exchanges", "bindings", "connections")
OK_STATES = ("ok",)


class Link(Protocol):
    """Asks the broker, as `BrokerLink`."""

    async def overview(self) -> dict[str, Any]:
        """What there is, in numbers."""

    async def ask(self, op: str, **parameters: Any) -> Any:
        """One question."""


class Doorkeeper(Protocol):
    """Lets users in, as `Gate`."""

    async def enter(self, authorization: str | None, address: str, role: str) -> str:
        """The user's name."""


def application(link: Link, gate: Doorkeeper) -> Starlette:
    """The whole of what is served."""
    faces = _Faces(link, gate)
    routes = [
        Route("/health", faces.health),
        Route("/metrics", faces.guarded(faces.metrics)),
        Route("/api/overview", faces.guarded(faces.overview)),
        *[Route(f"/api/{name}", faces.guarded(faces.rows(name))) for name in LISTS],
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Headers)],
        exception_handlers={
            HTTPException: _http_error,
            RefusedEntryError: _refused_entry,
            BrokerGoneError: _broker_gone,
            BrokerBusyError: _broker_busy,
            RefusedError: _refused,
        },
    )


Handler = Callable[[Request], Awaitable[Response]]


class _Faces:
    def __init__(self, link: Link, gate: Doorkeeper) -> None:
        self._link = link
        self._gate = gate

    def guarded(self, handler: Handler) -> Handler:
        """`handler` for users with the role alone."""

        async def answer(request: Request) -> Response:
            address = request.client.host if request.client else ""
            await self._gate.enter(request.headers.get("authorization"), address, ROLE)
            return await handler(request)

        return answer

    async def health(self, _: Request) -> Response:
        """Whether the broker takes messages: 200, or 503 and why. Nobody has to log in, so it says no more."""
        try:
            found = (await self._link.overview()).get("health", {})
        except (BrokerGoneError, BrokerBusyError, RefusedError):
            found = {"status": "unreachable"}
        return JsonResponse(found, 200 if found.get("status") in OK_STATES else 503)

    async def metrics(self, _: Request) -> Response:
        """All numbers, for Prometheus; also when the broker is gone, for that is one of them."""
        try:
            overview = await self._link.overview()
        except BrokerGoneError:
            overview = None
        return Response(metrics.render(overview), media_type=metrics.CONTENT_TYPE)

    async def overview(self, _: Request) -> Response:
        """The same as JSON, and where the broker listens."""
        return JsonResponse(await self._link.overview())

    def rows(self, name: str) -> Handler:
        """The answers for one list, page by page."""

        async def answer(request: Request) -> Response:
            offset = _number(request, "offset", 0, OFFSET_MAX)
            limit = _number(request, "limit", LIMIT_DEFAULT, LIMIT_MAX)
            found = await self._link.ask(name, offset=offset, limit=limit)
            rows = found["rows"][:limit]
            if name == "bindings":
                rows = [with_query(row) for row in rows]
            elif name == "connections":
                now_us = (await self._link.overview())["about"].get("now_us")
                rows = [_with_age(row, now_us) for row in rows]
            following = offset + len(rows)
            has_more = bool(rows) and following < found["total_count"]
            link = f"{request.url.path}?{urlencode({'offset': following, 'limit': limit})}" if has_more else None
            return JsonResponse(
                {"rows": rows, "total_count": found["total_count"], "offset": offset, "limit": limit, "next": link}
            )

        return answer


def with_query(binding: Mapping[str, Any]) -> dict[str, Any]:
    """A binding with its query as people read it: the text, its language, or the key of the store that has it."""
    arguments = binding.get("arguments") or {}
    text, key = arguments.get("x-query"), arguments.get("x-query-key")
    has_query = text is not None or key is not None
    language = arguments.get("x-query-language", "selector") if text is not None else None
    body = arguments.get("x-query-body", "none") if has_query else None
    return {**binding, "query": text, "query_language": language, "query_body": body, "query_key": key}


def _with_age(connection: Mapping[str, Any], now_us: int | None) -> dict[str, Any]:
    """A connection with how long it has been open, instead of an instant on the broker's own clock."""
    shown = dict(connection)
    since_us = shown.pop("since_us", None)
    if since_us is not None and now_us is not None:
        shown["open_s"] = max(0, now_us - since_us) / 1e6
    return shown


def _number(request: Request, name: str, default: int, most: int) -> int:
    """A whole number of the query string; the largest page is given to whoever asks for a larger one."""
    text = request.query_params.get(name)
    if text is None:
        return default
    least = 1 if name == "limit" else 0
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) >= least):
        raise HTTPException(400, f"{name}: expected a whole number from {least}, not '{text[:40]}'")
    return min(int(text), most)


# ---- form ----


class JsonResponse(Response):
    """JSON that is harmless wherever it is put: names come from clients, and some of them try."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """`content` in UTF-8, without the characters that HTML takes for its own."""
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        for character in "<>&\u2028\u2029":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text.encode("utf-8", "backslashreplace")


class _Headers:
    """Every answer says that it is nobody's to keep, to frame or to guess the type of."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"cache-control", b"no-store"),
                    (b"x-content-type-options", b"nosniff"),
                    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
                    (b"referrer-policy", b"no-referrer"),
                ]
            await send(message)

        await self._app(scope, receive, send_with if scope["type"] == "http" else send)


# ---- what goes wrong ----


def _error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    return JsonResponse({"error": reason}, status, headers=headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for nothing else
    reason = error.detail
    if error.status_code == 404:
        paths = ", ".join(["/health", "/metrics", "/api/overview", *(f"/api/{name}" for name in LISTS)])
        reason = f"nothing is here; there are {paths}"
    return _error(error.status_code, reason, error.headers)


async def _refused_entry(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedEntryError)  # noqa: S101
    headers = {"www-authenticate": 'Basic realm="tamis", charset="UTF-8"'} if error.status == 401 else None
    return _error(error.status, error.reason, headers)


async def _broker_gone(_: Request, __: Exception) -> Response:
    return _error(503, "the broker does not answer")


async def _broker_busy(_: Request, __: Exception) -> Response:
    return _error(503, "too many questions wait for the broker: try again", {"retry-after": "1"})


async def _refused(_: Request, error: Exception) -> Response:
    return _error(502, f"the broker refused: {error}")
