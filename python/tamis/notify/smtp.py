"""The channel ``smtp``: hands one e-mail per notification to a mail server.

SMTP does not say whether a server that hung up after the text has accepted the message; it is then sent again with the
same Message-ID. Only one message at a time is under way, so a crash sends at most one twice.

Source: RFC 5321, section 4.5.4 (retrying), RFC 3207 (STARTTLS)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from email.utils import parseaddr

import aiosmtplib

from tamis.config.deliveries import SmtpDelivery
from tamis.notify.channel import ChannelError, Sent
from tamis.notify.mail import render_mail
from tamis.store import DueDelivery

_SERVICE_NOT_AVAILABLE = 421  # said of the server, not of a message


class SmtpChannel:
    """Sends through one connection from `open` to `close`, and connects again if the server hung up.

    Raises:
        ConfigError: the variable with the password is not set, or `ca_file` cannot be read.
    """

    batch_count = 1

    def __init__(self, config: SmtpDelivery) -> None:
        """Make the channel; nothing is connected yet."""
        self._config = config
        self._sender = parseaddr(config.sender)[1] or config.sender
        self._recipients = [parseaddr(recipient)[1] or recipient for recipient in config.recipients]
        self._password = config.password()
        self._tls = config.tls_context()
        self._runner: asyncio.Runner | None = None
        self._client: aiosmtplib.SMTP | None = None

    def open(self) -> None:
        """Connect and log in.

        Raises:
            ChannelError: there is no server, it does not offer the TLS that was asked for, or it refuses the login.
        """
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._connect())
        except ChannelError:
            self.close()
            raise

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Send one e-mail for each.

        Raises:
            ChannelError: the server cannot be reached, or is closing.
        """
        assert self._runner is not None, "open comes first"  # noqa: S101 - for the type checker
        failures: dict[int, str] = {}
        notes: dict[int, str] = {}
        for delivery in due:
            self._runner.run(self._send(delivery, failures, notes))
        return Sent(failures, notes)

    def close(self) -> None:
        """Say goodbye to the server if it still listens."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.run(self._disconnect())
            runner.close()

    async def _connect(self) -> aiosmtplib.SMTP:
        if self._client is not None and self._client.is_connected:
            return self._client
        config = self._config
        client = aiosmtplib.SMTP(
            hostname=config.host,
            port=config.port,
            use_tls=config.tls == "tls",
            start_tls=False,  # asked for below, where it is refused when the server offers none
            tls_context=self._tls,
            timeout=config.timeout_s,
        )
        try:
            await client.connect()
            if config.tls == "starttls":
                await client.starttls()
            if config.user is not None and self._password is not None:
                await client.login(config.user, self._password)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            await _hang_up(client)
            raise ChannelError(f"{config.host}:{config.port}: no mail can be sent: {_one_line(error)}") from error
        self._client = client
        return client

    async def _send(self, delivery: DueDelivery, failures: dict[int, str], notes: dict[int, str]) -> None:
        config, number = self._config, delivery.delivery_id
        try:
            content = render_mail(delivery.notification, config.sender, config.recipients, config.domain)
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            failures[number] = f"cannot be rendered as an e-mail: {error}"
            return
        client = await self._connect()
        try:
            refused, _ = await client.sendmail(self._sender, self._recipients, content)
        except aiosmtplib.SMTPResponseException as error:
            if error.code == _SERVICE_NOT_AVAILABLE:
                await self._disconnect()
                raise ChannelError(f"{config.host}:{config.port}: {_one_line(error)}") from error
            failures[number] = _one_line(error)
        except (aiosmtplib.SMTPException, OSError) as error:
            failures[number] = _one_line(error)
            if not isinstance(error, aiosmtplib.SMTPRecipientsRefused):  # hung up, or too slow to be trusted
                await self._disconnect()
        else:
            if refused:
                notes[number] = "; ".join(
                    f"refused for {who}: {reply.code} {reply.message}" for who, reply in refused.items()
                )

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await _hang_up(client)


async def _hang_up(client: aiosmtplib.SMTP) -> None:
    """Say goodbye if the server still listens, and close the connection at once."""
    transport = client.transport
    try:
        if client.is_connected:
            await client.quit(timeout=1)
    except (aiosmtplib.SMTPException, OSError):
        pass  # it has hung up already
    finally:
        client.close()
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()  # TLS would wait for the server's own goodbye, and the loop ends before that
            await asyncio.sleep(0)


def _one_line(error: Exception) -> str:
    """The server's answer, or what happened to the connection, on one line."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        return "; ".join(f"{one.recipient}: {one.code} {_flat(one.message)}" for one in error.recipients)
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {_flat(error.message)}"
    return _flat(str(error)) or type(error).__name__


def _flat(text: str) -> str:
    return " ".join(text.split())[:300]
