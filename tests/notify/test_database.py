"""Notifications become rows of a database, each once, however often they are delivered."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from tamis.config.deliveries import DatabaseDelivery
from tamis.config.pipeline import PipelineConfig
from tamis.config.pipeline_check import check
from tamis.errors import ConfigError, StoreError
from tamis.notify.channels.channel import ChannelError
from tamis.notify.channels.database import DatabaseChannel
from tamis.notify.channels.rows import COLUMNS, storable
from tamis.notify.engine import NotificationEngine
from tamis.store import NotificationRecord, Store
from tests.notify.conftest import Clock
from tests.notify.test_feed import due
from tests.postgres_server import PASSWORD, Server
from tests.store.rows import fill


class Home(NamedTuple):
    """A database for the tests, as the delivery and as the test reach it."""

    url: str
    options: dict[str, Any]
    rows: Callable[[str], list[Any]]

    def config(self, **more: Any) -> DatabaseDelivery:
        return DatabaseDelivery(name="rows", type="database", url=self.url, **{"create": True} | self.options | more)


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Return an empty database of each kind."""
    if request.param == "sqlite":
        path, options, where = tmp_path / "rows.sqlite", {}, f"sqlite:///{tmp_path / 'rows.sqlite'}"
        url = str(path)
    else:
        server = request.getfixturevalue("postgres")
        url, secret = server.new_database(), tmp_path / "secret"
        secret.write_text(PASSWORD + "\n")
        options, where = {"password_file": secret}, url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(where)

    def rows(statement: str) -> list[Any]:
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return [tuple(row) for row in found] if found.returns_rows else []

    yield Home(url, options, rows)
    engine.dispose()


def test_each_notification_is_one_row_with_what_a_line_has(home: Home, store: Store, clock: Clock) -> None:
    fill(store, 12, deliveries=("rows",))
    engine = NotificationEngine(store, [home.config()], clock)
    assert engine.deliver_pending().delivered == 12
    assert home.rows("SELECT count(*), count(DISTINCT id), min(query), max(version) FROM notifications") == [
        (12, 12, "frost", 1)
    ]
    ids = {record.id for record in store.notifications()}
    assert {name for (name,) in home.rows("SELECT id FROM notifications")} == ids
    (properties, reasons), *_ = home.rows('SELECT properties, reasons FROM notifications WHERE "offset" = 3')
    if isinstance(properties, str):  # SQLite has JSON as text
        properties, reasons = json.loads(properties), json.loads(reasons)
    assert properties["subject"] == "message 3"
    assert reasons == ["subject LIKE '%'  (message 3)"]


def test_a_delivery_that_is_repeated_adds_nothing(home: Home, store: Store, clock: Clock) -> None:
    fill(store, 3, deliveries=("rows",))
    with pytest.MonkeyPatch.context() as crash:
        crash.setattr(Store, "record_outcomes", lambda *_: (_ for _ in ()).throw(StoreError("killed")))
        with pytest.raises(StoreError):
            NotificationEngine(store, [home.config()], clock).deliver_pending()
    assert home.rows("SELECT count(*) FROM notifications") == [(3,)]
    home.rows("UPDATE notifications SET body = 'as the user left it'")
    assert NotificationEngine(store, [home.config()], clock).deliver_pending().delivered == 3
    assert home.rows("SELECT DISTINCT body, count(*) FROM notifications GROUP BY body") == [("as the user left it", 3)]


def test_a_table_of_ones_own_has_the_columns_that_it_wants(record: NotificationRecord, home: Home) -> None:
    home.rows("CREATE TABLE mine (id text PRIMARY KEY, created_at timestamp, properties text, note text DEFAULT 'new')")
    assert not DatabaseChannel(home.config(table="mine", create=False)).deliver([due(record, 1)]).failures
    (row,) = home.rows("SELECT id, created_at, properties, note FROM mine")
    assert row[0] == f"{1:032x}"
    assert str(row[1]).startswith("2026-11-21 12:00:01")
    assert json.loads(row[2])["author"] == "James"
    assert row[3] == "new"


def test_a_row_that_is_refused_does_not_hold_up_the_others(record: NotificationRecord, home: Home) -> None:
    home.rows("CREATE TABLE mine (id text PRIMARY KEY, body text CHECK (body <> 'poison'))")
    channel = DatabaseChannel(home.config(table="mine"))
    sent = channel.deliver([due(record, number, body="poison" if number == 2 else "fine") for number in range(5)])
    assert list(sent.failures) == [2]
    assert "constraint" in sent.failures[2].lower()
    assert home.rows("SELECT count(*) FROM mine") == [(4,)]


def test_a_row_that_a_trigger_refuses_does_not_hold_up_the_others(record: NotificationRecord, home: Home) -> None:
    home.rows("CREATE TABLE mine (id text PRIMARY KEY, body text)")
    if "postgres" in home.url:
        home.rows(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.body = 'poison' THEN "
            "RAISE EXCEPTION 'no poison'; END IF; RETURN NEW; END $$"
        )
        home.rows("CREATE TRIGGER no BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION no()")
    else:
        home.rows(
            "CREATE TRIGGER no BEFORE INSERT ON mine WHEN NEW.body = 'poison' "
            "BEGIN SELECT RAISE(ABORT, 'no poison'); END"
        )
    channel = DatabaseChannel(home.config(table="mine"))
    sent = channel.deliver([due(record, number, body="poison" if number == 2 else "fine") for number in range(5)])
    assert (list(sent.failures), "no poison" in sent.failures[2]) == ([2], True)
    assert home.rows("SELECT count(*) FROM mine") == [(4,)]


def test_odd_characters_are_replaced_everywhere(record: NotificationRecord, home: Home) -> None:
    odd = due(record, 1, body="a\0b\ud83ec\U0001f9c4", properties='{"\\u0000": ["\\ud83e", "\\ud83e\\uddc4"]}')
    assert not DatabaseChannel(home.config()).deliver([odd]).failures
    (body, properties), *_ = home.rows("SELECT body, properties FROM notifications")
    assert body == "a\ufffdb\ufffdc\U0001f9c4"
    told = properties if isinstance(properties, dict) else json.loads(properties)
    assert told == {"\ufffd": ["\ufffd", "\U0001f9c4"]}


@given(st.text(st.characters(codec=None)))
def test_what_is_stored_is_text_that_every_database_takes(value: str) -> None:
    stored = storable(value)
    assert "\0" not in stored
    assert stored.encode().decode() == stored, "no half of a pair"
    if "\0" not in value and not any("\ud800" <= it <= "\udfff" for it in value):
        assert stored == value


@pytest.mark.parametrize(
    ("before", "options", "expected"),
    [
        ("SELECT 1", {"create": False}, "table notifications: there is no such table; make it, or set create = true"),
        ("CREATE TABLE notifications (body text)", {}, "it has no column 'id', by which a row is known"),
        ("CREATE TABLE notifications (id text)", {}, "ON CONFLICT"),
    ],
)
def test_a_table_that_does_not_do_stops_the_channel_with_a_reason(
    record: NotificationRecord, home: Home, before: str, options: dict[str, Any], expected: str
) -> None:
    home.rows(before)
    with pytest.raises(ChannelError, match="rows.sqlite|127.0.0.1") as error:
        DatabaseChannel(home.config(**options)).deliver([due(record, 1)])
    assert expected in str(error.value)


def test_a_file_that_is_held_is_waited_for_and_costs_no_try(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill(store, 1, deliveries=("rows",))
    config = DatabaseDelivery(
        name="rows", type="database", url=str(tmp_path / "rows.sqlite"), create=True, timeout_s=0.1
    )
    holder = sqlite3.connect(tmp_path / "rows.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    engine = NotificationEngine(store, [config], clock)
    assert "database is locked" in engine.deliver_pending().troubles["rows"]
    assert [record.attempts for record in store.deliveries()] == [0]
    holder.execute("ROLLBACK")
    holder.close()
    clock.move(10)
    assert engine.deliver_pending().delivered == 1


def test_a_server_that_hangs_can_be_interrupted_and_is_used_again(
    record: NotificationRecord, postgres: Server, tmp_path: Path
) -> None:
    """A backend that is stopped answers nothing, and its connection stays open."""
    database = postgres.new_database()
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    config = DatabaseDelivery(name="rows", type="database", url=database, create=True, password_file=secret)
    channel = DatabaseChannel(config)
    channel.open()
    channel.deliver([due(record, 1)])
    postgres.sql(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$",
        database.rpartition("/")[2],
    )
    postgres.sql(
        "CREATE TRIGGER slow BEFORE INSERT ON notifications EXECUTE FUNCTION slow()", database.rpartition("/")[2]
    )
    backend = threading.Thread(target=_stop_backend, args=(postgres, channel), daemon=True)
    backend.start()
    with pytest.raises(ChannelError, match="stopped while there was no answer"):
        channel.deliver([due(record, 2)])
    with pytest.raises(ChannelError, match="still waits for an answer"):
        channel.open()
    backend.join()
    postgres.sql("DROP TRIGGER slow ON notifications", database.rpartition("/")[2])
    _until(lambda: _opens(channel))
    assert not channel.deliver([due(record, 2)]).failures


def _stop_backend(server: Server, channel: DatabaseChannel) -> None:
    """Stop the process that sleeps for the channel, interrupt the channel, then end its statement."""
    asleep = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    _until(lambda: bool(server.sql(asleep)))
    ((pid,),) = server.sql(asleep)
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSTOP)
    channel.interrupt()
    time.sleep(0.2)  # the test's own checks come in this time
    os.kill(pid, signal.SIGCONT)
    server.sql(f"SELECT pg_cancel_backend({pid})")


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def _opens(channel: DatabaseChannel) -> bool:
    try:
        channel.open()
    except ChannelError:
        return False
    return True


TOML = """\
[queries]
deliveries = ["rows"]
[[adapter]]
name = "inbox"
type = "jsonl"
path = "in/"
[[delivery]]
name = "rows"
type = "database"
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ('url = "mysql://h/d"', "line 10: mysql://h/d: expected a path, sqlite:///path, or postgresql://"),
        ('url = "postgresql://u:secret@h/d"', "line 10: the password must not be in the file: name its variable in"),
        ('url = "tamis.sqlite"', "line 10: that is the store: give another database, or use the type 'store'"),
        ('url = "r.sqlite"\ntable = "a b"', "line 11: table: expected the name of a table, as 'name' or 'schema.name'"),
        ('url = "r.sqlite"\ntable = "a.b"', "line 11: a table of an SQLite file has no schema"),
        ('url = "r.sqlite"\npassword_env = "P"', "line 11: an SQLite file has no password"),
        (
            'url = "postgresql://h/d"\npassword_env = "P"\npassword_file = "p"',
            "line 12: only one of 'password_env' and 'password_file' can be given",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(tmp_path: Path, more: str, expected: str) -> None:
    (tmp_path / "pipeline.toml").write_text(TOML + more)
    with pytest.raises(ConfigError) as error:
        PipelineConfig.load(tmp_path / "pipeline.toml")
    assert expected in str(error.value)
    assert "secret" not in str(error.value)


def test_the_check_tells_of_a_file_or_a_secret_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with Store.open(tmp_path / "tamis.sqlite") as store:
        fill(store, 0)
    path = tmp_path / "pipeline.toml"
    for more, expected in (
        ('url = "r.sqlite"', "r.sqlite: there is no such file; make it, or set create = true"),
        ('url = "in"\ncreate = true', "in: not a file, where one was expected"),
        ('url = "postgresql://h/d"\npassword_env = "TAMIS_UNSET"', "environment variable TAMIS_UNSET is not set"),
        ('url = "postgresql://h/d"\npassword_file = "p"', "p: the secret cannot be read: No such file or directory"),
    ):
        path.write_text(TOML + more)
        problems = [problem for problem in map(str, check(PipelineConfig.load(path))) if "'outbox'" not in problem]
        assert len(problems) == 1
        assert expected in problems[0]


def test_a_line_and_a_row_have_the_same_names(record: NotificationRecord) -> None:
    from tamis.notify.channels.jsonl import as_json

    assert [name for name in COLUMNS if name != "owner"] == list(as_json(record))
