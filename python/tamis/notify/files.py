"""Files that are on disk when we say so."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Put the folder's entries on disk: names of new and renamed files.

    Raises:
        OSError: it cannot be opened or synced.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def explain(path: Path, error: OSError) -> str:
    """One sentence for a user: what is wrong at `path`, and what to do."""
    return f"{path}: cannot be written: {error.strerror or error}; make it writable, with room on its disk"
