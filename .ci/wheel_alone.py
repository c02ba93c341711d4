"""Checks the installed wheel where nothing else is installed: it matches, imports only the standard library, and says
how to get the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run the three checks; the first that fails ends the program."""
    check_imports()
    check_match()
    check_command()
    print("the wheel alone: matches, imports only the standard library, names the extra that the command needs")


def check_imports() -> None:
    """`import tamis` reaches nothing outside the standard library."""
    before = set(sys.modules)  # what the environment itself has loaded
    import tamis

    outside = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names - {"tamis"}
    assert not outside, f"import tamis reached {sorted(outside)}"
    assert Path(tamis.__file__).is_relative_to(sys.prefix), f"not the installed wheel: {tamis.__file__}"


def check_match() -> None:
    """The first example of the README finds its message."""
    import tamis

    engine = tamis.Engine()
    engine.add("james-cnn", tamis.selector("author = 'James' AND source = 'CNN'"))
    engine.add("frost", tamis.near("garlic", "frost", 5))
    matched = engine.match({"author": "James", "source": "CNN"}, body="plant garlic before the first frost")
    assert matched == ["james-cnn", "frost"], matched


def check_command() -> None:
    """Without its extra the command prints the line that installs it, and exits 2."""
    done = subprocess.run([Path(sys.prefix, "bin", "tamis"), "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert "tamis[cli]" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


main()
