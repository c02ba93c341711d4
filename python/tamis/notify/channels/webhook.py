"""The channel ``webhook``: posts one signed request per notification to a web address.

The body is the notification as JSON, as a line of ``jsonl`` or of a template. Its id is the same at each try, so that
a receiver can leave out what it has; the signature covers id, time and body. Redirections are not followed: a signed
request goes nowhere else.

Source: the Standard Webhooks specification (headers, signature, meaning of the answers)."""

from __future__ import annotations

import asyncio
import hmac
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace

import httpx2

from tamis.config.deliveries import WebhookDelivery
from tamis.config.owners import OwnerConfig
from tamis.notify.channels.channel import ChannelError, ChannelLostError, ChannelTimeoutError, Sent
from tamis.notify.channels.interruptible import InterruptibleLoop, ServerChannel
from tamis.notify.channels.jsonl import as_json
from tamis.notify.wording import recipient_of, webhook_body
from tamis.retry_after import retry_after_s
from tamis.store import DueDelivery

_ANSWER_BYTES_MAX = 300
_GONE = 410
_BUSY = (429, 503)


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``: a signature for each secret.

    Args:
        secrets: the secrets.
        message_id: the header ``webhook-id``.
        timestamp: the header ``webhook-timestamp``, in seconds since 1970.
        body: the request's body.
    """
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join("v1," + b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets)


class WebhookChannel(ServerChannel):
    """Posts through one client from `open` to `close`.

    Raises:
        ConfigError: a variable with a secret is not set, or holds none; or `ca_file` cannot be read.
    """

    batch_count = 1

    def __init__(self, config: WebhookDelivery, owners: Mapping[str, OwnerConfig] = {}) -> None:
        """Make the channel; nothing is connected yet."""
        self._owners = owners
        self._config, self._secrets, self._tls = config, config.secrets(), config.tls_context()
        self._client: httpx2.AsyncClient | None = None

    def open(self) -> None:
        """Make a client; the first request connects."""
        self._loop = InterruptibleLoop()
        self._client = httpx2.AsyncClient(
            verify=self._tls, timeout=self._config.timeout_s, follow_redirects=False, headers={"User-Agent": "tamis"}
        )

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Post a request for each.

        Raises:
            ChannelLostError: the server hung up, or took longer than `timeout_s`, over one of them.
            ChannelError: the server cannot be reached, or asks to be left alone for a while.
        """
        sent = Sent()
        for delivery in due:
            self._run(self._post(delivery, sent))
        return sent

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _post(self, delivery: DueDelivery, sent: Sent) -> None:
        try:
            body, note = self._body(delivery)
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            sent.failures[delivery.delivery_id] = f"cannot be written as JSON: {error}"
            return
        url, seconds = self._config.url, self._config.timeout_s
        try:
            async with asyncio.timeout(seconds):
                status, said, wait_s = await self._answer(delivery.notification.id, body)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise ChannelTimeoutError(f"{url}: no answer within {seconds:g} s") from error
        except (httpx2.HTTPError, OSError) as error:
            kind = ChannelError if isinstance(error, httpx2.ConnectError) else ChannelLostError
            raise kind(f"{url}: {' '.join(str(error).split()) or type(error).__name__}") from error
        if status in _BUSY:
            raise ChannelError(f"{url}: {said}", wait_s)
        if note is not None:
            sent.notes[delivery.delivery_id] = note
        if not 200 <= status < 300:
            sent.failures[delivery.delivery_id] = said
        if status == _GONE:
            sent.final.add(delivery.delivery_id)

    def _body(self, delivery: DueDelivery) -> tuple[bytes, str | None]:
        recipient = replace(recipient_of(self._owners, delivery.owner, None), templates=self._config.templates)
        return webhook_body(delivery.notification, recipient, as_json(delivery.notification))

    async def _answer(self, message_id: str, body: bytes) -> tuple[int, str, float]:
        """Post one request; return the status, what to tell of it, and how long to wait, in seconds."""
        assert self._client is not None, "open comes first"  # noqa: S101 - for the type checker
        timestamp = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._secrets, message_id, timestamp, body),
        }
        async with self._client.stream("POST", self._config.url, content=body, headers=headers) as response:
            said = f"{response.status_code} {response.reason_phrase}".rstrip()
            if response.is_redirect:
                said += f": redirections are not followed (to {response.headers.get('Location', 'nowhere')})"
            elif not response.is_success:
                said = f"{said}: {await _begin(response)}".removesuffix(": ")
            return response.status_code, said, retry_after_s(response.headers.get("Retry-After"))


async def _begin(response: httpx2.Response) -> str:
    """Return the first characters of an answer, on one line."""
    content = b""
    async for piece in response.aiter_bytes(_ANSWER_BYTES_MAX):
        content += piece
        if len(content) >= _ANSWER_BYTES_MAX:
            break
    return " ".join(content[:_ANSWER_BYTES_MAX].decode(errors="replace").split())
