"""Fenced blocks of documents: what they show, and how their Python runs."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the other text of that line, and its content."""

    language: str
    info: str
    text: str

    @property
    def title(self) -> str | None:
        """Return the name of the file that the block shows."""
        found = re.search(r'title="([^"]+)"', self.info)
        return found.group(1) if found else None


def blocks(document: Path) -> list[Block]:
    """Return the blocks of a document, in their order."""
    return [Block(*found) for found in FENCE.findall(document.read_text(encoding="utf-8"))]


def python_of(document: Path) -> str:
    """Return the Python blocks of a document as one program."""
    return "\n".join(block.text for block in blocks(document) if block.language == "python")


def run_python(source: str) -> list[tuple[str, Any, str]]:
    """Run a program; return source, result and promise of every line that ends in ``# -> value``."""
    names: dict[str, Any] = {}
    seen = []
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        code = ast.get_source_segment(source, statement) or ""
        promised = re.search(r"# -> (.*)$", lines[(statement.end_lineno or 1) - 1])
        if promised and isinstance(statement, ast.Expr):
            seen.append((code, eval(code, names), promised.group(1)))
        else:
            exec(code, names)
    return seen
