"""Starts the command line: ``python -m tamis`` and the console script ``tamis``."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and end the process with its exit code; without the extra, say how to get it and exit 2."""
    gc.disable()  # what imports make is no garbage, and to look for some takes a tenth of the start
    try:
        import typer  # noqa: F401 - that it is there

        from tamis.cli import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("typer", "rich"):
            raise
        print("error: the command line needs its extra\n  pip install 'tamis[cli]'", file=sys.stderr)
        sys.exit(2)
    gc.enable()
    sys.exit(run())


if __name__ == "__main__":
    main()
