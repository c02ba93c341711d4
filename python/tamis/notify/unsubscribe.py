"""Ends the e-mails of a query with one click.

A link names an address and a query, and is signed, so that nobody can make one for others. A mail program posts to it
when its user asks for that; who opens it in a browser gets a page with a button, because programs that only look at
links must change nothing.

Source: RFC 8058 (one-click unsubscribe), RFC 2369 (List-Unsubscribe)."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from html import escape
from typing import TYPE_CHECKING, Any

from tamis.errors import StoreError
from tamis.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse

_SIGNATURE_BYTES = 16
_BODY_BYTES_MAX = 10_000
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
}
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<h1>{title}</h1>
{content}
</html>
"""
_BUTTON = """<p>{what}</p>
<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click">
<button>Unsubscribe</button></form>"""


class Links:
    """Makes the links and reads them.

    Args:
        url: what they begin with, without a slash at its end.
        secret: signs them.
    """

    def __init__(self, url: str, secret: bytes) -> None:
        self._url, self._secret = url, secret

    def link(self, address: str, query_key: str) -> str:
        """The link that ends the e-mails of a query to an address; with an empty key, of all queries."""
        named = json.dumps([address.lower(), query_key], ensure_ascii=False, separators=(",", ":")).encode()
        return f"{self._url}/{_text(named)}.{_text(self._signature(named))}"

    def read(self, token: str) -> tuple[str, str] | None:
        """Address and key of the last part of a link; None if it is not one of ours."""
        named, _, signature = token.partition(".")
        try:
            content, given = _bytes(named), _bytes(signature)
        except ValueError:
            return None
        if not hmac.compare_digest(self._signature(content), given):
            return None
        address, query_key = json.loads(content)
        return address, query_key

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, b"unsubscribe\0" + content, "sha256")[:_SIGNATURE_BYTES]


def application(links: Links, store: Store) -> Any:
    """An ASGI application that answers the links, below any path."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.routing import Route

    async def ask(request: Request) -> HTMLResponse:
        named = links.read(request.path_params["token"])
        if named is None:
            return _unknown()
        address, query_key = named
        return _page("Unsubscribe?", _BUTTON.format(what=escape(f"{address} gets {_what(query_key)}.")))

    async def end(request: Request) -> HTMLResponse:
        named = links.read(request.path_params["token"])
        if named is None:
            return _unknown()
        if not await _is_one_click(request):
            return _page("Not understood", "<p>Expected the form List-Unsubscribe=One-Click.</p>", 400)
        address, query_key = named
        try:
            await run_in_threadpool(store.unsubscribe, address, query_key)
        except StoreError:
            return _page("Not now", "<p>This could not be stored. Please try again later.</p>", 503)
        return _page("Unsubscribed", f"<p>{escape(f'{address} no longer gets {_what(query_key)}.')}</p>")

    path = "/{before:path}"
    routes = [Route("/{token}", ask, methods=["GET"]), Route("/{token}", end, methods=["POST"])]
    nested = [Route(f"{path}/{{token}}", ask, methods=["GET"]), Route(f"{path}/{{token}}", end, methods=["POST"])]
    answering = Starlette(routes=[*routes, *nested])
    answering.router.redirect_slashes = False
    return answering


async def _is_one_click(request: Request) -> bool:
    """Whether the body is the form of RFC 8058, in either of the two ways in which forms are written."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_BYTES_MAX:
            return False
    if request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return b'name="List-Unsubscribe"\r\n' in content and b"\r\n\r\nOne-Click\r\n" in content
    return b"List-Unsubscribe=One-Click" in bytes(content).split(b"&")


def _what(query_key: str) -> str:
    return f"e-mails of the query '{query_key}'" if query_key else "e-mails of any query"


def _unknown() -> HTMLResponse:
    return _page("Unknown link", "<p>This link is incomplete, or of another sender.</p>", 404)


def _page(title: str, content: str, status: int = 200) -> HTMLResponse:
    from starlette.responses import HTMLResponse

    return HTMLResponse(_PAGE.format(title=title, content=content), status, _HEADERS)


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode((text + "=" * (-len(text) % 4)).encode("ascii"))
