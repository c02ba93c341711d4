"""Imports point one way, and the bare library reaches nothing outside the standard library."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "tamis"
LAYERS = [
    {"_core", "closing", "errors", "loopback", "message", "name_hints", "retry_after", "store_place", "text_file"},
    {"query", "engine", "words", "reference"},
    {"store", "adapters", "http_connection"},
    {"config"},
    {"broker", "client", "notify", "spark", "report"},
    {"demo", "web"},
    {"cli", "__main__"},
]
"""From the bottom to the top: a module imports from its own layer and those below."""

HEAVY = {
    "pyspark": {"spark", "adapters"},
    "pyarrow": {"spark", "adapters", "engine", "notify"},
    "pandas": {"spark"},
    "sqlalchemy": {"store", "notify"},
    "alembic": {"store"},
    "psycopg": {"store", "spark", "notify"},
    "deltalake": {"store"},
    "apprise": {"notify"},
    "typer": {"cli", "__main__"},
    "rich": {"cli", "demo"},
    "selectolax": {"adapters"},
    "aiosmtplib": {"notify"},
    "pydantic": {"broker", "config"},
    "argon2": {"broker"},
    "uvloop": {"broker"},
    "structlog": {"broker"},
    "pika": {"cli", "adapters"},
    "aio_pika": {"client", "notify", "spark"},
    "starlette": {"web", "adapters", "notify"},
    "uvicorn": {"web", "adapters", "http_connection"},
    "jinja2": {"config"},
    "cronsim": {"config", "notify"},
    "httpx2": {"adapters", "notify"},
    "feedparser": {"adapters"},
    "fastfeedparser": {"adapters"},
    "imapclient": {"adapters"},
    "confluent_kafka": {"adapters"},
    "prometheus_client": {"web"},
}
"""Heavy package -> the parts that may import it."""


def layer(part: str) -> int:
    numbers = [number for number, parts in enumerate(LAYERS) if part in parts]
    assert numbers, f"'{part}' stands in no layer: give it a place in LAYERS"
    return numbers[0]


def is_part(name: str) -> bool:
    """Return whether a name is a folder or module directly below `tamis`, not a function or class."""
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def imports(path: Path) -> Iterator[str]:
    """Return every module that a file imports when it runs, except those for type checking only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(path: Path) -> str:
    """Return the folder or module directly below `tamis` that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_its_layer_and_below(path: Path) -> None:
    mine = layer(part_of(path))
    for module in imports(path):
        words = module.split(".")
        if words[0] == "tamis" and len(words) > 1 and is_part(words[1]):
            assert layer(words[1]) <= mine, f"{path.name} imports {module}"
        elif words[0] in HEAVY:
            assert part_of(path) in HEAVY[words[0]], f"{path.name} imports {module}"


def test_the_bare_library_reaches_only_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import tamis\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names - {'tamis'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
