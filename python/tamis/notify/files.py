"""Syncs folders to disk, and explains to users why a file cannot be written."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Sync the folder itself: the names of new and renamed files.

    Raises:
        OSError: it cannot be opened or synced.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def explain(path: Path, error: OSError) -> str:
    """Explain to a user in one sentence what is wrong at `path`, and what to do."""
    return f"{path}: cannot be written: {error.strerror or error}; make it writable, with room on its disk"
