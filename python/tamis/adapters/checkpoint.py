"""Reads from Spark's checkpoint how far an adapter has read, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from tamis.adapters.sources.source import Offset, offset_of
from tamis.errors import AdapterError


def committed_offset(checkpoint: Path) -> Offset:
    """Return the end of the last batch that is done; the beginning if none is.

    Args:
        checkpoint: the folder.

    Raises:
        AdapterError: a file of the checkpoint cannot be read.
    """
    batches = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdecimal()]
    if not batches:
        return offset_of({})
    path = checkpoint / "offsets" / str(max(batches))
    try:
        *_, last = path.read_text(encoding="utf-8").splitlines()
        offset: Offset = json.loads(last)
        return offset
    except (OSError, ValueError) as error:
        raise AdapterError(f"{path}: the checkpoint cannot be read: {error}") from error
