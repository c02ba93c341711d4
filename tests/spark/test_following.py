"""Tests queries that change while streams match with them: those of a store, a file, and a table."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import QuerySpec
from tamis.errors import ConfigError, QueryError, TamisError
from tamis.query import spec
from tamis.spark.matching import following, recorded
from tamis.spark.matching.following import FollowedQueries, follow
from tamis.spark.matching.worker import match_rows, read_state
from tamis.store import Store, revisions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER_S = 3600.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.sqlite") as store:
        yield store


def matched(rules: FollowedQueries, x: int, name: str = "x") -> list[str]:
    """The keys that a worker finds for a row."""
    return sorted(match_rows(read_state(str(rules._state_path)), [name], [pa.array([x])]).to_pylist()[0])


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)), min_size=1, max_size=8),
    st.integers(0, 10),
    st.sampled_from([0, 300, recorded.CHANGES_BYTES_MAX]),
)
@settings(max_examples=60)
def test_workers_match_with_what_the_rules_are_now(
    tmp_path_factory: pytest.TempPathFactory, states: list[dict[str, int]], x: int, bytes_max: int
) -> None:
    rules: dict[str, str] = {}
    folder = tmp_path_factory.mktemp("follow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "CHANGES_BYTES_MAX", bytes_max)
        with follow(lambda: rules, every_s=NEVER_S, folder=folder) as followed:
            for state in states:
                new = {key: f"x > {limit}" for key, limit in state.items()}
                has_changed, rules = new != rules, new
                assert followed.refresh() == has_changed
                assert matched(followed, x) == sorted(key for key, limit in state.items() if x > limit)
                assert len(followed) == len(state)
            assert len(list(folder.glob("*.tamis"))) <= following._FILES_KEPT


def test_a_store_is_followed(store: Store) -> None:
    store.add_queries([QuerySpec("a", "x = 1"), QuerySpec("b", "x >= 1")])
    with follow(store, every_s=NEVER_S) as rules:
        assert matched(rules, 1) == ["a", "b"]
        store.add_query(QuerySpec("a", "x = 2"))
        assert matched(rules, 1) == ["a", "b"], "nobody has looked"
        assert rules.refresh()
        assert (matched(rules, 1), matched(rules, 2)) == (["b"], ["a", "b"])
        store.pause_query("b")
        store.remove_query("a")
        assert rules.refresh()
        assert (matched(rules, 1), matched(rules, 2)) == ([], [])
        store.resume_query("b")
        assert rules.refresh()
        assert not rules.refresh()
        assert matched(rules, 1) == ["b"]


class Clock:
    """Replaces the time."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 23, 12, tzinfo=UTC)

    def now(self, zone: object = None) -> datetime:
        return self.at


def test_a_query_of_a_store_expires(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(revisions, "datetime", clock)
    store.add_queries(
        [QuerySpec("a", "x = 1"), QuerySpec("b", "x = 1", expires_at=clock.at + timedelta(hours=1))],
    )
    with follow(store, every_s=NEVER_S) as rules:
        clock.at += timedelta(minutes=59)
        assert not rules.refresh()
        assert matched(rules, 1) == ["a", "b"]
        clock.at += timedelta(minutes=1)
        assert rules.refresh()
        assert matched(rules, 1) == ["a"]
        assert not rules.refresh()


def test_a_file_is_read_again_when_it_changed_and_stays_as_it_was_while_it_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    with pytest.raises(ConfigError, match=r"queries\.txt"):
        follow(path)
    path.write_text("a: x = 1\n")
    with follow(path, every_s=NEVER_S) as rules:
        assert not rules.refresh()
        path.write_text("a: x = 1\nb: x >= 1\n")
        assert rules.refresh()
        assert matched(rules, 1) == ["a", "b"]
        path.write_text("a: x = 1\nb: x >> 1\n")
        for _ in range(2):
            with pytest.raises(ConfigError, match="line 2: query 'b'"):
                rules.refresh()
        assert matched(rules, 1) == ["a", "b"]
        path.unlink()
        with pytest.raises(ConfigError, match=r"queries\.txt"):
            rules.refresh()
        path.write_text("b: x = 1\n")
        assert rules.refresh()
        assert matched(rules, 1) == ["b"]


def test_hierarchies_of_a_file_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "queries.toml"
    query = '[[query]]\nkey = "q"\ntext = "x UNDER \'all\'"\n'
    path.write_text(query + '[[hierarchy]]\nattribute = "x"\nparents = { one = "all", all = "" }\n')

    def found(rules: FollowedQueries, value: str) -> Any:
        return match_rows(read_state(str(rules._state_path)), ["x"], [pa.array([value])]).to_pylist()

    with follow(path, every_s=NEVER_S) as rules:
        assert (found(rules, "one"), found(rules, "two")) == ([["q"]], [[]])
        path.write_text(query + '[[hierarchy]]\nattribute = "x"\nparents = { two = "all", all = "" }\n')
        assert rules.refresh()
        assert (found(rules, "one"), found(rules, "two")) == ([[]], [["q"]])
        path.write_text(query)
        with pytest.raises(ConfigError, match="query 'q': UNDER needs a hierarchy of 'x'"):
            rules.refresh()


def test_a_query_of_a_file_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(spec, "datetime", clock)
    monkeypatch.setattr(following, "datetime", clock)
    path = tmp_path / "queries.toml"
    later = clock.at + timedelta(hours=1)
    path.write_text(f'[[query]]\nkey = "q"\ntext = "x = 1"\nexpires = {later.isoformat()}\n')
    with follow(path, every_s=NEVER_S) as rules:
        assert not rules.refresh()
        assert matched(rules, 1) == ["q"]
        clock.at = later
        assert rules.refresh()
        assert matched(rules, 1) == []
        assert not rules.refresh()


def await_(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, at most a minute."""
    for _ in range(1200):
        if is_so():
            return
        threading.Event().wait(0.05)
    pytest.fail("it never was so")


def test_changes_are_found_without_being_asked_for_and_failures_are_told(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Any] = [{"a": "x = 1"}]

    def rules() -> Any:
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return answers[-1]

    with follow(rules, every_s=0.01) as followed:
        answers.append({"b": "x = 1"})
        await_(lambda: matched(followed, 1) == ["b"])
        answers.append(OSError("the catalogue is away"))
        await_(lambda: followed.failure is answers[-1])
        answers.append({"c": "x = 1"})
        await_(lambda: matched(followed, 1) == ["c"])
        await_(lambda: followed.failure is None)
    assert caplog.text.count("followed queries stay as they are: the catalogue is away") == 1
    answers.append({"d": "x = 1"})
    assert not followed._thread.is_alive()


def test_a_full_disk_is_told_and_the_change_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"a": "x = 1"}
    with follow(lambda: dict(rules), every_s=NEVER_S) as followed:
        rules["b"] = "x = 1"

        def no_space(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", no_space)
            with pytest.raises(OSError, match="No space"):
                followed.refresh()
        assert matched(followed, 1) == ["a"]
        assert followed.refresh()
        assert matched(followed, 1) == ["a", "b"]


def test_what_cannot_be_followed_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(TamisError, match=r"expected an open store, .* not dict"):
        follow({"a": "x = 1"})
    with pytest.raises(TamisError, match="a store has its own"):
        follow(store, hierarchies={"x": {"a": None}})
    with pytest.raises(ValueError, match="every_s: expected a positive number of seconds, not 0"):
        follow(store, every_s=0)
    with pytest.raises(QueryError):
        follow(lambda: {"a": "x >> 1"})
    with follow(store, every_s=NEVER_S) as rules:
        far = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://far:7077", pythonExec=sys.executable))
        with pytest.raises(TamisError, match="expected folder='...', which all machines have"):
            rules.publish(far)  # type: ignore[arg-type]
        with pytest.raises(TamisError, match="followed queries have theirs"):
            following_match(rules, {"x": {"a": None}})
    with follow(store, every_s=NEVER_S, folder=tmp_path) as rules:
        rules.publish(far)  # type: ignore[arg-type]


def following_match(rules: FollowedQueries, hierarchies: Any) -> None:
    from tamis.spark import match

    match(rules, hierarchies=hierarchies)


Changing = tuple[Any, Callable[[dict[str, str]], None]]
"""What is followed, and how it gets other queries."""


@contextmanager
def _in_store(spark: SparkSession, folder: Path) -> Iterator[Changing]:
    with Store.open(folder / "s.sqlite") as store:

        def put(rules: dict[str, str]) -> None:
            for record in store.list_queries():
                if record.key not in rules:
                    store.remove_query(record.key)
            store.add_queries(QuerySpec(key, text) for key, text in rules.items())

        yield store, put


@contextmanager
def _in_file(spark: SparkSession, folder: Path) -> Iterator[Changing]:
    path = folder / "queries.txt"

    def put(rules: dict[str, str]) -> None:
        path.write_text("".join(f"{key}: {text}\n" for key, text in rules.items()))

    yield path, put


@contextmanager
def _in_table(spark: SparkSession, folder: Path) -> Iterator[Changing]:
    path = str(folder / "rules")

    def put(rules: dict[str, str]) -> None:
        spark.createDataFrame(list(rules.items()), "key string, text string").write.mode("overwrite").parquet(path)

    yield lambda: spark.read.parquet(path), put


Home = Callable[["SparkSession", Path], AbstractContextManager[Changing]]


@pytest.mark.spark
@pytest.mark.parametrize("home", [_in_store, _in_file, _in_table])
def test_a_stream_matches_with_queries_that_were_added_while_it_runs(
    spark: SparkSession, tmp_path: Path, home: Home
) -> None:
    from tamis.spark import match

    incoming, table = tmp_path / "in", f"hits{home.__name__}"
    incoming.mkdir()
    stream = spark.readStream.schema("id int, price int, region string").json(str(incoming))

    def arrive(number: int, price: int, region: str) -> None:
        new = tmp_path / f"{number}.json"
        new.write_text(f'{{"id": {number}, "price": {price}, "region": "{region}"}}\n')
        new.replace(incoming / new.name)
        query.processAllAvailable()

    with home(spark, tmp_path) as (source, put):
        put({"a": "price < 10", "b": "price > 50"})
        with follow(source, every_s=NEVER_S) as rules:
            query = stream.transform(match(rules)).writeStream.format("memory").queryName(table).start()
            try:
                arrive(1, 5, "EU")
                put({"a": "price < 10", "c": "region = 'EU'"})  # no query before asked for the region
                assert rules.refresh()
                arrive(2, 99, "EU")
                put({"c": "region = 'US'"})
                assert rules.refresh()
                arrive(3, 5, "US")
            finally:
                query.stop()
    assert {row.id: row.matched for row in spark.table(table).collect()} == {1: ["a"], 2: ["c"], 3: ["c"]}


@pytest.mark.spark
def test_the_sql_function_follows_too(spark: SparkSession) -> None:
    from tamis.spark import register_function

    rules = {"cheap": "price < 10"}
    with follow(lambda: rules, every_s=NEVER_S) as followed:
        register_function(spark, followed, "tamis_followed")
        ask = "SELECT tamis_followed(struct(price)) AS m FROM VALUES (5), (50) AS offers(price)"
        assert [row.m for row in spark.sql(ask).collect()] == [["cheap"], []]
        rules = {"cheap": "price < 10", "expensive": "price > 10"}
        followed.refresh()
        assert [row.m for row in spark.sql(ask).collect()] == [["cheap"], ["expensive"]]
