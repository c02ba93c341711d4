"""Makes temporary folders that go when the program ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def temporary_folder(purpose: str) -> Path:
    """Return a new folder on this machine, named after its purpose, which is removed when Python ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"tamis-{purpose}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
