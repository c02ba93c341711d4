"""Finds type names that two or more Rust files declare, each with a meaning of its own."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from tools.rust_source import crate_folders, read_crate

PROJECT = Path(__file__).resolve().parent.parent
HOMONYMS_MAX = 10
"""Maximum number of names that two or more files declare; code for tests only does not count."""


def homonyms(project: Path) -> dict[str, list[Path]]:
    """Return each name of a struct, enum, trait, union or type that several files declare, with these files."""
    files: dict[str, list[Path]] = defaultdict(list)
    for folder in crate_folders(project):
        for file in read_crate(folder):
            for name in file.types:
                files[name].append(file.path)
    return {name: sorted(set(paths)) for name, paths in sorted(files.items()) if len(set(paths)) > 1}


def main(project: Path) -> int:
    """Print each name with its files; return 1 if there are too many."""
    shared = homonyms(project)
    for name, paths in shared.items():
        print(f"{name:<20} {', '.join(str(path.relative_to(project)) for path in paths)}")
    print(f"homonyms: {len(shared)} type names stand in two or more files (at most {HOMONYMS_MAX})")
    return 1 if len(shared) > HOMONYMS_MAX else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT))
