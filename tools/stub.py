"""Copies the docstrings of the compiled core into its stub, where editors and the docs read them beside the types."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

STUB = Path(__file__).resolve().parent.parent / "python/tamis/_core.pyi"
Documented = ast.ClassDef | ast.FunctionDef


def differences(stub: str, core: ModuleType) -> list[tuple[str, Documented, str]]:
    """What `stub` documents in other words than `core`: name, where it stands, and the core's docstring."""
    pairs = [(name, node, documentation(core, name)) for name, node in documented(ast.parse(stub))]
    return [(name, node, text) for name, node, text in pairs if (ast.get_docstring(node) or "") != text]


def documented(tree: ast.Module) -> Iterator[tuple[str, Documented]]:
    """Every public class, method and function of a stub, with its dotted name."""
    for node in public(tree.body):
        yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{method.name}", method) for method in public(node.body))


def public(body: list[ast.stmt]) -> Iterator[Documented]:
    """The classes and functions of `body` whose names do not begin with an underscore."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def documentation(core: ModuleType, name: str) -> str:
    """The docstring of a dotted name, without indentation; empty if there is none."""
    found: object = functools.reduce(getattr, name.split("."), core)
    return inspect.cleandoc(found.__doc__ or "")


def with_documentation(stub: str, core: ModuleType) -> str:
    """`stub` with the docstrings of `core`."""
    lines = stub.splitlines()
    for _, node, text in reversed(differences(stub, core)):
        put(lines, node, text)
    return "\n".join(lines) + "\n"


def put(lines: list[str], node: Documented, text: str) -> None:
    """Replace the docstring, or the ellipsis, of `node`."""
    first = node.body[0]
    indent = " " * (node.col_offset + 4)
    quoted = [f'{indent}"""{text}"""'.replace("\n", f"\n{indent}").replace(f"\n{indent}\n", "\n\n")] if text else []
    head = lines[first.lineno - 1][: first.col_offset].rstrip()  # a body of an ellipsis stands behind its colon
    is_kept = isinstance(node, ast.ClassDef) and ast.get_docstring(node) is None
    lines[first.lineno - 1 : (first.lineno - 1 if is_kept else first.end_lineno)] = [head, *quoted] if head else quoted


def main() -> int:
    """Write the stub anew."""
    from tamis import _core

    stub = STUB.read_text(encoding="utf-8")
    STUB.write_text(with_documentation(stub, _core), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
