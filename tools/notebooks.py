"""Runs the notebooks of examples/notebooks and writes what they print into them.

A notebook's cells run as one program in the notebook's folder; what a cell prints is its output. So the outputs that
readers see are those of today, without Jupyter.

    python -m tools.notebooks"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "examples" / "notebooks"


def notebooks() -> list[Path]:
    """The notebooks, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    """A notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def outputs(notebook: dict[str, Any]) -> list[str]:
    """What stands in a notebook as the output of each cell with code."""
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    return ["".join(line for output in cell["outputs"] for line in output["text"]) for cell in cells]


def run(notebook: dict[str, Any]) -> list[str]:
    """What each cell with code prints now."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    with contextlib.chdir(FOLDER):
        for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile("".join(cell["source"]), f"<cell {number}>", "exec"), names)  # noqa: S102 - our own cells
            printed.append(output.getvalue())
    return printed


def markdown(notebook: dict[str, Any]) -> str:
    """A notebook as a page: its text, its code, and what that prints."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += ["```text\n" + "".join(output["text"]).rstrip("\n") + "\n```" for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def write() -> None:
    """Run each notebook, and put what it prints into it."""
    for path in notebooks():
        notebook = read(path)
        codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, (cell, text) in enumerate(zip(codes, run(notebook), strict=True), 1):
            cell["execution_count"] = number
            lines = text.splitlines(keepends=True)
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
