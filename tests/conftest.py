"""What all tests share: where the real data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of conformance cases and real data beside the project."""
    folder = Path(os.environ.get("TAMIS_SHARED", PROJECT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data: {folder} is absent (set TAMIS_SHARED)")
    return folder
