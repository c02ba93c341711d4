"""Writes the e-mails of one delivery: to whom, in whose words, and with which headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tamis.config.deliveries import EmlDelivery, SmtpDelivery
from tamis.config.owners import OwnerConfig
from tamis.notify.mail import render
from tamis.notify.wording import Reader, words_for
from tamis.store import DueDelivery


@dataclass(frozen=True)
class Mail:
    """An e-mail.

    Attributes:
        name: the left half of its Message-ID.
        content: its bytes.
        recipients: as in To.
        note: what to record when it is delivered.
    """

    name: str
    content: bytes
    recipients: Sequence[str]
    note: str | None = None


class MailWriter:
    """Writes e-mails.

    Args:
        config: of the delivery.
        owners: people with addresses, a time zone and templates of their own.
    """

    def __init__(self, config: EmlDelivery | SmtpDelivery, owners: Mapping[str, OwnerConfig]) -> None:
        self._config, self._owners = config, owners

    def write(self, group: Sequence[DueDelivery]) -> Mail:
        """The e-mail of one delivery, or the digest of several of one owner.

        Raises:
            Exception: it cannot be written, such as for an address that no header can hold.
        """
        config, records, name = self._config, [delivery.notification for delivery in group], group[0].owner
        owner = self._owners.get(name)
        recipients = owner.to if owner is not None and owner.to else config.recipients
        templates = owner.templates if owner is not None and owner.templates else config.templates
        reader = Reader(name, owner.time_zone if owner is not None else "UTC", templates)
        words, note = words_for(records, reader)
        return Mail(*render(records, config.sender, recipients, config.domain, words), recipients, note)
