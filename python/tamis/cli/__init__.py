"""The command line: one file per command, which imports what it needs when it is called, so that starting is quick.

stdout has data that can be piped; stderr has progress, hints and summaries; ``--json`` prints the same for machines.
Exit codes: 0 success (for ``match``: something matched), 1 nothing matched, 2 an error that was explained, 70 a bug,
130 interrupted, 141 the reader of a pipe has closed it."""

from __future__ import annotations

from tamis.cli.main import run

__all__ = ["run"]
