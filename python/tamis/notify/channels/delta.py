"""The channel ``delta``: adds each batch of notifications as a file to a Delta table, exactly once.

Each commit carries the name of the delivery and the number of the batch, so that the table tells what it has."""

from __future__ import annotations

from pathlib import Path

from tamis.config.deliveries import DeltaDelivery
from tamis.errors import StoreError
from tamis.notify.channels.channel import ChannelError
from tamis.notify.channels.files import make_folder
from tamis.notify.channels.numbered_files import SCHEMA, NumberedFiles
from tamis.store import Store
from tamis.store.delta_table import File, Table


class DeltaChannel(NumberedFiles):
    """Writes files that count once they are committed to the table, which it creates."""

    def __init__(self, config: DeltaDelivery, store: Store) -> None:
        """Make the channel; no file is touched yet."""
        super().__init__(config, store)
        self._stream = f"tamis delivery {config.name}"
        self._table: Table | None = None

    def open(self) -> None:
        """Open the table, and continue as every channel that numbers its files.

        Raises:
            ChannelError: the table cannot be used, or another pipeline writes under the same name.
        """
        if self._table is None:
            make_folder(self._folder)
            try:
                self._table = Table(self._folder, SCHEMA)
            except StoreError as error:
                raise ChannelError(str(error)) from error
        super().open()

    def _last(self) -> int:
        assert self._table is not None, "open comes first"  # noqa: S101 - for the type checker
        try:
            return self._table.last(self._stream) or 0
        except StoreError as error:
            raise ChannelError(str(error)) from error

    def _left(self, recorded: int) -> list[Path]:
        last = self._last()
        for number, path in self._files():
            if number == recorded + 1 > last:
                path.unlink()  # a crash came before its commit, and the batch is written anew
        return [path for number, path in self._files() if recorded < number <= last]

    def _publish(self, number: int, path: Path, rows: int) -> None:
        assert self._table is not None, "open comes first"  # noqa: S101 - for the type checker
        try:
            added = self._table.commit(self._stream, number, [File(path.name, rows, path.stat().st_size)])
        except (StoreError, OSError) as error:
            raise ChannelError(str(error)) from error
        if not added:
            raise ChannelError(
                f"{self._folder}: the table has a batch {number} of this delivery already: another pipeline writes "
                f"under the name '{self._name}', too. Give each delivery a table or a name of its own"
            )
