"""The notebooks run, and print what stands in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.notebooks import FOLDER, markdown, notebooks, outputs, read

PROJECT = Path(__file__).resolve().parents[2]
RUN = "import json, sys; from tools.notebooks import read, run; from pathlib import Path; " + (
    "print('printed:', json.dumps(run(read(Path(sys.argv[1])))))"
)


def printed(name: str) -> list[str]:
    """Return what each cell prints, in a process of its own."""
    command = [sys.executable, "-c", RUN, str(FOLDER / name)]
    environment = {name: value for name, value in os.environ.items() if name != "TAMIS_SHARED"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=PROJECT, env=environment, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    result: list[str] = json.loads(done.stdout.partition("printed: ")[2])
    return result


def test_a_real_rule_set_finds_the_events_that_were_recorded_for_it() -> None:
    name = "sigma_rules.ipynb"
    assert printed(name) == outputs(read(FOLDER / name))
    assert "37 of 37 labels are found\n" in printed(name)


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_users_own_table_with_rules_from_a_table() -> None:
    name = "rules_in_a_table.ipynb"
    assert printed(name) == outputs(read(FOLDER / name))


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_page_has_every_cell_and_what_it_prints(path: Path) -> None:
    notebook = read(path)
    page = markdown(notebook)
    assert page.startswith("# ")
    assert page.count("```python") == sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    assert all(text.rstrip("\n") in page for text in outputs(notebook))
    assert f"../../examples/notebooks/{path.stem}\n" in (PROJECT / "docs/site/index.md").read_text(encoding="utf-8")
