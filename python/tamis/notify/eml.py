"""The channel ``eml``: writes one e-mail per notification, as a file that mail programs open.

A file is named after its notification, and its bytes depend on nothing else. So delivering again after a crash
replaces a file by the same file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tamis.config.deliveries import EmlDelivery
from tamis.notify.channel import ChannelError, Sent
from tamis.notify.files import explain, sync_folder
from tamis.notify.mail import render_mail
from tamis.store import DueDelivery


class EmlChannel:
    """Writes files ``<notification id>.eml`` into a folder, which it creates."""

    batch_count = 100  # as many are written again after a crash

    def __init__(self, config: EmlDelivery) -> None:
        """Make the channel; no file is touched yet."""
        self._config, self._folder = config, config.folder

    def open(self) -> None:
        """Create the folder.

        Raises:
            ChannelError: it cannot be created.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ChannelError(explain(self._folder, error)) from error

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Write each as a file, whole or not at all. Cost: two syncs each, 0.5 to 5 ms.

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

    def interrupt(self) -> None:
        """Do nothing: nothing here waits."""

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _write(self, delivery: DueDelivery, failures: dict[int, str]) -> None:
        record, config = delivery.notification, self._config
        try:
            content = render_mail(record, config.sender, config.recipients, config.domain)
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            failures[delivery.delivery_id] = f"cannot be rendered as an e-mail: {error}"
            return
        # The temporary name is always the same, so the next try overwrites what a crash left.
        temporary = self._folder / f".{record.id}.tmp"
        _write_synced(temporary, content)
        temporary.replace(self._folder / f"{record.id}.eml")


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
