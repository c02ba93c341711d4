"""Writes the table of the broker's limits into docs/broker.md, from the definitions of the settings."""

import re
from pathlib import Path

from tamis.broker.limits import table

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "broker.md"
TABLE = re.compile(r"^\| what \| maximum \| setting \|.*?(?=\n\n)", re.MULTILINE | re.DOTALL)


def write() -> None:
    """Replace the table in docs/broker.md."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(TABLE.sub(lambda _: table(), text), encoding="utf-8")


if __name__ == "__main__":
    write()
