"""A store opens, and every failure to open or write it is explained."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tamis.adapters.rows import Row
from tamis.errors import StoreBusyError, StoreError
from tamis.query import QuerySpec
from tamis.store import MessageRow, NotificationRecord, Store
from tamis.store.models import SCHEMA_VERSION, messages, metadata
from tests.store.rows import message, result

ON_A_FILE = pytest.mark.parametrize("store", ["sqlite"], indirect=True)


def test_a_store_is_made_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "tamis.sqlite"
    with Store.open(path) as store:
        store.add_query(QuerySpec("k", "a = 1"))
    with Store.open(f"sqlite:///{path}", create=False) as store:
        assert [record.key for record in store.list_queries()] == ["k"]


@ON_A_FILE
def test_the_database_is_durable_and_checks_references(store: Store) -> None:
    with store._read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_a_message_has_the_same_columns_from_its_adapter_to_its_notification() -> None:
    columns = MessageRow._fields
    assert tuple(messages.columns.keys()) == columns
    assert {field.name for field in fields(Row)} | {"source"} >= set(columns)
    assert tuple(field.name for field in fields(NotificationRecord))[-len(columns) - 1 : -1] == columns


@ON_A_FILE
def test_migrations_and_models_are_the_same_schema(store: Store) -> None:
    with store._read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    made = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
    with store._read() as connection:
        migrated = connection.exec_driver_sql(made).all()
    with sqlite3.connect(":memory:") as plain:
        from sqlalchemy import create_engine

        engine = create_engine("sqlite://")
        with engine.begin() as connection:
            metadata.create_all(connection)
            assert connection.exec_driver_sql(made).all() == migrated
        engine.dispose()
    plain.close()


def test_a_store_that_is_up_to_date_opens_without_alembic(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    Store.open(path).close()
    program = (
        f"import sys; from tamis.store import Store; Store.open({str(path)!r}).close(); print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("version", [f"{SCHEMA_VERSION + 1:04}", "ae1027a6acf"])
def test_a_store_of_a_newer_version_is_refused(tmp_path: Path, version: str) -> None:
    path = tmp_path / "s.sqlite"
    Store.open(path).close()
    _execute(path, f"UPDATE alembic_version SET version_num = '{version}'")
    with pytest.raises(StoreError, match=rf"s.sqlite: the store is of version {version.lstrip('0')}, .* update tamis"):
        Store.open(path)


@pytest.fixture
def first_version(tmp_path: Path) -> Path:
    """Make a store of the first version, with one notification that a delivery is pending for."""
    path = tmp_path / "old.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript((Path(__file__).with_name("version_1.sql")).read_text())
    connection.close()
    return path


def test_a_store_of_the_first_version_keeps_what_it_holds(first_version: Path) -> None:
    with Store.open(first_version) as store:
        (record,) = store.notifications()
        assert (record.id, record.digest, record.body) == ("n1", "", "Plant the garlic")
        assert record.created_at == datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)
        (due,) = store.due_deliveries("outbox", 9)
        assert (due.attempts, due.recipients, due.notification) == (2, {}, record)
        assert [(letter.reason, letter.raw) for letter in store.dead_letters()] == [("no header", b"\xff")]
        with store._read() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    _is_whole(first_version)


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    _execute(path, "CREATE TABLE songs (name)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_store_in_memory_is_refused() -> None:
    with pytest.raises(StoreError, match="expected its path"):
        Store.open(":memory:")


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, only notes\n" * 100)
    with pytest.raises(StoreError, match="no SQLite database; give another path"):
        Store.open(path)
    assert path.read_text().startswith("not a database")


def test_a_damaged_store_is_told_from_a_good_one(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    Store.open(path).close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"s.sqlite: the store is damaged; restore it"), Store.open(path) as store:
        store.list_queries()


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere does not exist; make it"):
        Store.open(tmp_path / "nowhere" / "s.sqlite")
    with pytest.raises(StoreError, match="no store here; `tamis query add`"):
        Store.open(tmp_path / "s.sqlite", create=False)
    with pytest.raises(StoreError, match="a folder, where the file of a store was expected"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="expected a path, sqlite:///path, or postgresql://"):
        Store.open("mysql://localhost/tamis")
    assert list(tmp_path.iterdir()) == []


def test_a_peek_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    assert Store.peek(path) == ([], [])
    assert not path.exists()
    with Store.open(path) as store:
        store.add_query(QuerySpec("k", "a = 1"))
        store.set_hierarchy("grp", {})
    queries, hierarchies = Store.peek(path)
    assert [record.key for record in queries] == ["k"]
    assert [record.attribute for record in hierarchies] == ["grp"]
    _execute(path, f"UPDATE alembic_version SET version_num = '{SCHEMA_VERSION + 1:04}'")
    with pytest.raises(StoreError, match=f"of version {SCHEMA_VERSION + 1}"):
        Store.peek(path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False)
    if mount.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(small_disk: Path) -> None:
    with Store.open(small_disk / "s.sqlite") as store:
        _until_full(store)
        (small_disk / "s.sqlite-wal").stat()
    _is_whole(small_disk / "s.sqlite")


@ON_A_FILE
def test_a_store_that_may_grow_no_more_is_left_whole(store: Store) -> None:
    pages = 200
    with store._read() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    _until_full(store)
    _is_whole(store.path)


def _until_full(store: Store) -> None:
    """Commit batches until the disk is full; nothing of the last one is stored."""
    store.add_query(QuerySpec("frost", "a = 1"))
    for batch_id in range(1000):
        messages = [message(1000 * batch_id + number)._replace(body="x" * 2000) for number in range(50)]
        try:
            store.pin_batch("s", batch_id)
            store.commit_batch("s", batch_id, result(messages))
        except StoreError as error:
            assert "full; make room and start again" in str(error)
            break
    else:
        pytest.fail("the disk was never full")
    assert 0 < len(store.notification_ids()) == 50 * store.counts().batches


def _is_whole(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        connection.close()


def test_a_store_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    Store.open(path).close()
    with Store.open(path) as store:
        with store._read() as connection:
            connection.exec_driver_sql("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match="the store cannot be written; make the file and its folder writable"):
            store.add_query(QuerySpec("k", "a = 1"))


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not hold root")
def test_a_folder_without_permission_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            Store.open(tmp_path / "s.sqlite")
    finally:
        tmp_path.chmod(0o700)


def test_a_store_held_by_another_process_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.store.sqlite_file.BUSY_TIMEOUT_MS", 50)
    with Store.open(tmp_path / "s.sqlite") as store:
        holder = sqlite3.connect(store.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match="another process has held the store"):
            store.add_query(QuerySpec("k", "a = 1"))
        holder.execute("ROLLBACK")
        holder.close()
        assert store.add_query(QuerySpec("k", "a = 1")).version == 1


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


def test_a_store_is_for_its_owner_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tamis.sqlite"
    before = os.umask(0)
    try:
        with Store.open(path) as store:
            store.add_query(QuerySpec("k", "a = 1"))
            assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)
    assert not caplog.records
    path.chmod(0o644)
    with Store.open(path):
        assert path.stat().st_mode & 0o777 == 0o600
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: other users could open it, and no longer can"
    ]
