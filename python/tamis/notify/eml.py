"""The channel ``eml``: an e-mail a notification, as a file that mail programs open.

A file is named after its notification, and its bytes depend on nothing else, so delivering again after a crash
replaces a file by the same file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tamis.config.pipeline import EmlDelivery
from tamis.notify.channel import ChannelError, Sent
from tamis.notify.files import explain, sync_folder
from tamis.notify.mail import render_mail
from tamis.store import DueDelivery


class EmlChannel:
    """Writes files ``<notification id>.eml`` into a folder, which it makes."""

    batch_count = 100  # as many are written again after a crash

    def __init__(self, config: EmlDelivery) -> None:
        """Nothing is touched yet."""
        self._config, self._folder = config, config.folder

    def open(self) -> None:
        """Make the folder.

        Raises:
            ChannelError: it cannot be made.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ChannelError(explain(self._folder, error)) from error

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Write each as a file, whole or not at all. 0.5 to 5 ms each: two syncs.

        Raises:
            ChannelError: the folder cannot be written.
        """
        failures: dict[int, str] = {}
        try:
            for delivery in due:
                self._write(delivery, failures)
            sync_folder(self._folder)
        except OSError as error:
            raise ChannelError(explain(self._folder, error)) from error
        return Sent(failures)

    def close(self) -> None:
        """Nothing to let go of."""

    def _write(self, delivery: DueDelivery, failures: dict[int, str]) -> None:
        record, config = delivery.notification, self._config
        try:
            content = render_mail(record, config.sender, config.recipients, config.domain)
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            failures[delivery.delivery_id] = f"cannot be made an e-mail: {error}"
            return
        # The temporary name is always the same one, so a crash leaves nothing that the next try does not use.
        temporary = self._folder / f".{record.id}.tmp"
        _write_synced(temporary, content)
        temporary.replace(self._folder / f"{record.id}.eml")


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
