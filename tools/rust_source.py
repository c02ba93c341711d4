"""Reads Rust sources well enough to see their modules, paths and types, without a compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Strings, characters and comments may hold anything: they are blanked out, and line numbers do not change.
_OPAQUE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | b?r(?P<marks>\#*)".*?"(?P=marks) | [bc]?"(?:\\.|[^"\\])*" | b?'(?:\\[^']*|[^'\\\n])'""",
    re.DOTALL | re.VERBOSE,
)
_TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*")
_TEST_MODULE = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
_USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
_PATH = re.compile(r"(?<![\w:])[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+")
_ITEM = re.compile(r"\b(?:struct|enum|trait|union|type|fn|const|static|mod|macro_rules!)\s+(\w+)")
_TYPE = re.compile(
    r"^(?:[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(?:struct|enum|trait|union)|(?:pub(?:\([^)]*\))?\s+)?type)"
    r"\s+([A-Z]\w*)",
    re.MULTILINE,
)


@dataclass
class RustFile:
    """A source file: its module, what it uses, what it re-exports, and the types that it declares."""

    path: Path
    module: tuple[str, ...]
    """Path from the root of the crate, such as `("index", "leaf")`; empty for lib.rs."""
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that `use` brings in, with their paths as written."""
    globs: list[tuple[str, ...]] = field(default_factory=list)
    exported: set[str] = field(default_factory=set)
    """Names of `uses` that `pub use` re-exports: others may reach them through this module."""
    exported_globs: list[tuple[str, ...]] = field(default_factory=list)
    paths: list[tuple[str, ...]] = field(default_factory=list)
    """Paths in code, outside of `use`."""
    items: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    test_modules: set[str] = field(default_factory=set)


def crate_folders(project: Path) -> list[Path]:
    """Return the folders of all crates, without the workspace itself."""
    manifests = sorted(path for path in project.glob("**/Cargo.toml") if "target" not in path.parts)
    return [path.parent for path in manifests if "[package]" in path.read_text(encoding="utf-8")]


def read_crate(root: Path) -> list[RustFile]:
    """Return the files below a crate's folder, without its tests."""
    paths = sorted(path for path in root.rglob("*.rs") if "target" not in path.relative_to(root).parts)
    files = [read_file(path, root) for path in paths]
    tests = {(*file.module, name) for file in files for name in file.test_modules}
    return [file for file in files if not any(file.module[: len(test)] == test for test in tests)]


def read_file(path: Path, root: Path) -> RustFile:
    """Read one file, without the code that is compiled for tests only."""
    parts = path.relative_to(root).with_suffix("").parts
    module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
    file = RustFile(path, module)
    code, file.test_modules = without_tests(_OPAQUE.sub(_blank, path.read_text(encoding="utf-8")))
    for visibility, tree in _USE.findall(code):
        for name, target in _expand(re.sub(r"\s+", " ", tree).strip()):
            if name == "*":
                (file.exported_globs if visibility else file.globs).append(target)
            else:
                file.uses[name] = target
                if visibility:
                    file.exported.add(name)
    without_uses = _USE.sub("", code)
    file.paths = [tuple(re.split(r"\s*::\s*", path)) for path in _PATH.findall(without_uses)]
    file.items = set(_ITEM.findall(without_uses))
    file.types = set(_TYPE.findall(without_uses))
    return file


def without_tests(code: str) -> tuple[str, set[str]]:
    """Return the code without items under `#[cfg(test)]`, and the names of such modules that are in other files."""
    if re.search(r"#!\[cfg\(test\)\]", code):
        return "", set()
    modules: set[str] = set()
    while test := _TEST.search(code):
        if module := _TEST_MODULE.match(code, test.end()):
            modules.add(module[1])
        end = _end_of_item(code, test.end())
        code = code[: test.start()] + "\n" * code.count("\n", test.start(), end) + code[end:]
    return code, modules


def _blank(match: re.Match[str]) -> str:
    return " " + "\n" * match[0].count("\n")


def _end_of_item(code: str, start: int) -> int:
    """Return the position after the `;`, `,` or closing brace that ends the item, field or statement at `start`."""
    depth, braces_end_it = 0, re.match(r"(?:pub(?:\([^)]*\))?\s+)?(?:use|let|static|const)\b", code[start:]) is None
    for position in range(start, len(code)):
        letter = code[position]
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth < 0:
                return position
            if depth == 0 and letter == "}" and braces_end_it:
                return position + 1
        elif depth == 0 and letter in ";,":
            return position + 1
    return len(code)


def _expand(tree: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names that a use tree brings in, each with its path; `*` for a glob."""
    head, brace, inner = tree.partition("{")
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = tuple(part.strip() for part in path.split("::") if part.strip())
        yield ("*", parts[:-1]) if parts[-1] == "*" else (alias.strip() or parts[-1], parts)
        return
    prefix = tuple(part.strip() for part in head.split("::") if part.strip())
    for branch in _split(inner.rpartition("}")[0]):
        for name, inside in _expand(branch):
            yield (prefix[-1] if name == "self" else name), prefix + (() if inside == ("self",) else inside)


def _split(branches: str) -> list[str]:
    """Split at the commas that are outside all braces."""
    parts, depth = [""], 0
    for letter in branches:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
