"""Writes the licence texts of the crates inside the wheel to THIRD-PARTY-LICENSES.

Each crate's licence must be in the list of `deny.toml`, and its package must carry the text. Nothing is fetched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
TARGET = "THIRD-PARTY-LICENSES"
CRATE = "tamis-python"
HEAD = """\
The compiled core of tamis contains the Rust standard library (MIT OR Apache-2.0) and the crates that are named below.
Where a crate offers several licences, the text of one is here: MIT, if that is among them.
"""


def crates(metadata: dict[str, Any], root: str = CRATE) -> list[dict[str, Any]]:
    """Return the packages from registries that `root` contains: all dependencies except those of builds and tests."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_ids = [identity for identity, package in packages.items() if package["name"] == root]
    reached: set[str] = set()
    while open_ids:
        identity = open_ids.pop()
        if identity not in reached:
            reached.add(identity)
            kinds = ((dep["pkg"], kind["kind"]) for dep in nodes[identity]["deps"] for kind in dep["dep_kinds"])
            open_ids += [dependency for dependency, kind in kinds if kind is None]
    external = [packages[identity] for identity in reached if packages[identity]["source"]]
    return sorted(external, key=lambda package: (package["name"], package["version"]))


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Return whether each part of an AND offers an allowed licence among its ORs (`/` is the old form of OR)."""
    parts = expression.replace("/", " OR ").replace("(", "").replace(")", "").split(" AND ")
    return all(any(name.strip() in allowed for name in part.split(" OR ")) for part in parts)


def texts(folder: Path, expression: str) -> list[str]:
    """Return the licence texts that apply, without trailing blanks, and all notices."""
    files = sorted(path for path in folder.iterdir() if re.match(r"(?i)licen[cs]e|copying|unlicense|notice", path.name))
    notices = [path for path in files if path.name.upper().startswith("NOTICE")]
    chosen = [path for path in files if path not in notices]
    one = [path for path in chosen if "MIT" in path.name.upper()]
    if one and " AND " not in expression:
        chosen = one
    contents = [path.read_text(encoding="utf-8", errors="replace").strip() for path in chosen + notices]
    return ["\n".join(line.rstrip() for line in text.splitlines()) for text in contents]


def bundled(folder: Path, name: str) -> list[str]:
    """Return the licence texts of a library in another language that a crate carries in a folder of its own."""
    folders = sorted(path for path in folder.iterdir() if path.is_dir()) if name.endswith("-sys") else []
    return [text for inner in folders for text in texts(inner, "")]


def collect(metadata: dict[str, Any], allowed: set[str]) -> tuple[str, list[str]]:
    """Return the content of the file, in which each text occurs once with its crates, and a list of faults."""
    users: dict[str, list[str]] = {}
    faults: list[str] = []
    for package in crates(metadata):
        name, expression = f"{package['name']} {package['version']}", package["license"] or ""
        if not expression or not is_allowed(expression, allowed):
            faults.append(f"{name}: the licence '{expression}' is not in the list of deny.toml")
        folder = Path(package["manifest_path"]).parent
        licences = texts(folder, expression)
        if not licences:
            faults.append(f"{name}: the package carries no licence text")
        for text in licences + bundled(folder, package["name"]):
            users.setdefault(text, []).append(f"{name} ({expression})")
    parts = [f"{'=' * 100}\n" + "\n".join(names) + f"\n{'-' * 100}\n{text}\n" for text, names in users.items()]
    return "\n".join([HEAD, *parts]), faults


def read_metadata(project: Path) -> dict[str, Any]:
    """Return cargo's metadata of our dependencies on Linux, from Cargo.lock and the local registry."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    platforms = [f"--filter-platform={machine}-unknown-linux-gnu" for machine in ("x86_64", "aarch64")]
    done = subprocess.run([*command, *platforms], cwd=project, capture_output=True, text=True, check=True)
    metadata: dict[str, Any] = json.loads(done.stdout)
    return metadata


def main() -> int:
    """Write the file; return 1 if a crate must not be distributed."""
    allowed = set(tomllib.loads((PROJECT / "deny.toml").read_text(encoding="utf-8"))["licenses"]["allow"])
    content, faults = collect(read_metadata(PROJECT), allowed)
    (PROJECT / TARGET).write_text(content, encoding="utf-8")
    print("\n".join([*faults, f"{TARGET}: {content.count('=' * 100)} texts, {len(content):,} characters"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
