"""Ends the e-mails of a query with one click, and lets people confirm their addresses.

A link names an address and a query, and is signed, so that nobody can make one for others. A mail program posts to it
when its user asks for that; a person who opens it in a browser gets a page with a button, because a program that only
follows links must change
nothing.

Source: RFC 8058 (one-click unsubscribe), RFC 2369 (List-Unsubscribe)."""

from __future__ import annotations

import asyncio
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tamis.errors import StoreError
from tamis.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse

_SIGNATURE_BYTES = 16
_BODY_BYTES_MAX = 10_000
_READ_S_MAX = 30.0
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
_FORM = """<p>{what}</p>
<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click">
<button>{name}</button></form>"""


class Asked(NamedTuple):
    """The purpose of a link: to end the e-mails of a query (or of all) to an address, or to confirm the address."""

    kind: Literal["unsubscribe", "confirm"]
    address: str
    query_key: str = ""


class Links:
    """Makes the links and reads them.

    Args:
        url: what they begin with, without a slash at its end.
        secret: signs them.
    """

    def __init__(self, url: str, secret: bytes) -> None:
        self._url, self._secret = url, secret

    def link(self, address: str, query_key: str) -> str:
        """Return the link that ends the e-mails of a query to an address; with an empty key, of all queries."""
        return self._link(Asked("unsubscribe", address.lower(), query_key))

    def confirmation(self, address: str) -> str:
        """Return the link with which the holder of an address confirms it."""
        return self._link(Asked("confirm", address.lower()))

    def read(self, token: str) -> Asked | None:
        """Return what the last part of a link asks for; None if it is not one of ours."""
        named, _, signature = token.partition(".")
        try:
            content, given = _bytes(named), _bytes(signature)
        except ValueError:
            return None
        return Asked(*json.loads(content)) if hmac.compare_digest(self._signature(content), given) else None

    def _link(self, asked: Asked) -> str:
        content = json.dumps(asked, ensure_ascii=False, separators=(",", ":")).encode()
        return f"{self._url}/{_text(content)}.{_text(self._signature(content))}"

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, content, "sha256")[:_SIGNATURE_BYTES]


def application(links: Links, store: Store) -> Any:
    """Return an ASGI application that answers the links, below any path."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.routing import Route

    async def ask(request: Request) -> HTMLResponse:
        asked = links.read(request.path_params["token"])
        if asked is None:
            return _unknown()
        if asked.kind == "confirm":
            return _page("Confirm?", _button("Confirm", f"{asked.address} is yours, and may get e-mails from here."))
        return _page("Unsubscribe?", _button("Unsubscribe", f"{asked.address} gets {_what(asked.query_key)}."))

    async def do(request: Request) -> HTMLResponse:
        asked = links.read(request.path_params["token"])
        if asked is None:
            return _unknown()
        if not await _is_one_click(request):
            return _page("Not understood", "<p>Expected the form List-Unsubscribe=One-Click.</p>", 400)
        try:
            if asked.kind == "confirm":
                await run_in_threadpool(store.confirm_address, asked.address)
                return _page("Confirmed", f"<p>{escape(asked.address)} may get e-mails.</p>")
            await run_in_threadpool(store.unsubscribe, asked.address, asked.query_key)
        except StoreError:
            return _page("Not now", "<p>This could not be stored. Please try again later.</p>", 503)
        return _page("Unsubscribed", f"<p>{escape(f'{asked.address} no longer gets {_what(asked.query_key)}.')}</p>")

    paths = ("/{token}", "/{before:path}/{token}")
    routes = [Route(path, answer, methods=[how]) for path in paths for how, answer in (("GET", ask), ("POST", do))]
    answering = Starlette(routes=routes)
    answering.router.redirect_slashes = False
    return answering


def _button(name: str, what: str) -> str:
    """Return a form like that of mail programs; the signed link alone says what it does."""
    return _FORM.format(what=escape(what), name=name)


async def _is_one_click(request: Request) -> bool:
    """Return whether the body is the form of RFC 8058, in either of the two ways in which forms are written."""
    content = bytearray()
    try:
        async with asyncio.timeout(_READ_S_MAX):
            async for chunk in request.stream():
                content += chunk
                if len(content) > _BODY_BYTES_MAX:
                    return False
    except TimeoutError:
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
