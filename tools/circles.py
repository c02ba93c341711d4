"""Finds groups of more than three files that import each other in a circle.

`make circles` calls it, and so does `make lint`. Code and imports that only tests or type checkers see do not count."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

from tools.rust_source import RustFile, crate_folders, read_crate

PROJECT = Path(__file__).resolve().parent.parent
CIRCLE_MAX = 3
"""Maximum number of files in a circle: a struct, its parts and the folder's own file."""

Graph = dict[Path, set[Path]]


# ---- Rust --------------------------------------------------------------------------------------------------------


class Crate:
    """The modules of a crate, with the file that each path leads to.

    If a `mod.rs` re-exports a name with `pub use`, the path leads to the file that declares the name.
    """

    def __init__(self, files: Iterable[RustFile]) -> None:
        self.files = {file.module: file for file in files}
        self.children = {module: set[str]() for module in self.files}
        for module in self.files:
            if module and module[:-1] in self.children:
                self.children[module[:-1]].add(module[-1])

    def graph(self) -> Graph:
        """Return the files that each file uses."""
        return {file.path: self._used(file) - {file.path} for file in self.files.values()}

    def _used(self, file: RustFile) -> set[Path]:
        reached = {self._resolve(file, path) for path in file.paths}
        for name, path in file.uses.items():
            if not self._passes_on(file, name):
                reached.add(self._resolve(file, path))
        for path in file.globs:
            reached.add(self._resolve(file, path, is_glob=True))
        return {self.files[module].path for module in reached if module is not None}

    def _passes_on(self, file: RustFile, name: str) -> bool:
        """Return whether a file only re-exports a name, as the file of a folder does."""
        if name not in file.exported:
            return False
        return not any(path[0] == name for path in file.paths)

    def _resolve(self, file: RustFile, path: tuple[str, ...], is_glob: bool = False) -> tuple[str, ...] | None:
        """Return the module of the file that declares what a path names, or None if it is in another crate."""
        absolute = self._absolute(file, path)
        if absolute is None:
            return None
        return self._owner(absolute, is_glob, set())

    def _absolute(self, file: RustFile, path: tuple[str, ...], depth: int = 0) -> tuple[str, ...] | None:
        """Return a path from the root of the crate, or None if it leads to another crate."""
        module, names = file.module, path
        if names[0] == "crate":
            return names[1:]
        if names[0] not in ("self", "super"):
            if names[0] in file.uses and file.uses[names[0]][0] != names[0] and depth < 8:
                return self._absolute(file, file.uses[names[0]] + names[1:], depth + 1)
            return (*module, *names) if names[0] in self.children[module] else None
        while names and names[0] in ("self", "super"):
            module, names = (module if names[0] == "self" else module[:-1]), names[1:]
        return (*module, *names)

    def _owner(self, absolute: tuple[str, ...], is_glob: bool, visited: set[tuple[str, ...]]) -> tuple[str, ...] | None:
        length = next(n for n in range(len(absolute), -1, -1) if absolute[:n] in self.files)
        module, names = absolute[:length], absolute[length:]
        if not names and not is_glob:
            return None  # only a module: the paths in the code say what is used from it
        if not names or absolute in visited:
            return module
        visited.add(absolute)
        file, name = self.files[module], names[0]
        if name in file.uses:
            target = self._absolute(file, file.uses[name])
            return module if target is None else self._owner((*target, *names[1:]), is_glob, visited)
        if name not in file.items:
            for glob in (*file.exported_globs, *file.globs):
                target = self._absolute(file, glob)
                if target is not None and target in self.files and name in self.files[target].items:
                    return target
        return module


def rust_graphs(project: Path) -> dict[str, Graph]:
    """Return the graph of each crate, by the folder of its sources."""
    roots = [folder / "src" for folder in crate_folders(project) if (folder / "src").is_dir()]
    return {str(root.relative_to(project)): Crate(read_crate(root)).graph() for root in roots}


# ---- Python ------------------------------------------------------------------------------------------------------


class Package:
    """The modules of a Python package, with the file that each import leads to, also through an `__init__.py`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = {self._name(path): path for path in sorted(root.rglob("*.py"))}
        trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.files.items()}
        self.imports = {name: list(self._imports(name, tree)) for name, tree in trees.items()}
        self.passed_on = {
            name: {alias: (module, member) for alias, module, member in self.imports[name] if member}
            for name, path in self.files.items()
            if path.name == "__init__.py"
        }

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _imports(self, name: str, tree: ast.Module) -> Iterable[tuple[str, str, str]]:
        """Yield the local name, the module and its member for each import, except those for type checking only."""
        for node in _imports_that_run(tree):
            if isinstance(node, ast.Import):
                yield from ((alias.asname or alias.name, alias.name, "") for alias in node.names)
                continue
            package = name if self.files[name].name == "__init__.py" else name.rpartition(".")[0]
            for _ in range(node.level - 1):
                package = package.rpartition(".")[0]
            module = ".".join(filter(None, (package if node.level else "", node.module)))
            yield from ((alias.asname or alias.name, module, alias.name) for alias in node.names)

    def graph(self) -> Graph:
        """Return the files that each file imports."""
        graph: Graph = {}
        for name, path in self.files.items():
            mine = self.imports[name]
            passes_on = path.name == "__init__.py"
            reached = {
                self._owner(module, member, set())
                for _, module, member in mine
                if not (passes_on and module.startswith(name))
            }
            graph[path] = {self.files[module] for module in reached if module in self.files} - {path}
        return graph

    def _owner(self, module: str, member: str, visited: set[tuple[str, str]]) -> str:
        if f"{module}.{member}" in self.files:
            return f"{module}.{member}"
        if member in self.passed_on.get(module, {}) and (module, member) not in visited:
            visited.add((module, member))
            target = self.passed_on[module][member]
            return self._owner(*target, visited) if target[0] in self.files else module
        return module


def _imports_that_run(tree: ast.AST) -> Iterable[ast.Import | ast.ImportFrom]:
    """Yield all imports except those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        yield from _imports_that_run(node)


def python_graphs(project: Path) -> dict[str, Graph]:
    """Return the graph of each package below `python`."""
    roots = sorted(path.parent for path in (project / "python").glob("*/__init__.py"))
    return {str(root.relative_to(project)): Package(root).graph() for root in roots}


# ---- circles -----------------------------------------------------------------------------------------------------


def groups(graph: Graph) -> list[list[Path]]:
    """Return the groups of two or more files that all reach each other, the largest first (Tarjan's algorithm)."""
    order: dict[Path, int] = {}
    lowest: dict[Path, int] = {}
    stack: list[Path] = []
    components: list[list[Path]] = []

    def visit(node: Path) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            start = stack.index(node)
            components.append(sorted(stack[start:]))
            del stack[start:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted((group for group in components if len(group) > 1), key=lambda group: (-len(group), group))


def inside_folders(graph: Graph) -> Graph:
    """Return the edges between files of one folder."""
    return {path: {other for other in others if other.parent == path.parent} for path, others in graph.items()}


def report(name: str, graph: Graph, project: Path) -> list[str]:
    """Return a line for each circle that is too large, with the edges within it."""
    lines: list[str] = []
    for group in groups(graph):
        if len(group) > CIRCLE_MAX:
            lines.append(f"{name}: {len(group)} files import each other in a circle")
            for path in group:
                used = ", ".join(str(other.relative_to(project / name)) for other in sorted(graph[path] & set(group)))
                lines.append(f"    {path.relative_to(project / name)} -> {used}")
    return lines


def largest(graphs: Iterable[Graph]) -> int:
    """Return the number of files in the largest group."""
    return max((len(some[0]) for some in map(groups, graphs) if some), default=1)


def main(project: Path) -> int:
    """Print every circle that is too large; return 1 if there is one."""
    graphs = rust_graphs(project) | python_graphs(project)
    lines = [line for name, graph in graphs.items() for line in report(name, graph, project)]
    inside = largest(map(inside_folders, graphs.values()))
    lines.append(
        f"circles: {sum(map(len, graphs.values()))} files; the largest circle has {largest(graphs.values())} files, "
        f"inside one folder {inside} (at most {CIRCLE_MAX})"
    )
    print("\n".join(lines))
    return 1 if len(lines) > 1 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT))
