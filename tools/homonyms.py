"""Finds type names that two or more files declare, each with a meaning of its own."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

from tools.rust_source import crate_folders, read_crate

PROJECT = Path(__file__).resolve().parent.parent
HOMONYMS_MAX = 10
"""Maximum number of names that two or more files of a language declare; code for tests only does not count."""
PYTHON = "python", "benchmarks", "tools"
"""The folders of Python files that are looked at."""


def homonyms(project: Path) -> dict[str, list[Path]]:
    """Return each name of a type that several files of one language declare, with these files."""
    rust = ((file.path, file.types) for folder in crate_folders(project) for file in read_crate(folder))
    python = ((path, classes(path)) for folder in PYTHON for path in (project / folder).rglob("*.py"))
    found: dict[str, list[Path]] = {}
    for declarations in (rust, python):
        files: dict[str, set[Path]] = defaultdict(set)
        for path, names in declarations:
            for name in names:
                files[name].add(path)
        for name, paths in files.items():
            if len(paths) > 1:
                found.setdefault(name, []).extend(sorted(paths))
    return dict(sorted(found.items()))


def classes(path: Path) -> list[str]:
    """Return the names of the classes at the top of a Python file."""
    return [node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]


def main(project: Path) -> int:
    """Print each name with its files; return 1 if there are too many."""
    shared = homonyms(project)
    for name, paths in shared.items():
        print(f"{name:<20} {', '.join(str(path.relative_to(project)) for path in paths)}")
    print(f"homonyms: {len(shared)} type names stand in two or more files (at most {HOMONYMS_MAX})")
    return 1 if len(shared) > HOMONYMS_MAX else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT))
