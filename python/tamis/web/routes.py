"""The HTTP paths and their answers, without sockets and clocks: uvicorn serves, and a link reaches the broker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tamis.web import metrics
from tamis.web.auth import AuthError
from tamis.web.broker_link import BrokerBusyError, BrokerGoneError, RefusedError
from tamis.web.kinds import KINDS, with_readers

ROLE = "monitoring"
"""The role that is needed, except by administrators."""
LIMIT_DEFAULT, LIMIT_MAX = 100, 500
"""Rows per answer. Each takes the broker 15 us, during which no message is delivered."""
OFFSET_MAX = 2**53
REQUESTS_MAX = 200
"""Maximum number of requests in progress, without those for health and metrics, which are always answered."""
LISTS = ("queues", "exchanges", "bindings", "connections", "consumers")
"""The broker's own lists; `KINDS` are made of them."""
BY_NAME = ("name", "vhost")
FILTERS = {"queues": BY_NAME, "exchanges": BY_NAME, "consumers": ("queue", "vhost"), **dict.fromkeys(KINDS, BY_NAME)}
"""List -> the fields that it may be asked for by their exact text."""


class Link(Protocol):
    """Asks the broker, as `BrokerLink` does."""

    async def overview(self) -> dict[str, Any]:
        """Return the broker's numbers."""

    async def ask(self, op: str, **parameters: Any) -> Any:
        """Return the answer to one question."""


class Auth(Protocol):
    """Authenticates requests, as `Authenticator` does."""

    async def authenticate(self, authorization: str | None, address: str, role: str) -> str:
        """Return the name of the user."""


def application(link: Link, auth: Auth) -> Starlette:
    """Return the ASGI application."""
    handlers = _Handlers(link, auth)
    routes = [
        Route("/health", handlers.health),
        Route("/metrics", handlers.guarded(handlers.metrics)),
        Route("/api/overview", handlers.counted(handlers.overview)),
        *[Route(f"/api/{name}", handlers.counted(handlers.rows(name))) for name in LISTS],
        *[Route(f"/api/{name}", handlers.counted(handlers.kind(name))) for name in KINDS],
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Headers)],
        exception_handlers={
            HTTPException: _http_error,
            AuthError: _auth_error,
            BrokerGoneError: _broker_gone,
            BrokerBusyError: _broker_busy,
            RefusedError: _refused,
        },
    )


Handler = Callable[[Request], Awaitable[Response]]


class _Handlers:
    def __init__(self, link: Link, auth: Auth) -> None:
        self._link = link
        self._auth = auth
        self._requests_count = 0

    def guarded(self, handler: Handler) -> Handler:
        """Restrict `handler` to users with the role."""

        async def answer(request: Request) -> Response:
            address = request.client.host if request.client else ""
            await self._auth.authenticate(request.headers.get("authorization"), address, ROLE)
            return await handler(request)

        return answer

    def counted(self, handler: Handler) -> Handler:
        """Restrict `handler` to users with the role; all counted handlers have `REQUESTS_MAX` requests at a time."""
        guarded = self.guarded(handler)

        async def answer(request: Request) -> Response:
            if self._requests_count >= REQUESTS_MAX:
                return _error(503, "too many requests at once: try again", {"retry-after": "1"})
            self._requests_count += 1
            try:
                return await guarded(request)
            finally:
                self._requests_count -= 1

        return answer

    async def health(self, _: Request) -> Response:
        """Answer with 200 if the broker takes messages, else with 503. This needs no login, so it has no details."""
        try:
            health = (await self._link.overview()).get("health", {})
        except (BrokerGoneError, BrokerBusyError, RefusedError):
            health = {"status": "unreachable"}
        return JsonResponse(health, 200 if health.get("status") == "ok" else 503)

    async def metrics(self, _: Request) -> Response:
        """Answer with all numbers for Prometheus. One of them says whether the broker answers."""
        try:
            overview = await self._link.overview()
        except BrokerGoneError:
            overview = None
        return Response(metrics.render(overview), media_type=metrics.CONTENT_TYPE)

    async def overview(self, _: Request) -> Response:
        """Answer with all numbers as JSON, and the broker's addresses."""
        return JsonResponse(await self._link.overview())

    def rows(self, name: str) -> Handler:
        """Return the handler of one list, which answers page by page."""

        async def answer(request: Request) -> Response:
            page = _page_of(request, name)
            if page.filters:
                rows, total_count = await page.of(self._all(name))
            else:
                given = await self._link.ask(name, offset=page.offset, limit=page.limit)
                rows, total_count = given["rows"][: page.limit], given["total_count"]
            if name == "bindings":
                rows = [with_query(row) for row in rows]
            elif name == "connections":
                now_us = (await self._link.overview())["about"].get("now_us")
                rows = [_with_age(row, now_us) for row in rows]
            return _rows_response(request, page, rows, total_count)

        return answer

    def kind(self, name: str) -> Handler:
        """Return the handler of streams, mailboxes or services, which answers page by page."""
        kind = KINDS[name]

        async def answer(request: Request) -> Response:
            page = _page_of(request, name)
            queues = self._all("queues")
            rows, total_count = await page.of(kind.shown(queue) async for queue in queues if kind.has(queue))
            if name == "streams" and rows:
                rows = with_readers(rows, [consumer async for consumer in self._all("consumers")])
            return _rows_response(request, page, rows, total_count)

        return answer

    async def _all(self, name: str) -> AsyncIterator[dict[str, Any]]:
        """Yield every row of a list, page by page, so that messages are delivered between two of them."""
        offset, total_count = 0, 1
        while offset < total_count:
            page = await self._link.ask(name, offset=offset, limit=LIMIT_MAX)
            for row in page["rows"]:
                yield row
            offset, total_count = offset + max(1, len(page["rows"])), page["total_count"]


def with_query(binding: Mapping[str, Any]) -> dict[str, Any]:
    """Return a binding with its query: text and language, or the key of the query in the store."""
    arguments = binding.get("arguments") or {}
    text, key = arguments.get("x-query"), arguments.get("x-query-key")
    has_query = text is not None or key is not None
    language = arguments.get("x-query-language", "selector") if text is not None else None
    body = arguments.get("x-query-body", "none") if has_query else None
    return {**binding, "query": text, "query_language": language, "query_body": body, "query_key": key}


def _with_age(connection: Mapping[str, Any], now_us: int | None) -> dict[str, Any]:
    """Return a connection with the time that it has been open, instead of an instant of the broker's clock."""
    shown = dict(connection)
    since_us = shown.pop("since_us", None)
    if since_us is not None and now_us is not None:
        shown["open_s"] = max(0, now_us - since_us) / 1e6
    return shown


class _Page(NamedTuple):
    """The part of a list that a request asks for."""

    offset: int
    limit: int
    filters: dict[str, str]

    async def of(self, rows: AsyncIterator[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        """Return the rows of this page, and the number of all that pass the filters."""
        shown: list[dict[str, Any]] = []
        count = 0
        async for row in rows:
            if self.filters.items() <= row.items():
                if self.offset <= count < self.offset + self.limit:
                    shown.append(row)
                count += 1
        return shown, count


def _page_of(request: Request, name: str) -> _Page:
    """Return the page of a list that a request asks for."""
    known = FILTERS.get(name, ())
    _refuse_unknown(request, known)
    offset = _number(request, "offset", 0, OFFSET_MAX)
    limit = _number(request, "limit", LIMIT_DEFAULT, LIMIT_MAX)
    return _Page(offset, limit, {key: value for key, value in request.query_params.items() if key in known})


def _rows_response(request: Request, page: _Page, rows: list[Any], total_count: int) -> Response:
    """Return a page of a list, with the path of the next one."""
    offset, limit, filters = page
    following = offset + len(rows)
    has_more = bool(rows) and following < total_count
    link = f"{request.url.path}?{urlencode({**filters, 'offset': following, 'limit': limit})}" if has_more else None
    return JsonResponse({"rows": rows, "total_count": total_count, "offset": offset, "limit": limit, "next": link})


def _refuse_unknown(request: Request, filters: Collection[str]) -> None:
    """Refuse parameters that a list does not have: without its filter it would answer with everything."""
    known = ("offset", "limit", *filters)
    for name in request.query_params:
        if name not in known:
            raise HTTPException(400, f"unknown parameter '{name[:40]}'; known: {', '.join(known)}")


def _number(request: Request, name: str, default: int, number_max: int) -> int:
    """Return a whole number of the query string, at most `number_max`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    number_min = 1 if name == "limit" else 0
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) >= number_min):
        raise HTTPException(400, f"{name}: expected a whole number from {number_min}, not '{text[:40]}'")
    return min(int(text), number_max)


# ---- responses ----


class JsonResponse(Response):
    """JSON that is harmless inside HTML: clients choose names, and may be hostile."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` in UTF-8, with the special characters of HTML escaped."""
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        for character in "<>&\u2028\u2029":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text.encode("utf-8", "backslashreplace")


class _Headers:
    """Adds headers to every response that forbid caching, framing and guessing its type."""

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


# ---- errors ----


def _error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    return JsonResponse({"error": reason}, status, headers=headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for this type only
    reason = error.detail
    if error.status_code == 404:
        paths = ", ".join(["/health", "/metrics", "/api/overview", *(f"/api/{name}" for name in (*LISTS, *KINDS))])
        reason = f"unknown path; known: {paths}"
    return _error(error.status_code, reason, error.headers)


async def _auth_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, AuthError)  # noqa: S101
    headers = {"www-authenticate": 'Basic realm="tamis", charset="UTF-8"'} if error.status == 401 else None
    return _error(error.status, error.reason, headers)


async def _broker_gone(_: Request, __: Exception) -> Response:
    return _error(503, "the broker does not answer")


async def _broker_busy(_: Request, __: Exception) -> Response:
    return _error(503, "too many questions wait for the broker: try again", {"retry-after": "1"})


async def _refused(_: Request, error: Exception) -> Response:
    return _error(502, f"the broker refused: {error}")
