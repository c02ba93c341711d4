"""The broker reads queries of the store by key, and finds those that have changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import tamis
from tamis import QuerySpec
from tamis.broker import stored_queries
from tamis.broker.stored_queries import SILENT, StoredQueries
from tamis.store import Store

WAIT_S = 1.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        yield store


@pytest.fixture
def queries(tmp_path: Path, store: Store) -> StoredQueries:
    return StoredQueries(tmp_path / "tamis.sqlite")


def test_a_query_is_found_as_it_is_now(store: Store, queries: StoredQueries) -> None:
    assert queries.get("expensive", WAIT_S) is None
    store.add_query(QuerySpec("expensive", "price > 1"))
    store.add_query(QuerySpec("expensive", "price == 2", "boolean"))
    assert queries.get("expensive", WAIT_S) == ("boolean", "price == 2")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("topic", "forex.*.usd"),
        ("near", "disk full 5"),
        ("later", "a"),
    ],
)
def test_a_query_is_handed_over_in_its_own_language(
    store: Store,
    queries: StoredQueries,
    monkeypatch: pytest.MonkeyPatch,
    language: str,
    text: str,
) -> None:
    with monkeypatch.context() as patch:
        # The store knows a language of a version that comes after the broker's.
        patch.setattr("tamis.query.spec.compile_query", lambda text, language: tamis.selector("TRUE"))
        store.add_query(QuerySpec("q", text, language))
    assert queries.get("q", WAIT_S) == (language, text)
    assert queries.changes(WAIT_S) == {"q": (language, text)}
    assert queries.begin(["q"], WAIT_S) == {"q": (language, text)}


def test_changes_are_what_is_new_or_other_since_the_last_call(store: Store, queries: StoredQueries) -> None:
    store.add_queries([QuerySpec("a", "n = 1"), QuerySpec("b", "n = 1"), QuerySpec("c", "n = 1")])
    assert queries.begin(["a", "c", "nobody's"], WAIT_S) == {"a": ("selector", "n = 1"), "c": ("selector", "n = 1")}
    assert queries.changes(WAIT_S) == {}
    store.add_query(QuerySpec("a", "n = 2"))
    store.add_query(QuerySpec("d", "n = 3"))
    assert queries.changes(WAIT_S) == {"a": ("selector", "n = 2"), "d": ("selector", "n = 3")}
    assert queries.changes(WAIT_S) == {}
    store.add_query(QuerySpec("a", "n = 4"))
    store.add_query(QuerySpec("a", "n = 5"))
    store.remove_query("b")
    assert queries.changes(WAIT_S) == {"a": ("selector", "n = 5")}
    assert queries.changes(WAIT_S) == {}


def test_many_keys_and_many_changes_come_in_pieces(
    store: Store, queries: StoredQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_queries(QuerySpec(f"q{number}", "n = 1") for number in range(1_200))
    keys = [f"q{number}" for number in range(2_000)]
    assert len(queries.begin(keys, WAIT_S)) == 1_200
    monkeypatch.setattr(stored_queries, "CHANGES_MAX", 5)
    store.add_queries(QuerySpec(f"q{number}", "n = 2") for number in range(7))
    store.add_queries(QuerySpec(f"q{number}", "n = 3") for number in range(7, 12))
    pieces = [queries.changes(WAIT_S) for _ in range(4)]
    assert [len(piece) for piece in pieces] == [5, 5, 2, 0]
    assert {key for piece in pieces for key in piece} == {f"q{number}" for number in range(12)}


def test_a_store_that_is_not_there_yet_has_no_changes_and_one_that_is_broken_says_so(tmp_path: Path) -> None:
    path = tmp_path / "later.sqlite"
    queries = StoredQueries(path)
    assert queries.begin(["a"], WAIT_S) == {}
    assert queries.changes(WAIT_S) == {}
    with Store.open(path) as store:
        store.add_query(QuerySpec("a", "n = 1"))
        assert queries.changes(WAIT_S) == {"a": ("selector", "n = 1")}
    path.write_bytes(b"no database" * 1_000)
    with pytest.raises(LookupError, match="the store cannot be read"):
        queries.changes(WAIT_S)


def test_a_writer_is_not_in_the_way(tmp_path: Path, store: Store, queries: StoredQueries) -> None:
    store.add_query(QuerySpec("a", "n = 1"))
    with closing(sqlite3.connect(tmp_path / "tamis.sqlite", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert queries.changes(0.01) == {"a": ("selector", "n = 1")}


def test_a_query_that_is_paused_or_expired_asks_for_nothing(
    store: Store, queries: StoredQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    store.add_queries(QuerySpec(key, "n = 1", expires_at=now + timedelta(hours=1)) for key in "abcdefg")
    assert queries.begin("abcdefg", WAIT_S) == dict.fromkeys("abcdefg", ("selector", "n = 1"))
    store.pause_query("a")
    assert queries.changes(WAIT_S) == {"a": SILENT}
    assert queries.get("a", WAIT_S) == SILENT
    store.resume_query("a")
    assert queries.changes(WAIT_S) == {"a": ("selector", "n = 1")}
    # An hour later nothing is written into the store, and all expire at once.
    monkeypatch.setattr(stored_queries, "_now", lambda: f"{now + timedelta(hours=1):%Y-%m-%d %H:%M:%S.%f}")
    monkeypatch.setattr(stored_queries, "CHANGES_MAX", 4)
    pieces = [queries.changes(WAIT_S) for _ in range(3)]
    assert [sorted(piece) for piece in pieces] == [list("abcd"), list("efg"), []]
    assert {text for piece in pieces for text in piece.values()} == {SILENT}
    assert queries.get("a", WAIT_S) == SILENT
    assert StoredQueries(store.path).begin(["b"], WAIT_S) == {"b": SILENT}
    store.expire_query("b", None)
    assert queries.changes(WAIT_S) == {"b": ("selector", "n = 1")}


def test_a_store_of_a_version_without_expiry_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent.parent / "store" / "version_1.sql").read_text())
        (key, language, text) = connection.execute("SELECT key, language, text FROM query_versions").fetchone()
    queries = StoredQueries(path)
    assert queries.get(key, WAIT_S) == (language, text)
    assert queries.changes(WAIT_S) == {key: (language, text)}
