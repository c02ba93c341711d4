from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Tamis


@pytest.mark.usefixtures("files")
def test_each_query_says_why(tamis: Tamis) -> None:
    done = tamis("explain", "queries.txt", "--message", '{"author": "James", "price": 7}')
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "james: unknown",
        "  true    author = 'James'  ('James')",
        "  unknown source = 'CNN'  (None)",
        "  the message lacks: source",
        "dear: no",
        "  FALSE   price > 100  (7)",
        "frost: unknown",
        "  unknown NEAR(body, 'garlic', 'frost', 5)  (None)",
        "  the message lacks: body",
    ]


@pytest.mark.usefixtures("files")
def test_one_query_as_json_from_stdin(tamis: Tamis) -> None:
    done = tamis("explain", "queries.txt", "--message", "-", "--key", "dear", "--json", stdin='{"price": 101}')
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "key": "dear",
        "result": True,
        "predicates": [{"text": "price > 100", "value": 101, "result": True}],
        "missing": [],
    }


@pytest.mark.usefixtures("files")
def test_mistakes_are_explained(tamis: Tamis) -> None:
    done = tamis("explain", "queries.txt", "--message", "no json")
    assert (done.returncode, done.stderr.startswith("error: --message: no message: ")) == (2, True)
    done = tamis("explain", "queries.txt", "--message", "{}", "--key", "nobody")
    assert (done.returncode, "no query has the key 'nobody'" in done.stderr) == (2, True)
