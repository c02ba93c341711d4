"""A store on a PostgreSQL server opens, and what keeps it from it is said in one sentence."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError, StoreError, StoreLostError
from tamis.query import QuerySpec
from tamis.store import Outcome, Store
from tamis.store import postgres as postgres_module
from tamis.store.models import metadata
from tamis.store_place import ServerUrl
from tests.postgres_server import Server
from tests.store.rows import fill


def test_a_store_is_made_and_opened_again(postgres: Server) -> None:
    url = postgres.new_database()
    with pytest.raises(StoreError, match="no store here; `tamis query add`"):
        Store.open(url, create=False)
    with Store.open(url) as store:
        store.add_query(QuerySpec("k", "a = 1"))
        assert store.is_current()
    assert [record.key for record in Store.peek(url)[0]] == ["k"]
    with Store.open(url, create=False) as store:
        assert [record.key for record in store.list_queries()] == ["k"]


def test_a_store_of_an_older_version_gets_wide_numbers(postgres: Server) -> None:
    url = postgres.new_database()
    database = url.rpartition("/")[2]
    Store.open(url).close()
    for table, column in (("adapters", "read_count"), ("adapters", "dead_count"), ("delivery_steps", "delivery_id")):
        postgres.sql(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE integer", database)
    for index in ("query_versions_from", "query_versions_to"):  # of version 13
        postgres.sql(f"DROP INDEX {index}", database)
    postgres.sql("DROP TABLE seen", database)  # of version 14, as the next
    postgres.sql("ALTER TABLE batches DROP COLUMN tables", database)
    postgres.sql("UPDATE alembic_version SET version_num = '0011'", database)
    with Store.open(url) as store:
        with store._read() as connection:
            found = compare_metadata(MigrationContext.configure(connection), metadata)
            assert not [one for one in found if isinstance(one, list)], "types of columns"
        for _ in range(2):
            store.report_adapter("inbox", "running", read_count=2**31, dead_count=2**31)
        (state,) = store.adapter_states(["inbox"])
        assert (state.read_count, state.dead_count) == (2**32, 2**32)
        fill(store, 1)
        postgres.sql(f"UPDATE deliveries SET id = {2**40}", database)
        (due,) = store.due_deliveries("outbox", 9)
        store.record_outcomes([Outcome(due.delivery_id, "pending", "later", datetime.now(UTC))])
        assert [step.reason for step in store.delivery_steps([due.notification.id])] == ["later"]


def test_a_check_makes_no_tables(postgres: Server) -> None:
    url = postgres.new_database()
    assert Store.peek(url) == ([], [])
    assert postgres.sql("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", url.rpartition("/")[2]) == []


def test_two_stores_share_a_database_by_schemas(postgres: Server) -> None:
    url = postgres.new_database()
    for name in ("one", "two"):
        postgres.sql(f"CREATE SCHEMA {name}", url.rpartition("/")[2])
        with Store.open(f"{url}?options=-csearch_path%3D{name}") as store:
            assert store.list_queries() == []
            store.add_query(QuerySpec(name, "a = 1"))
            assert [record.key for record in store.list_queries()] == [name]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda url: url.replace("tamis@", "nobody@"), "wrong user or password: give it in PGPASSWORD"),
        (lambda url: url.rpartition("/")[0] + "/absent", "make it with createdb"),
        (lambda url: url.replace("127.0.0.1:", "127.0.0.1:1?").partition("?")[0] + "/d", "the server does not answer"),
    ],
)
def test_a_server_that_refuses_or_is_gone_is_one_sentence(postgres: Server, change: object, told: str) -> None:
    url = change(postgres.new_database())  # type: ignore[operator]
    with pytest.raises(StoreError, match=told) as raised:
        Store.open(url)
    assert "\n" not in str(raised.value)


def test_a_wrong_password_is_not_tried_again(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(StoreError, match="wrong user or password"):
        Store.open(postgres.new_database())


def test_a_user_without_rights_is_told(postgres: Server) -> None:
    url = postgres.new_database()
    postgres.sql("CREATE USER guest PASSWORD 'not a secret: of a server for tests'")
    with pytest.raises(StoreError, match="this user lacks a right: let it own the schema"):
        Store.open(url.replace("tamis@", "guest@"))
    with Store.open(url) as store:
        store.add_query(QuerySpec("k", "a = 1"))
    with pytest.raises(StoreError, match="lacks a right"):
        Store.open(url.replace("tamis@", "guest@"))


def test_tables_of_another_program_and_of_a_newer_version_are_refused(postgres: Server) -> None:
    url = postgres.new_database()
    database = url.rpartition("/")[2]
    postgres.sql("CREATE TABLE messages (id int)", database)
    with pytest.raises(StoreError, match="tables of another program"):
        Store.open(url)
    url = postgres.new_database()
    Store.open(url).close()
    postgres.sql("UPDATE alembic_version SET version_num = '0999'", url.rpartition("/")[2])
    with pytest.raises(StoreError, match="the store is of version 999"):
        Store.open(url)


def test_a_password_in_the_url_is_refused(tmp_path: Path) -> None:
    for text in ("postgresql://ann:hidden@host/tamis", "postgresql://host/tamis?password=hidden"):
        with pytest.raises(StoreError, match="PGPASSWORD") as raised:
            Store.open(text)
        assert "hidden" not in str(raised.value)
    file = tmp_path / "pipeline.toml"
    file.write_text('[pipeline]\nstore = "postgresql://ann:hidden@host/tamis"\n')
    with pytest.raises(ConfigError, match=r"line 2: store: the URL of the store has a password"):
        PipelineConfig.load(file)


def test_a_url_in_a_pipeline_is_no_path(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[pipeline]\nstore = "postgresql://ann@host/tamis"\n')
    assert PipelineConfig.load(file).store_path == ServerUrl("postgresql://ann@host/tamis")
    for wrong, told in (
        ("mysql://host/tamis", "expected a path, sqlite"),
        ("postgresql://host", "no database is named"),
    ):
        file.write_text(f'[pipeline]\nstore = "{wrong}"\n')
        with pytest.raises(ConfigError, match=told):
            PipelineConfig.load(file)


def test_a_server_that_restarts_between_two_calls_is_waited_for(postgres: Server) -> None:
    with Store.open(postgres.new_database()) as store:
        fill(store, 3)
        postgres.stop()
        starter = threading.Timer(0.5, postgres.start)
        starter.start()
        try:
            assert store.counts().notifications == 3
        finally:
            starter.join()
        with pytest.raises(StoreLostError, match="the server went away"), store._write() as connection:
            postgres.stop()
            postgres.start()
            connection.exec_driver_sql("SELECT 1")


def test_a_server_that_stays_away_is_one_sentence(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_module, "WAIT_S", 0.5)
    with Store.open(postgres.new_database()) as store:
        postgres.stop()
        try:
            with pytest.raises(StoreError, match="the server does not answer; start it"):
                store.counts()
        finally:
            postgres.start()
        assert store.counts().notifications == 0


def test_writers_come_one_after_another(postgres: Server) -> None:
    url = postgres.new_database()
    Store.open(url).close()
    add = (
        "import sys; from tamis.query import QuerySpec; from tamis.store import Store\n"
        "with Store.open(sys.argv[1]) as store:\n"
        "    for number in range(20): store.add_query(QuerySpec(f'{sys.argv[2]}{number}', 'a = 1'))\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", add, url, name]) for name in "abc"]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    with Store.open(url) as store:
        assert store.revision() == len(store.list_queries()) == 60


def test_a_query_is_added_while_a_large_batch_is_committed(postgres: Server) -> None:
    with Store.open(postgres.new_database()) as store:
        store.pin_batch("s", 0)
        with store._engine.begin() as connection:
            store._lock_rows(connection)  # as the commit of a batch does
            began = time.monotonic()
            store.add_query(QuerySpec("k", "a = 1"))
        assert time.monotonic() - began < postgres_module.WAIT_S
