"""The channel ``smtp``: hands one e-mail per notification to a mail server.

SMTP does not say whether a server that hung up after the text has accepted the message; it is then sent again with the
same Message-ID. Only one message at a time is under way, so a crash sends at most one twice.

Each recipient has an outcome of its own: one that accepted or refused for good (5xx) is settled, one that refused for
now (4xx) is tried again. A server that does not answer in time is in trouble as a whole.

Source: RFC 5321, section 4.5.4 (retrying), RFC 3207 (STARTTLS)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiosmtplib

from tamis.config.deliveries import SmtpDelivery
from tamis.config.fields import address_of
from tamis.notify.channels.channel import ChannelError, ChannelTimeoutError, Sent
from tamis.notify.channels.interruptible import ServerChannel
from tamis.notify.channels.rows import storable
from tamis.notify.mail_writer import Mail, MailWriter
from tamis.store import DueDelivery

_SERVICE_NOT_AVAILABLE = 421  # replies about the server, not about a message
_PERMANENT = 500  # replies from here on are final

Replies = dict[str, aiosmtplib.SMTPResponse]
"""Recipient -> why the server did not accept the message for them."""


class SmtpChannel(ServerChannel):
    """Sends through one connection from `open` to `close`, and connects again if the server hung up.

    Raises:
        ConfigError: the variable with the password is not set, or `ca_file` cannot be read.
    """

    batch_count = 1

    def __init__(self, config: SmtpDelivery, writer: MailWriter | None = None) -> None:
        """Make the channel; nothing is connected yet."""
        self._config, self._writer = config, writer or MailWriter(config, {})
        self._server = f"{config.host}:{config.port}"
        self._sender = address_of(config.sender)
        self._password = config.password()
        self._tls = config.tls_context()
        self._client: aiosmtplib.SMTP | None = None

    def open(self) -> None:
        """Connect and log in.

        Raises:
            ChannelError: there is no server, it does not offer the TLS that was asked for, or it refuses the login.
        """
        self._run_first(self._connect())

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Send one e-mail for each.

        Raises:
            ChannelTimeoutError: the server took longer than `timeout_s` over one of them.
            ChannelError: the server cannot be reached, or is closing.
        """
        sent = Sent({}, {}, {})
        for delivery in due:
            self._run(self._send([delivery], sent))
        return sent

    def deliver_digest(self, due: Sequence[DueDelivery]) -> Sent:
        """Send one e-mail for all of them, as `deliver` does."""
        sent = Sent({}, {}, {})
        self._run(self._send(due, sent))
        return sent

    def send(self, recipient: str, content: bytes) -> None:
        """Send one e-mail that is no notification.

        Raises:
            ChannelError: the server cannot be reached, or does not accept it.
        """
        try:
            self._run(self._send_one(recipient, content))
        except (aiosmtplib.SMTPException, OSError) as error:
            raise ChannelError(f"{self._server}: {_one_line(error)}") from error

    async def _send_one(self, recipient: str, content: bytes) -> None:
        for reply in (await self._hand_over([address_of(recipient)], content)).values():
            raise ChannelError(f"{self._server}: {reply.code} {_flat(reply.message)}")

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
        except asyncio.CancelledError:
            await _hang_up(client)
            raise
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            await _hang_up(client)
            raise ChannelError(f"{self._server}: no mail can be sent: {_one_line(error)}") from error
        self._client = client
        return client

    async def _send(self, group: Sequence[DueDelivery], sent: Sent) -> None:
        """Send one e-mail for all of `group`, which share its outcome."""
        first = group[0]
        mail = self._writer.mail_to_send(group, sent)
        if mail is None:
            return
        addresses = dict.fromkeys(map(address_of, mail.recipients))
        waiting = [recipient for recipient in addresses if recipient not in first.recipients]
        try:
            replies = await self._hand_over_all(waiting, mail)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:  # of values: an address that no server takes
            sent.failures.update((it.delivery_id, _one_line(error)) for it in group)
        else:
            accepted = {recipient: None for recipient in waiting if recipient not in replies}
            for it in group:
                _judge(it.delivery_id, {**first.recipients, **accepted}, replies, sent)

    async def _hand_over_all(self, recipients: Sequence[str], mail: Mail) -> Replies:
        """Hand over each recipient's copy. An error after a first copy puts off those that have none."""
        if not mail.copies:
            return await self._hand_over(recipients, mail.content) if recipients else {}
        contents = {address_of(recipient): content for recipient, content in mail.copies.items()}
        replies: Replies = {}
        for at, recipient in enumerate(recipients):
            try:
                replies |= await self._hand_over([recipient], contents[recipient])
            except aiosmtplib.SMTPResponseException as error:
                replies[recipient] = aiosmtplib.SMTPResponse(error.code, error.message)
            except ValueError as error:  # an address that no server takes
                replies[recipient] = aiosmtplib.SMTPResponse(_PERMANENT, _one_line(error))
            except (aiosmtplib.SMTPException, OSError, ChannelError) as error:
                if at == 0:
                    raise
                waiting = aiosmtplib.SMTPResponse(_SERVICE_NOT_AVAILABLE, _one_line(error))
                return replies | dict.fromkeys(recipients[at:], waiting)
        return replies

    async def _hand_over(self, recipients: Sequence[str], content: bytes) -> Replies:
        """Send the message to those recipients; return the replies for those that the server did not accept it for.

        Raises:
            ChannelError: the server is closing, or does not answer.
            SMTPException, OSError: the server refuses the message, or has hung up.
        """
        client = await self._connect()
        try:
            replies, _ = await client.sendmail(self._sender, recipients, content)
        except TimeoutError as error:
            await self._disconnect()
            raise ChannelTimeoutError(f"{self._server}: no answer within {self._config.timeout_s:g} s") from error
        except aiosmtplib.SMTPRecipientsRefused as error:
            replies = {one.recipient: aiosmtplib.SMTPResponse(one.code, one.message) for one in error.recipients}
        except aiosmtplib.SMTPResponseException as error:
            if error.code == _SERVICE_NOT_AVAILABLE:
                await self._disconnect()
                raise ChannelError(f"{self._server}: {_one_line(error)}") from error
            raise
        except BaseException:  # it has hung up, or we were interrupted
            await self._disconnect()
            raise
        if closing := next((reply for reply in replies.values() if reply.code == _SERVICE_NOT_AVAILABLE), None):
            await self._disconnect()
            raise ChannelError(f"{self._server}: {closing.code} {_flat(closing.message)}")
        return replies

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await _hang_up(client)


def _judge(number: int, done: dict[str, str | None], replies: Replies, sent: Sent) -> None:
    """Record in `sent` what became of one message.

    Args:
        number: its delivery id.
        done: the recipients that earlier tries have settled.
        replies: the answers for the others.
        sent: the outcome.
    """
    said = {recipient: f"{reply.code} {_flat(reply.message)}" for recipient, reply in replies.items()}
    put_off = [recipient for recipient, reply in replies.items() if reply.code < _PERMANENT]
    done |= {recipient: text for recipient, text in said.items() if recipient not in put_off}
    if put_off:
        sent.failures[number] = "; ".join(f"{recipient}: {said[recipient]}" for recipient in put_off)
    elif None not in done.values():  # no recipient has it: the whole delivery has failed
        sent.failures[number] = "; ".join(f"{recipient}: {text}" for recipient, text in done.items())
        done = {}
    elif any(done.values()):
        sent.notes[number] = "; ".join(f"refused for {recipient}: {text}" for recipient, text in done.items() if text)
    sent.recipients[number] = done


async def _hang_up(client: aiosmtplib.SMTP) -> None:
    """Say goodbye if the server still listens, and close the connection at once."""
    transport = client.transport
    try:
        if client.is_connected:
            await client.quit(timeout=1)
    except (aiosmtplib.SMTPException, OSError):
        pass  # the server has already closed the connection
    finally:
        client.close()
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()  # TLS would wait for the server's close_notify, and the loop ends before it comes
            await asyncio.sleep(0)


def _one_line(error: Exception) -> str:
    """Return the server's answer, or what happened to the connection, on one line."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {_flat(error.message)}"
    return _flat(str(error)) or type(error).__name__


def _flat(text: str) -> str:
    return str(storable(" ".join(text.split())[:300]))  # a server may answer in another encoding
