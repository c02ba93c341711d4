from __future__ import annotations

import json
from pathlib import Path

from tamis.store import Store
from tests.cli.conftest import Tamis
from tests.store.rows import fill

LINES = """\
{"subject": "Frost tonight", "price": 5, "region": "EU"}
{"subject": "Frost again", "price": 50, "region": "EU"}
{"subject": "Sun", "price": 500, "region": "US"}
not json
"""


def test_a_query_is_tried_on_a_file(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(LINES)
    done = tamis("query", "try", "price > 10 AND region = 'EU'", "in.jsonl")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "price > 10 AND region = 'EU'",
        "matches 1 of 3 messages, 1 could not be read",
        "  line 2: Frost again",
        "    price > 10  (50)",
        "    region = 'EU'  (EU)",
        "nearly matches 2 messages: each fails by 1 predicate",
        "       1 x  price > 10",
        "       1 x  region = 'EU'",
        "  line 3: Sun",
        "    fails: region = 'EU'  (US)",
        "  line 1: Frost tonight",
        "    fails: price > 10  (5)",
    ]
    told = json.loads(tamis("query", "try", "prize > 10", "in.jsonl", "--json").stdout)
    assert (told["matched"], told["missed"], told["failed"]) == (0, {"1": 3}, {"prize > 10": 3})
    assert told["near_misses"][0]["hints"] == ["the message has no 'prize'; did you mean 'price'?"]
    assert tamis("query", "try", "prize > 10", "in.jsonl").returncode == 1
    last = json.loads(tamis("query", "try", "region = 'EU'", "in.jsonl", "--last", "2", "--json").stdout)
    assert (last["read"], last["bad"], last["matched"]) == (1, 1, 0)


def test_a_query_is_tried_on_what_the_store_keeps(tamis: Tamis, tmp_path: Path) -> None:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        fill(store, 3)
    told = json.loads(tamis("query", "try", "subject = 'message 1' AND topic = 'mail.inbox'", "--json").stdout)
    assert (told["read"], told["matched"]) == (3, 1)
    assert [it["message"]["subject"] for it in told["near_misses"]] == ["message 2", "message 0"]
    assert tamis("query", "list", "--json").stdout.count("\n") == 1  # nothing was stored
