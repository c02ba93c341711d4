from __future__ import annotations

import json

from tests.cli.conftest import Tamis


def test_who_has_unsubscribed_is_listed_added_and_removed(tamis: Tamis) -> None:
    tamis("query", "add", "frost", "a = 1")
    assert tamis("unsubscribed", "add", "Ann@example.org", "--query", "frost").returncode == 0
    assert tamis("unsubscribed", "add", "ben@example.org").returncode == 0
    (first, second) = [json.loads(line) for line in tamis("unsubscribed", "list", "--json").stdout.splitlines()]
    assert (first["address"], first["query_key"]) == ("ann@example.org", "frost")
    assert (second["address"], second["query_key"]) == ("ben@example.org", "")
    assert "all" in tamis("unsubscribed", "list").stdout
    assert tamis("unsubscribed", "remove", "ann@example.org").stderr == "ann@example.org gets e-mails again\n"
    done = tamis("unsubscribed", "remove", "ann@example.org")
    assert (done.returncode, "has not unsubscribed" in done.stderr) == (2, True)
