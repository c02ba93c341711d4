"""Fetches one document over HTTP: only if it has changed, and within bounds of time and size.

A body is decompressed only as far as the bound, so that a small answer cannot fill the memory.

Source: RFC 9110, sections 8.8 (validators), 10.2.3 (Retry-After), 13.1 (conditional requests), 15.4 (redirection)."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from tamis.adapters.sources.live.source import WAIT_S_MAX, LookError
from tamis.errors import AdapterError
from tamis.loopback import is_loopback
from tamis.retry_after import retry_after_s

if TYPE_CHECKING:
    from httpx2 import Response

_REDIRECTS_MAX: Final = 10
_AGENT: Final = "tamis (feed reader)"


class Validators(NamedTuple):
    """The validators of a document from an earlier answer.

    Attributes:
        url: where it is.
        etag: the header of that name, or None.
        modified: the header Last-Modified, or None.
    """

    url: str
    etag: str | None = None
    modified: str | None = None


class Bounds(NamedTuple):
    """The bounds of a request.

    Attributes:
        seconds: the time limit for the whole request.
        size_bytes: the maximum size of the body, decompressed.
    """

    seconds: float
    size_bytes: int


def check_url(url: str, *, with_secret: bool) -> None:
    """Check that something can be fetched from an address.

    Raises:
        AdapterError: it is not an address, or a secret would be sent without TLS.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AdapterError(f"url: expected an address that begins with https:// or http://, not '{url}'")
    if parts.username or parts.password:
        raise AdapterError("url: expected an address without a password; use user and password_env or password_file")
    if with_secret and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise AdapterError(f"url: a secret for {parts.hostname} needs https")


def fetch(known: Validators, bounds: Bounds, authorization: str | None = None) -> tuple[Validators, bytes | None]:
    """Fetch a document; what is known of it now, and its bytes, or None if it has not changed.

    The address changes if the server says that the document has moved for good.

    Raises:
        LookError: there is no answer in time, it is too large, or it is an error; the text says which.
        AdapterError: the package for HTTP is not installed.
    """
    try:
        import httpx2
    except ImportError as error:
        raise AdapterError("expected the package httpx2; pip install 'tamis[adapters]'") from error

    headers = {"User-Agent": _AGENT, "Accept-Encoding": "gzip"}
    wanted = (("If-None-Match", known.etag), ("If-Modified-Since", known.modified), ("Authorization", authorization))
    headers |= {name: value for name, value in wanted if value}
    until = time.monotonic() + bounds.seconds
    try:
        with (
            httpx2.Client(timeout=bounds.seconds, follow_redirects=True, max_redirects=_REDIRECTS_MAX) as client,
            client.stream("GET", known.url, headers=headers) as response,
        ):
            now_at = _moved(known.url, response)
            if response.status_code == 304:
                return known._replace(url=now_at), None
            _refuse_error(known.url, response)
            content = _body(known.url, response, bounds.size_bytes, until)
            etag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
            return Validators(now_at, etag, modified), content
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        what = "no answer in time" if isinstance(error, httpx2.TimeoutException) else str(error) or type(error).__name__
        raise LookError(f"{known.url}: {what}") from error


def _moved(url: str, response: Response) -> str:
    """Return the address after redirections that are for good, up to the first that is not."""
    for step in response.history:
        if step.status_code not in (301, 308):
            break
        url = urljoin(str(step.url), step.headers["Location"])
    return url


def _refuse_error(url: str, response: Response) -> None:
    if response.status_code == 200:
        return
    wait_s = min(WAIT_S_MAX, retry_after_s(response.headers.get("Retry-After")))
    if response.status_code == 410:
        raise LookError(f"{url}: the server says that it is gone for good (410); remove it from the adapter", 86_400)
    raise LookError(f"{url}: the server answered {response.status_code} {response.reason_phrase}".rstrip(), wait_s)


def _body(url: str, response: Response, size_bytes: int, until: float) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise LookError(f"{url}: expected a body in gzip or without an encoding, not '{encoding}'")
    unpack = None if encoding in ("identity", "") else zlib.decompressobj(zlib.MAX_WBITS | 16)
    content = bytearray()
    for chunk in _in_time(url, response.iter_raw(), until):
        try:
            content += chunk if unpack is None else unpack.decompress(chunk, size_bytes + 1 - len(content))
        except zlib.error as error:
            raise LookError(f"{url}: the body is not gzip: {error}") from error
        if len(content) > size_bytes:
            raise LookError(f"{url}: the body has more than {size_bytes:,} bytes; raise size_bytes_max to read it")
    if unpack is not None and not unpack.eof:
        raise LookError(f"{url}: the body ends in the middle")
    return bytes(content)


def _in_time(url: str, chunks: Iterator[bytes], until: float) -> Iterator[bytes]:
    for chunk in chunks:
        if time.monotonic() > until:
            raise LookError(f"{url}: no complete answer in time")
        yield chunk
