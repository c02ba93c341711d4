"""The channel ``eml``: writes one e-mail per notification, as a file that mail programs open.

A file is named after its notification, and its bytes depend on nothing else. So delivering again after a crash
replaces a file by the same file."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.config.deliveries import EmlDelivery
from tamis.notify.channels.channel import ChannelError, Sent
from tamis.notify.channels.files import explain, make_folder, sync_folder, write_whole
from tamis.notify.mail_writer import MailWriter
from tamis.store import DueDelivery


class EmlChannel:
    """Writes files ``<notification id>.eml`` into a folder, which it creates."""

    batch_count = 100  # as many are written again after a crash

    def __init__(self, config: EmlDelivery, writer: MailWriter | None = None) -> None:
        """Make the channel; no file is touched yet."""
        self._folder, self._writer = config.folder, writer or MailWriter(config, {})

    def open(self) -> None:
        """Create the folder.

        Raises:
            ChannelError: it cannot be created.
        """
        make_folder(self._folder)

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Write each as a file, whole or not at all. Cost: two syncs each, 0.5 to 5 ms.

        Raises:
            ChannelError: the folder cannot be written.
        """
        return self._write_all([[delivery] for delivery in due])

    def deliver_digest(self, due: Sequence[DueDelivery]) -> Sent:
        """Write all of them as one file, as `deliver` does."""
        return self._write_all([due])

    def _write_all(self, groups: Sequence[Sequence[DueDelivery]]) -> Sent:
        sent = Sent()
        try:
            for group in groups:
                self._write(group, sent)
            sync_folder(self._folder)
        except OSError as error:
            raise ChannelError(explain(self._folder, error)) from error
        return sent

    def send(self, name: str, content: bytes) -> None:
        """Write one e-mail that is no notification, as the file `name`.

        Raises:
            ChannelError: the folder cannot be written.
        """
        self.open()
        try:
            write_whole(self._folder / name, content)
        except OSError as error:
            raise ChannelError(explain(self._folder, error)) from error

    def interrupt(self) -> None:
        """Do nothing: nothing here waits."""

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _write(self, group: Sequence[DueDelivery], sent: Sent) -> None:
        if (mail := self._writer.mail_to_send(group, sent)) is not None:
            write_whole(self._folder / f"{mail.name}.eml", mail.content)
