"""The channel ``parquet``: writes each batch of notifications as a file into a folder, exactly once."""

from __future__ import annotations

from pathlib import Path

from tamis.notify.channels.numbered_files import NumberedFiles


class ParquetChannel(NumberedFiles):
    """Writes files that count as soon as they have their names."""

    def _last(self) -> int:
        return max((number for number, _ in self._files()), default=0)

    def _left(self, recorded: int) -> list[Path]:
        return [path for number, path in self._files() if number > recorded]

    def _publish(self, number: int, path: Path, rows: int) -> None:
        """Do nothing: the file has its name."""
