"""Turns an engine into the bytes of a snapshot and back, for `pickle` and `copy`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.engine.engine import Engine


def to_bytes(engine: Engine[Any]) -> bytes:
    """Return the snapshot of `engine`.

    Raises:
        TypeError: a snapshot cannot keep one of its keys or queries; the text names it.
        OSError: there is no room for a temporary file.
    """
    with tempfile.TemporaryDirectory(prefix="tamis-") as folder:
        path = Path(folder) / "engine.tamis"
        try:
            engine.save(path)
        except TypeError as error:
            raise TypeError(f"an Engine is pickled and copied as a snapshot, as save() writes it: {error}") from error
        return path.read_bytes()


def from_bytes(engine_class: type[Engine[Any]], snapshot: bytes) -> Engine[Any]:
    """Return the engine in `snapshot`. Its file is deleted at once, since an open engine keeps what it has mapped."""
    with tempfile.TemporaryDirectory(prefix="tamis-") as folder:
        path = Path(folder) / "engine.tamis"
        path.write_bytes(snapshot)
        return engine_class.open(path)
