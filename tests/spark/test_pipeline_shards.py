"""A pipeline whose queries are in shards writes what brute force finds, wherever its results go."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis import QuerySpec
from tamis.adapters.sources.mbox import unescape
from tamis.errors import ConfigError
from tamis.spark import Pipeline
from tamis.spark.snapshots import Snapshots
from tests.postgres_server import Server
from tests.spark.conftest import Workshop
from tests.spark.mail import QUERIES, brute_force, outbox, real_messages, write_mbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BY_SENDER = [QuerySpec(f"sender-{number}", f"author LIKE '%' AND n = {number}") for number in range(40)]
NEWSGROUPS = [QuerySpec(f"id-{number}", f"topic = 'mail.{number}' OR list = 'l{number}'") for number in range(40)]
IN_INBOX = [QuerySpec("inbox", "topic = 'mail.inbox' AND list IS NOT NULL")]


def in_shards(workshop: Workshop) -> None:
    workshop.toml = workshop.toml.replace("[queries]", "[queries]\nshards = 3")


@pytest.mark.parametrize("home", ["file", "server"])
def test_the_outbox_is_that_of_brute_force_and_a_second_run_adds_nothing(
    tmp_path: Path, spark: SparkSession, shared: Path, home: str, request: pytest.FixtureRequest
) -> None:
    messages = real_messages(shared, 60)
    server: Server | None = request.getfixturevalue("postgres") if home == "server" else None
    workshop = Workshop(tmp_path, spark, server.new_database()) if server else Workshop(tmp_path, spark)
    in_shards(workshop)
    box, queries = tmp_path / "inbox", [*QUERIES, *BY_SENDER, *NEWSGROUPS, *IN_INBOX]
    offsets = write_mbox(box, messages)
    workshop.adapter("inbox", "mbox", box, max_messages=25)
    with workshop.store as store:
        store.add_queries(queries)
        summary = workshop.run()
        wanted = brute_force("inbox", str(box), list(zip(offsets, map(unescape, messages), strict=True)), queries)
        assert sorted(outbox(store)) == sorted(wanted)
        assert any(match[0] == "inbox" for match in wanted)
        assert summary.notifications == len(wanted) == sum(summary.by_query.values())
        assert (summary.read, summary.batches) == (60, 3)
        assert summary.match_us_p50 is not None
        assert len(list((tmp_path / "work").glob("queries-*.npy"))) == 3
        assert workshop.run().read == 0
        assert sorted(outbox(store)) == sorted(wanted)


def test_delta_tables_hold_what_brute_force_finds(tmp_path: Path, spark: SparkSession, shared: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'tamis[delta]'")
    messages = real_messages(shared, 30)
    workshop, box = Workshop(tmp_path, spark), tmp_path / "inbox"
    workshop.toml = '[pipeline]\nname = "test"\nnotifications = "results"\n[queries]\n'
    in_shards(workshop)
    offsets = write_mbox(box, messages)
    workshop.adapter("inbox", "mbox", box)
    with workshop.store as store:
        store.add_queries([*QUERIES, *NEWSGROUPS])
        workshop.run()
        rows = deltalake.DeltaTable(str(tmp_path / "results" / "notifications")).to_pyarrow_table().to_pylist()
    names = ("query_key", "query_version", "source", "partition", "offset")
    wanted = brute_force("inbox", str(box), list(zip(offsets, map(unescape, messages), strict=True)))
    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(wanted)


def test_an_edit_is_matched_by_the_next_batch_and_writes_no_shards(
    workshop: Workshop, in_background: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_shards(workshop)
    lines = workshop.folder / "lines.jsonl"
    workshop.adapter("lines", "jsonl", lines)
    store, numbers = workshop.store, iter(range(100))
    store.add_queries([QuerySpec(f"user-{number}", f"user = 'u{number}'") for number in range(20)])
    pipeline = Pipeline(workshop.config, store, workshop.spark)
    ended = threading.Event()

    def run() -> None:
        try:
            pipeline.run()
        finally:
            ended.set()

    def matched() -> list[str]:
        """Write a message of u3 and return the queries that match it."""
        before = len(outbox(store))
        with lines.open("a") as file:
            file.write(json.dumps({"user": "u3", "n": next(numbers)}) + "\n")
        give_up = time.monotonic() + 60
        while len(outbox(store)) == before:
            assert not ended.wait(0.05), "the pipeline has ended"
            assert time.monotonic() < give_up, "no notification within a minute"
        return sorted(f"{key} {version}" for key, version, *_ in outbox(store)[before:])

    in_background(run)
    try:
        assert matched() == ["user-3 1"]
        cut = sorted((workshop.folder / "work").glob("queries-*.npy"))
        store.add_query(QuerySpec("new", "user = 'u3' AND n > 0"))
        assert matched() == ["new 1", "user-3 1"]
        store.add_query(QuerySpec("user-3", "user = 'u4'"))
        assert matched() == ["new 1"]
        store.add_query(QuerySpec("user-4", "user IN ('u3', 'u4')"))
        assert matched() == ["new 1", "user-4 2"]
        store.remove_query("new")
        assert matched() == ["user-4 2"]
        assert sorted((workshop.folder / "work").glob("queries-*.npy")) == cut
    finally:
        pipeline.stop()


def test_too_many_shards_are_refused_with_the_bound(workshop: Workshop) -> None:
    workshop.toml = workshop.toml.replace("[queries]", "[queries]\nshards = 257")
    with pytest.raises(ConfigError, match="0 to 256 shards, not 257"):
        workshop.config  # noqa: B018


def test_a_store_gives_the_same_queries_one_by_one(workshop: Workshop) -> None:
    workshop.store.add_queries(BY_SENDER)
    revision = workshop.store.revision()
    assert list(workshop.store.each_query_at(revision)) == workshop.store.queries_at(revision)
    with Snapshots(workshop.store, workshop.folder / "work", shards=2).at(revision) as snapshot:
        assert snapshot.names_of([0, 39]) == [("sender-0", 1), ("sender-39", 1)]
