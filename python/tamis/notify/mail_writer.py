"""Writes the e-mails of one delivery: their recipients, their text, and their headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tamis.config.deliveries import EmlDelivery, SmtpDelivery
from tamis.config.fields import address_of
from tamis.config.owners import OwnerConfig, find_owner
from tamis.errors import StoreError
from tamis.notify.channels.channel import Sent
from tamis.notify.mail import render
from tamis.notify.unsubscribe import Links
from tamis.notify.wording import recipient_of, words_for
from tamis.store import DueDelivery, NotificationRecord, Store


@dataclass(frozen=True)
class Mail:
    """An e-mail.

    Attributes:
        name: the left half of its Message-ID.
        content: its bytes.
        recipients: the addresses in To; if there are none, it is not sent.
        notes: delivery id -> what to record when it is delivered.
        copies: recipient -> the bytes for them, with a link to unsubscribe that is theirs; empty if all get the same.
    """

    name: str
    content: bytes
    recipients: Sequence[str]
    notes: Mapping[int, str]
    copies: Mapping[str, bytes] = field(default_factory=dict)


class MailWriter:
    """Writes e-mails.

    Args:
        config: the delivery.
        owners: people with addresses, a time zone and templates of their own.
        store: knows who has unsubscribed from what; None: nobody has.
        links: makes the links to unsubscribe; None: e-mails have none.
    """

    def __init__(
        self,
        config: EmlDelivery | SmtpDelivery,
        owners: Mapping[str, OwnerConfig],
        store: Store | None = None,
        links: Links | None = None,
    ) -> None:
        self._config, self._owners, self._store, self._links = config, owners, store, links

    def write(self, group: Sequence[DueDelivery]) -> Mail:
        """Return the e-mail of one delivery, or the digest of several of one owner.

        It goes only to confirmed addresses, if the owner asks for that, and to nobody who has unsubscribed from all of
        its queries. A notification that nobody wants is left out.

        Raises:
            Exception: it cannot be written, such as for an address that no header can hold.
        """
        config, name = self._config, group[0].owner
        owner = find_owner(self._owners, name)
        named = owner.to if owner is not None and owner.to else config.recipients
        unwanted = {recipient: self._unwanted(recipient) for recipient in named}
        keys = {delivery.notification.query_key for delivery in group}
        confirmed = named if owner is None or not owner.confirm else [it for it in named if self._is_confirmed(it)]
        if not confirmed:
            return Mail("", b"", (), {it.delivery_id: _not_sent(named, "not confirmed") for it in group})
        recipients = [it for it in confirmed if "" not in unwanted[it] and not keys <= unwanted[it]]
        wanted = [it for it in group if any(it.notification.query_key not in unwanted[who] for who in recipients)]
        notes = {it.delivery_id: _not_sent(confirmed, "unsubscribed") for it in group if it not in wanted}
        if not recipients:
            return Mail("", b"", (), notes)
        records = [delivery.notification for delivery in wanted]
        recipient = recipient_of(self._owners, name, config.templates)
        links = self._links_of(recipients, records)

        def written(link: str) -> tuple[str, bytes, str | None]:
            words, note = words_for(records, replace(recipient, unsubscribe=link))
            return *render(records, config.sender, recipients, config.domain, words, link), note

        mail_name, content, note = written(links[recipients[0]] if len(recipients) == 1 else "")
        if note is not None:
            notes.update((it.delivery_id, note) for it in wanted)
        copies = (
            {who: written(links[who])[1] for who in recipients} if len(recipients) > 1 and any(links.values()) else {}
        )
        return Mail(mail_name, content, recipients, notes, copies)

    def mail_to_send(self, group: Sequence[DueDelivery], sent: Sent) -> Mail | None:
        """Write an e-mail, and note in `sent` what to record; None if nothing is to be sent."""
        try:
            mail = self.write(group)
        except StoreError:
            raise  # it has nothing to do with the message
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            sent.failures.update((it.delivery_id, f"cannot be rendered as an e-mail: {error}") for it in group)
            return None
        sent.notes.update(mail.notes)
        return mail if mail.recipients else None

    def _is_confirmed(self, recipient: str) -> bool:
        return self._store is not None and self._store.address_confirmed_at(address_of(recipient)) is not None

    def _unwanted(self, recipient: str) -> set[str]:
        return self._store.unsubscribed_keys(address_of(recipient)) if self._store is not None else set()

    def _links_of(self, recipients: Sequence[str], records: Sequence[NotificationRecord]) -> dict[str, str]:
        """Recipient -> the link that is theirs alone; empty where there are no links."""
        key = records[0].query_key if len(records) == 1 else ""
        links = self._links
        return {who: links.link(address_of(who), key) if links is not None else "" for who in recipients}


def _not_sent(named: Sequence[str], why: str) -> str:
    return f"not sent: {', '.join(address_of(it) for it in named)} {why}"
