"""Matches a whole Arrow table at once, as Spark does inside, and as polars or DuckDB can."""

from __future__ import annotations

import pyarrow as pa

import tamis


def main() -> None:
    """Print the queries that each row satisfies."""
    engine = tamis.Engine()
    engine.add("expensive", tamis.selector("price > 100"))
    engine.add("european", tamis.selector("region IN ('EU', 'UK')"))
    table = pa.table({"price": [120, 7, None], "region": ["EU", "UK", "US"]})  # every column is a property
    for row, ids in zip(table.to_pylist(), engine.match_batch(table, threads=2).to_pylist(), strict=True):
        print(row, engine.keys(ids))


if __name__ == "__main__":
    main()
