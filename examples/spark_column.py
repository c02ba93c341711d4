"""Standing queries as a column of a Spark job of your own: here over JSON lines, one message each.

Run it with: python examples/spark_column.py (needs tamis[spark] and Java 17; a session takes some seconds to start)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tamis.spark

QUERIES = """
dear: price > 100
james: author = 'James'
"""
MESSAGES = """{"author": "James", "price": 120}
{"author": "Jane", "price": 7}
"""


def main() -> None:
    """Read, match, show."""
    with tempfile.TemporaryDirectory() as folder:
        queries, messages = Path(folder, "queries.txt"), Path(folder, "messages.jsonl")
        queries.write_text(QUERIES, encoding="utf-8")
        messages.write_text(MESSAGES, encoding="utf-8")
        spark = tamis.spark.session()
        rows = spark.read.format("tamis.jsonl").load(str(messages))
        rows.transform(tamis.spark.match(str(queries))).select("properties", "matched").show(truncate=False)
        spark.stop()


if __name__ == "__main__":
    main()
