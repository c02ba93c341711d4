"""A whole Arrow table at once: polars, DuckDB and pandas hand theirs over the same way, without a copy.

Run it with: python examples/arrow_table.py (needs pyarrow)."""

from __future__ import annotations

import pyarrow as pa

import tamis


def main() -> None:
    """Match three rows, and print the keys of what each satisfies."""
    engine = tamis.Engine()
    engine.add("dear", tamis.selector("price > 100"))
    engine.add("urgent dollars", tamis.fields({"currency": "USD", "urgent": True}))

    table = pa.table(
        {
            "price": [120, 80, None],
            "currency": ["USD", "USD", "EUR"],
            "urgent": [True, True, False],
        }
    )
    for row, ids in zip(table.to_pylist(), engine.match_batch(table).to_pylist(), strict=True):
        print(row, "->", engine.keys(ids))


if __name__ == "__main__":
    main()
