"""The command line. One file a command; each imports what it needs when it is called, so that starting is quick.

stdout is data that can be piped, stderr is for progress, hints and summaries; ``--json`` gives machines what people
see. Exit codes: 0 well (for ``match``: something matched), 1 nothing matched, 2 an error that was explained,
70 a bug, 130 interrupted, 141 the reader of a pipe went away."""

from __future__ import annotations

from tamis.cli.boundary import run

__all__ = ["run"]
