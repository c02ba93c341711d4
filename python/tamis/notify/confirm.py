"""Asks people by e-mail whether an address is theirs."""

from __future__ import annotations

import hashlib
from email import policy
from email.message import EmailMessage
from email.utils import formatdate

from tamis.config.deliveries import EmlDelivery, SmtpDelivery
from tamis.config.fields import address_of
from tamis.notify.channels.eml import EmlChannel
from tamis.notify.unsubscribe import Links

_TEXT = """\
Somebody wants to send e-mails about matches of their queries to this address.

If it is yours, and you want them, open this page and press its button:

  {link}

Otherwise do nothing: you get no more e-mails from here.
"""


def ask_for_confirmation(delivery: SmtpDelivery | EmlDelivery, recipient: str, links: Links) -> None:
    """Send the link with which the holder of an address confirms it.

    Raises:
        ChannelError: the e-mail cannot be sent.
        ConfigError: the variable with the password is not set.
    """
    address = address_of(recipient)
    name = hashlib.sha256(f"confirm {address.lower()}".encode()).hexdigest()[:32]
    message = EmailMessage(policy=policy.SMTP)
    message["From"], message["To"] = delivery.sender, recipient
    message["Subject"] = "[tamis] Is this your address?"
    message["Date"] = formatdate()
    message["Message-ID"] = f"<{name}@{delivery.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(_TEXT.format(link=links.confirmation(address)), cte="quoted-printable")
    if isinstance(delivery, EmlDelivery):
        EmlChannel(delivery).send(f"{name}.eml", message.as_bytes())
        return
    from tamis.notify.channels.smtp import SmtpChannel

    channel = SmtpChannel(delivery)
    channel.open()
    try:
        channel.send(recipient, message.as_bytes())
    finally:
        channel.close()
