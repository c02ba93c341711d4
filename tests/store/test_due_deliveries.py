"""Due deliveries come page by page; a page is bounded by the size of its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.query import QuerySpec
from tamis.store import Outcome, Store, outbox
from tests.store.rows import message, result

COUNT, TEXT = 50, "x" * 300


def test_a_page_ends_where_its_messages_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PAGE_CHARACTERS", 2_000)
    with Store.open(tmp_path / "tamis.sqlite") as store:
        store.add_query(QuerySpec("frost", "subject LIKE '%'", deliveries=("outbox",)))
        store.pin_batch("s", 0)
        store.commit_batch("s", 0, result((message(number, text=TEXT) for number in range(COUNT)), ["frost"]))
        found: list[int] = []
        while page := store.due_deliveries("outbox", 500):
            assert len(page) < 10
            found += [one.notification.offset for one in page]
            store.record_outcomes(Outcome(one.delivery_id, "delivered") for one in page)
        assert sorted(found) == list(range(COUNT))
