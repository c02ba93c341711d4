"""Unpacks real mail and news once per run."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import zstandard


def unpacked(path: Path) -> bytes:
    with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as stream:
        return stream.read()


def untarred(path: Path, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(unpacked(path))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in unpacked(path).splitlines()]


@pytest.fixture(scope="session")
def real(shared: Path) -> Path:
    return shared / "data"


@pytest.fixture(scope="session")
def spamassassin(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an mbox of 3,000 messages."""
    path = tmp_path_factory.mktemp("spamassassin") / "spamassassin.mbox"
    path.write_bytes(unpacked(real / "email-spamassassin" / "spamassassin-dev.mbox.zst"))
    return path


@pytest.fixture(scope="session")
def odd_mail(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 212 files from the tests of a mail parser, malformed on purpose; nine are no messages."""
    return untarred(real / "email-eml" / "mail-parser-crate-messages.tar.zst", tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="session")
def usenet(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 1,300 posts, one per file, in a folder for each of 13 groups."""
    return untarred(real / "usenet-20news-mini" / "mini20news-dev-raw.tar.zst", tmp_path_factory.mktemp("usenet"))
