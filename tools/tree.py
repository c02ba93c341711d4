"""Prints the tree with the purpose of each file, which is its first line.

`make tree` calls it. `tests/tools/test_purpose.py` refuses a file whose first line is not one plain sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
FOLDERS = ("crates", "python", "benches", "benchmarks", "examples", "fuzz", "tools", "tests", ".ci")
CHECKED = ("crates", "python", "benches", "benchmarks", "examples", "fuzz", "tools")
"""Folders in which every Rust and Python file must say what it is for."""

SUFFIXES = (".rs", ".py", ".pyi")
LENGTH_MAX = 120


def purpose(path: Path) -> str:
    """Return the first line of a file without its comment marks; empty if it is no comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines and lines[0].startswith("#!") and not lines[0].startswith("#!["):
        lines = lines[1:]
    first = lines[0] if lines else ""
    comment = {".rs": r"//! ?(.*)", "": r"# ?(.*)"}.get(path.suffix, r'r?"""(.*?)(?:""")?$')
    match = re.match(comment, first)
    return match[1].strip() if match else ""


def faults(path: Path) -> list[str]:
    """Return the faults of a file's purpose; none if it is one sentence on one line."""
    text = purpose(path)
    if not text:
        return ["has no purpose in its first line"]
    checks = {
        "does not start with a capital": not text[0].isupper(),
        "does not end with a full stop": not text.endswith(".") or text.endswith(".."),
        "is more than one sentence": re.search(r"[.!?] [A-Z`]", text) is not None,
        f"is longer than {LENGTH_MAX} characters": len(text) > LENGTH_MAX,
    }
    return [fault for fault, holds in checks.items() if holds]


def sources(project: Path, folders: tuple[str, ...]) -> list[Path]:
    """Return the source files of these folders that git tracks or would add, sorted by name."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = sorted(project / name for name in set(listed))
    return [path for path in paths if path.is_file() and (path.suffix in SUFFIXES or path.name == "run")]


def offenders(project: Path) -> list[str]:
    """Return a line for each file that does not say what it is for."""
    return [
        f"{path.relative_to(project)}: {fault}: {purpose(path)}".removesuffix(": ")
        for path in sources(project, CHECKED)
        if path.suffix
        for fault in faults(path)
    ]


def draw(project: Path) -> list[str]:
    """Return the lines of the tree: folders, and files with their purposes."""
    lines: list[str] = []
    shown: tuple[str, ...] = ()
    for path in sources(project, FOLDERS):
        folder = path.relative_to(project).parts[:-1]
        common = next((i for i, (a, b) in enumerate(zip(folder, shown, strict=False)) if a != b), len(shown))
        lines += ["  " * depth + folder[depth] + "/" for depth in range(min(common, len(folder)), len(folder))]
        shown = folder
        lines.append(f"{'  ' * len(folder)}{path.name:<24} {purpose(path)}".rstrip())
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join(draw(PROJECT)) + "\n")
