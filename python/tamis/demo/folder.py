"""Writes the demo into a folder: mail in the three formats that adapters read, queries, and a pipeline.toml."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tamis.adapters.sources.mbox import unescape
from tamis.errors import ConfigError

FIRST_LINE = "# The pipeline of `tamis demo`."
"""The first line of a pipeline.toml that the demo wrote and may use."""


@dataclass(frozen=True)
class DemoFolder:
    """The locations of everything in the demo.

    Attributes:
        path: the folder.
        messages: the number of messages, including the one that cannot be read.
    """

    path: Path
    messages: int

    @property
    def config(self) -> Path:
        """The pipeline's configuration."""
        return self.path / "pipeline.toml"

    @property
    def queries(self) -> Path:
        """The file of queries."""
        return self.path / "queries.toml"

    @property
    def outbox(self) -> Path:
        """The folder of notifications as e-mail."""
        return self.path / "outbox"

    @property
    def store(self) -> Path:
        """The store."""
        return self.path / "tamis.sqlite"

    @property
    def report(self) -> Path:
        """The report as an HTML page."""
        return self.path / "report.html"


def lay_out(path: Path) -> DemoFolder:
    """Create the demo's folder or complete it; existing files stay as they are.

    Raises:
        ConfigError: the folder holds a pipeline.toml that is not the demo's.
        OSError: something cannot be written.
    """
    _refuse_foreign(path / "pipeline.toml")
    lists, news, junk = (_mailbox(name) for name in ("lists", "news", "junk"))
    papers = _shipped("mail/papers.jsonl")
    _write_new(path / "mail" / "lists.mbox", lists)
    _write_new(path / "mail" / "news.mbox", news)
    _write_new(path / "mail" / "papers.jsonl", papers)
    singles = list(_messages(junk))
    for number, message in enumerate(singles, start=1):
        _write_new(path / "mail" / "junk" / f"{number:04}.eml", message)
    _write_new(path / "mail" / "NOTICE.md", _shipped("NOTICE.md"))
    _write_new(path / "queries.toml", _shipped("queries.toml"))
    _write_new(path / "pipeline.toml", _shipped("pipeline.toml"))
    mailboxes = sum(len(_BEGINNING.findall(mailbox)) for mailbox in (lists, news))
    return DemoFolder(path, mailboxes + len(singles) + len(papers.splitlines()))


def _refuse_foreign(config: Path) -> None:
    if config.exists() and not config.read_text(encoding="utf-8", errors="replace").startswith(FIRST_LINE):
        raise ConfigError(f"{config}: there is a pipeline here that is not the demo's; give another --folder")


def _shipped(name: str) -> bytes:
    """Return a file of this package."""
    return files("tamis.demo").joinpath(name).read_bytes()


def _mailbox(name: str) -> bytes:
    return gzip.decompress(_shipped(f"mail/{name}.mbox.gz"))


_BEGINNING = re.compile(rb"(?m)^(?=From )")


def _messages(mailbox: bytes) -> Iterator[bytes]:
    """Return the messages of an mbox as they were before they were stored there."""
    return map(unescape, _BEGINNING.split(mailbox)[1:])


def _write_new(path: Path, content: bytes) -> None:
    """Write a file unless it exists; in one step, so that an adapter never reads half of it."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
