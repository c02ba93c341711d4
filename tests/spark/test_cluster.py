"""A pipeline on a cluster whose workers do not see the files of the driver, apart from the sources."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis.query import QuerySpec
from tamis.spark.matching.shipping import unpack
from tamis.spark.snapshots import KEPT_MAX
from tamis.store import Store
from tests.adapters.test_feed import rss
from tests.adapters.web import Answer, web_server
from tests.spark import standalone

pytestmark = pytest.mark.spark

PIPELINE = """\
[pipeline]
name = "far"

[spark]
master = "{master}"
options = {{ "spark.executor.memory" = "512m" }}

[[adapter]]
name = "events"
type = "jsonl"
path = "{source}"
settle_ms = 0
"""

MATCH = """\
import os, sys, tamis, tamis.spark
spark = tamis.spark.session(master=sys.argv[1], options={"spark.executor.memory": "512m"})
rows = spark.createDataFrame([(n,) for n in range(4)], ["n"])
def saved(text):
    engine = tamis.Engine()
    engine.add("found", tamis.selector(text))
    engine.save("rules.tamis")
    return tamis.spark.match("rules.tamis")
first = rows.transform(saved("n < 1"))
second = rows.transform(saved("n > 1"))
for frame in (first, second, first):
    print(sorted(row.n for row in frame.collect() if row.matched))
path = os.path.abspath("rules.tamis")
seen = spark.sparkContext.parallelize([path]).map(os.path.exists).collect()
print("the worker sees rules.tamis:", *seen)
rules = {"found": "n = 3"}
with tamis.spark.follow(lambda: rules, folder=sys.argv[2], every_s=3600) as followed:
    frame = rows.transform(tamis.spark.match(followed))
    print(sorted(row.n for row in frame.collect() if row.matched))
    rules = {"found": "n = 3", "other": "n = 0"}
    followed.refresh()
    print(sorted(row.n for row in frame.collect() if row.matched))
tamis.spark.sessions.close_session(spark)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the driver, which the worker sees empty."""
    return tmp_path_factory.mktemp("driver")


@pytest.fixture(scope="module")
def cluster(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.StandaloneCluster]:
    if reason := standalone.why_not():
        pytest.skip(reason)
    with standalone.StandaloneCluster(tmp_path_factory.mktemp("cluster") / "spark", driver) as cluster:
        yield cluster


def start(driver: Path, *command: str) -> subprocess.Popen[str]:
    environment = os.environ | {"TMPDIR": str(driver)}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *command], cwd=driver, env=environment, **output)  # type: ignore[call-overload]


def matched(store: Store) -> set[tuple[str, int]]:
    statement = """SELECT o.query_key, json_extract(m.properties, '$.n') FROM outbox o JOIN messages m
        USING (source, partition, "offset", digest)"""
    with store._read() as connection:
        return {(row[0], row[1]) for row in connection.exec_driver_sql(statement)}


def test_queries_travel_to_workers_that_share_no_folder(
    cluster: standalone.StandaloneCluster, driver: Path, tmp_path: Path
) -> None:
    source, wanted = tmp_path / "events.jsonl", {("small", 0), ("small", 1)}
    (driver / "pipeline.toml").write_text(PIPELINE.format(master=cluster.master, source=source))
    source.write_text('{"n": 0}\n{"n": 1}\n{"n": 2}\n')
    with Store.open(driver / "tamis.sqlite") as store:
        store.add_query(QuerySpec("small", "n < 2"))
        with start(driver, "-m", "tamis", "run") as running:
            try:
                wait_for(wanted, store, running)
                for number in range(10, 16):  # more revisions than an executor keeps
                    store.add_query(QuerySpec("large", f"n = {number}"))
                    with source.open("a") as file:
                        file.write(f'{{"n": {number}}}\n')
                    wanted |= {("large", number)}
                    wait_for(wanted, store, running)
            finally:
                running.send_signal(signal.SIGINT)
            assert running.wait(60) == 0
    left = list((cluster.folder).rglob("queries-*.tamis"))
    assert len(left) <= KEPT_MAX + 1


def test_messages_of_a_live_source_travel_to_workers_that_do_not_see_its_spool(
    cluster: standalone.StandaloneCluster, driver: Path
) -> None:
    folder = driver / "live"
    folder.mkdir()
    with web_server() as web, Store.open(folder / "tamis.sqlite") as store:
        url = web.page("/rss", Answer(200, rss("g1", "g2", "g3")))
        text = PIPELINE.partition("[[adapter]]")[0].format(master=cluster.master)
        (folder / "pipeline.toml").write_text(f'{text}[[adapter]]\nname = "news"\ntype = "feed"\nurl = "{url}"\n')
        store.add_query(QuerySpec("garlic", "CONTAINS(body, 'garlic')"))
        with start(folder, "-m", "tamis", "run", "--once") as running:
            output, error = running.communicate(timeout=240)
        assert running.returncode == 0, output + error
        assert store.counts().notifications == 3


def wait_for(wanted: set[tuple[str, int]], store: Store, running: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 90
    while matched(store) != wanted:
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_snapshot_that_is_replaced_and_rules_that_are_followed_have_the_new_answers(
    cluster: standalone.StandaloneCluster, driver: Path, tmp_path: Path
) -> None:
    with start(driver, "-c", MATCH, cluster.master, str(tmp_path)) as running:
        output, error = running.communicate(timeout=120)
    of_files = ["[0]", "[2, 3]", "[0]", "the worker sees rules.tamis: False"]
    assert output.splitlines() == [*of_files, "[3]", "[0, 3]"], error


def test_an_executor_keeps_what_is_still_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    for number, kept in ((1, 0), (2, 1), (10, 2)):
        path = Path(unpack(f"queries-ab-{number}.tamis", bytes([number]), kept))
        assert path.read_bytes() == bytes([number])
    (tmp_path / "queries-other-1.tamis").touch()
    assert unpack("queries-ab-2.tamis", b"late, and written already", 1).endswith("queries-ab-2.tamis")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "queries-ab-2.tamis": b"\x02",
        "queries-ab-10.tamis": b"\x0a",
        "queries-other-1.tamis": b"",
    }
