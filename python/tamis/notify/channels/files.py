"""Writes files whole or not at all, syncs them, and explains to users why a file cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

from tamis.notify.channels.channel import ChannelError


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


def make_folder(folder: Path) -> None:
    """Create the folder, if it is absent.

    Raises:
        ChannelError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ChannelError(explain(folder, error)) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. After a power cut it may have its former content, until `sync_folder`.

    Raises:
        OSError: it cannot be written.
    """
    # The temporary name is always the same, so the next try overwrites what a crash left.
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def explain(path: Path, error: OSError) -> str:
    """Explain to a user in one sentence what is wrong at `path`, and what to do."""
    return f"{path}: cannot be written: {error.strerror or error}; make it writable, with room on its disk"
