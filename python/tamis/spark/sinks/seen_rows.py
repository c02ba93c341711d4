"""Divides the rows of a batch into those that matched or could not be read, and notes of all that were read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tamis.store.seen import SeenMessage

_ROWS = 1_000  # rows of Arrow that are converted to Python at a time
R = TypeVar("R", pa.Table, pa.RecordBatch)


def results_of(rows: R) -> R:
    """Return the rows that matched or could not be read, of the rows of a `Matching` with all that were seen."""
    matched = pc.greater(_match_counts(rows), 0)
    results: R = rows.filter(pc.or_(pc.is_valid(rows["error"]), matched))
    return results


def seen_of(rows: pa.Table | pa.RecordBatch) -> Iterator[SeenMessage]:
    """Return the messages that could be read, of the rows of a `Matching` with all that were seen."""
    names = ("partition", "offset", "digest", "message_id")
    for start in range(0, rows.num_rows, _ROWS):
        some = rows.slice(start, _ROWS)
        some = some.filter(pc.is_null(some["error"]))
        columns = [some[name] for name in names] + [_match_counts(some)]
        yield from map(SeenMessage._make, zip(*(column.to_pylist() for column in columns), strict=True))


def _match_counts(rows: pa.Table | pa.RecordBatch) -> pa.Int32Array:
    return pc.fill_null(pc.list_value_length(rows["ids"]), 0)
