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
        "expensive: no",
        "  FALSE   price > 100  (7)",
        "frost: unknown",
        "  unknown NEAR(body, 'garlic', 'frost', 5)  (None)",
        "  the message lacks: body",
    ]


@pytest.mark.usefixtures("files")
def test_one_query_as_json_from_stdin(tamis: Tamis) -> None:
    done = tamis("explain", "queries.txt", "--message", "-", "--key", "expensive", "--json", stdin='{"price": 101}')
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "key": "expensive",
        "result": True,
        "predicates": [{"text": "price > 100", "value": 101, "result": True}],
        "missing": [],
    }


@pytest.mark.usefixtures("files")
def test_near_leaves_only_queries_that_match_or_nearly_do(tamis: Tamis) -> None:
    def explained(near: int, message: str) -> list[str]:
        done = tamis("explain", "queries.txt", "--message", message, "--near", str(near), "--json")
        return [json.loads(line)["key"] for line in done.stdout.splitlines()]

    message = '{"price": 120, "body": "garlic and frost"}'
    assert explained(0, message) == ["expensive", "frost"]
    assert explained(1, message) == ["expensive", "frost"]
    assert explained(1, '{"author": "James"}') == ["james", "expensive", "frost"]
    assert explained(2, message) == ["james", "expensive", "frost"]


@pytest.mark.usefixtures("files")
def test_a_name_that_the_message_lacks_is_answered_with_one_that_it_has(tamis: Tamis) -> None:
    done = tamis("explain", "queries.txt", "--message", '{"prcie": 7}', "--key", "expensive")
    assert done.stdout.splitlines()[-1] == "  hint: the message has no 'price'; did you mean 'prcie'?"
    done = tamis("explain", "queries.txt", "--message", "{}", "--key", "expensiv")
    assert "no query has the key 'expensiv'; did you mean 'expensive'?" in done.stderr


@pytest.mark.usefixtures("files")
def test_mistakes_are_explained(tamis: Tamis) -> None:
    done = tamis("explain", "queries.txt", "--message", "no json")
    assert (done.returncode, done.stderr.startswith("error: --message: not a message: ")) == (2, True)
    for value in ("9223372036854775808", '"\\ud800"', "[" * 200 + "]" * 200):
        done = tamis("explain", "queries.txt", "--message", '{"a": ' + value + "}")
        assert (done.returncode, done.stderr.startswith("error: --message: not a message: ")) == (2, True), done.stderr
    done = tamis("explain", "queries.txt", "--message", "{}", "--key", "nobody")
    assert (done.returncode, "no query has the key 'nobody'" in done.stderr) == (2, True)
