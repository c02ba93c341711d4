"""The channel ``chat``: tells of notifications in a chat, through the package Apprise, which knows the services.

Queue, retries and rhythms are ours; Apprise does the last step. It waits inside itself, so each message is sent in a
thread that can be given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apprise

from tamis.config.deliveries import ChatDelivery
from tamis.config.owners import OwnerConfig
from tamis.errors import ConfigError
from tamis.notify.channels.channel import ChannelError, Sent
from tamis.notify.channels.waiting import Waiting
from tamis.notify.wording import recipient_of, words_for
from tamis.store import DueDelivery

_SAID_MAX = 300  # characters
_NO_CONNECTION = "Connection error"  # Apprise's words for every service


class ChatChannel:
    """Sends one message per notification or digest.

    Raises:
        ConfigError: the address is not where it should be, or Apprise does not understand it.
    """

    batch_count = 1

    def __init__(self, config: ChatDelivery, owners: Mapping[str, OwnerConfig] = {}) -> None:
        """Make the channel; nothing is connected yet."""
        self._config, self._owners, self._waiting = config, owners, Waiting()
        asset = apprise.AppriseAsset(app_id="tamis", app_desc="tamis", async_mode=False, storage_mode="memory")
        self._chat = apprise.Apprise(asset=asset)
        if not self._chat.add(config.address()):
            raise ConfigError(f"delivery '{config.name}': the address of the chat is not one that Apprise understands")

    def open(self) -> None:
        """Check that the last try has ended.

        Raises:
            ChannelError: it was given up, and still waits for the service.
        """
        self._waiting.check()

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Send a message for each.

        Raises:
            ChannelTimeoutError: the service took longer than `timeout_s` over one of them.
            ChannelError: it cannot be reached.
        """
        sent = Sent()
        for delivery in due:
            self._send([delivery], sent)
        return sent

    def deliver_digest(self, due: Sequence[DueDelivery]) -> Sent:
        """Send one message for all of them.

        Raises:
            ChannelError: see `deliver`.
        """
        sent = Sent()
        self._send(due, sent)
        return sent

    def interrupt(self) -> None:
        """Interrupt the delivery in progress, which may then arrive twice."""
        self._waiting.interrupt()

    def close(self) -> None:
        """Do nothing: Apprise keeps no connection."""

    def _send(self, due: Sequence[DueDelivery], sent: Sent) -> None:
        config = self._config
        recipient = recipient_of(self._owners, due[0].owner, config.templates)
        try:
            words, note = words_for([delivery.notification for delivery in due], recipient)
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            sent.failures.update((it.delivery_id, f"cannot be written as a message: {error}") for it in due)
            return
        said = self._waiting.run(lambda: self._notify(words.subject, words.text), config.timeout_s, "the chat")
        if said is not None:
            sent.failures.update((it.delivery_id, said) for it in due)
        elif note is not None:
            sent.notes.update((it.delivery_id, note) for it in due)

    def _notify(self, title: str, text: str) -> str | None:
        """Send a message; return why it was refused, or None.

        Raises:
            ChannelError: the service cannot be reached.
        """
        result = self._chat.notify(title=title, body=text, body_format=apprise.NotifyFormat.TEXT)
        if result:
            return None
        said = " ".join(entry.message for entry in result.logs())
        reason = " ".join(said.split())[:_SAID_MAX] or "the service refused the message"
        if _NO_CONNECTION in reason:
            raise ChannelError(f"the chat: {reason}")
        return reason
