"""Makes notifications into rows of plain values, which every database and file format can keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tamis.notify.channels.jsonl import as_json
from tamis.store import DueDelivery

Row = Mapping[str, Any]
"""The members of a line of ``jsonl``, and the owner."""

Kind = Literal["text", "int32", "int64", "time", "json", "texts", "ranges"]

COLUMNS: Mapping[str, Kind] = {
    "id": "text",
    "query": "text",
    "version": "int32",
    "text": "text",
    "language": "text",
    "owner": "text",
    "created_at": "time",
    "source": "text",
    "partition": "text",
    "offset": "int64",
    "topic": "text",
    "properties": "json",
    "body": "text",
    "reasons": "texts",
    "highlights": "ranges",
}
"""Column -> kind of its values, in the order of the columns. Only `body` may be null."""


def rows_of(due: Sequence[DueDelivery]) -> tuple[dict[int, Row], dict[int, str]]:
    """Return delivery id -> row, and delivery id -> why there is no row."""
    rows: dict[int, Row] = {}
    failures: dict[int, str] = {}
    for delivery in due:
        try:
            values = as_json(delivery.notification) | {"owner": delivery.owner}
            rows[delivery.delivery_id] = {name: storable(value) for name, value in values.items()}
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            failures[delivery.delivery_id] = f"cannot be written as a row: {error}"
    return rows, failures


def storable(value: Any) -> Any:
    """Return the value with U+FFFD for what not everybody can keep: NUL, and halves of surrogate pairs."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {storable(name): storable(one) for name, one in value.items()}
    return [storable(one) for one in value] if isinstance(value, list) else value
