"""The notification engine tries deliveries on time, gives up at last, and records the outcomes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tamis.config.deliveries import EmlDelivery, JsonlDelivery, StoreDelivery
from tamis.errors import StoreError
from tamis.notify import engine as engine_module
from tamis.notify.channels.channel import ChannelError, ChannelLostError, Sent
from tamis.notify.engine import DeliveryCounts, NotificationEngine
from tamis.query import QuerySpec
from tamis.store import DueDelivery, Store
from tests.notify.conftest import Clock
from tests.store.rows import fill, message, result


class FakeChannel:
    """A channel that fails on demand, and records what it delivered."""

    batch_count = 2

    def __init__(self) -> None:
        self.fails: dict[int, str] = {}  # offset of the message -> why
        self.lost: set[int] = set()  # offsets of the messages over which the connection is lost
        self.down: str | None = None
        self.delivered: list[int] = []
        self.opened = self.closed = 0

    def open(self) -> None:
        if self.down:
            raise ChannelError(self.down)
        self.opened += 1

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        assert len(due) <= self.batch_count
        for at, delivery in enumerate(due):
            if delivery.notification.offset in self.lost:
                self.delivered += [before.notification.offset for before in due[:at]]
                raise ChannelLostError("it hung up", {before.delivery_id: None for before in due[:at]})
        self.delivered += [delivery.notification.offset for delivery in due]
        return Sent(
            {d.delivery_id: self.fails[d.notification.offset] for d in due if d.notification.offset in self.fails}
        )

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> FakeChannel:
    """Make one channel for every delivery."""
    channel = FakeChannel()
    monkeypatch.setattr(engine_module, "make_channel", lambda config, store, owners, links: channel)
    return channel


def _engine(store: Store, clock: Clock, **options: object) -> NotificationEngine:
    return NotificationEngine(store, [StoreDelivery(name="outbox", type="store", **options)], now=clock)


def test_what_is_due_is_delivered_once_and_in_order(store: Store, clock: Clock, channel: FakeChannel) -> None:
    fill(store, 5)
    engine = _engine(store, clock)
    assert engine.deliver_pending() == DeliveryCounts(delivered=5)
    assert engine.deliver_pending() == DeliveryCounts()
    assert channel.delivered == [0, 1, 2, 3, 4]
    assert (channel.opened, channel.closed) == (1, 1)
    assert {record.state for record in store.deliveries()} == {"delivered"}


def test_a_call_tries_no_more_than_its_limit(store: Store, clock: Clock, channel: FakeChannel) -> None:
    fill(store, 5)
    engine = _engine(store, clock)
    assert [engine.deliver_pending(2).delivered for _ in range(4)] == [2, 2, 1, 0]
    assert channel.delivered == [0, 1, 2, 3, 4]


def test_a_failure_is_tried_again_after_longer_and_longer_then_given_up(
    store: Store, clock: Clock, channel: FakeChannel
) -> None:
    fill(store, 3)
    channel.fails[1] = "550 no such user"
    engine = _engine(store, clock, back_off_s=[10, 60])
    assert engine.deliver_pending() == DeliveryCounts(delivered=2, retried=1)
    for wait in (10, 60, 60):
        clock.move(wait - 1)
        assert engine.deliver_pending() == DeliveryCounts()
        clock.move(1)
        assert engine.deliver_pending() == DeliveryCounts(retried=1)
    clock.move(60)
    assert engine.deliver_pending() == DeliveryCounts(dead=1)
    clock.move(1e6)
    assert engine.deliver_pending() == DeliveryCounts()
    (dead,) = store.deliveries(state="dead")
    assert (dead.attempts, dead.reason) == (5, "550 no such user (try 5 of 5)")
    assert channel.delivered.count(1) == 5
    assert store.counts().deliveries_dead == 1


def test_the_dead_can_be_tried_again(store: Store, clock: Clock, channel: FakeChannel) -> None:
    fill(store, 1)
    channel.fails[0] = "poison"
    engine = _engine(store, clock, tries=1)
    assert engine.deliver_pending().dead == 1
    channel.fails.clear()
    assert store.retry_dead("elsewhere") == 0
    assert store.retry_dead("outbox") == 1
    assert engine.deliver_pending().delivered == 1


def test_a_retry_outlives_the_process(store: Store, clock: Clock, channel: FakeChannel) -> None:
    fill(store, 1)
    channel.fails[0] = "451 later"
    assert _engine(store, clock).deliver_pending().retried == 1
    channel.fails.clear()
    assert _engine(store, clock).deliver_pending() == DeliveryCounts()
    clock.move(10)
    assert _engine(store, clock).deliver_pending().delivered == 1
    assert store.deliveries()[0].reason == "delivered at try 2"


def test_a_channel_that_is_down_costs_no_notification_a_try(store: Store, clock: Clock, channel: FakeChannel) -> None:
    fill(store, 3)
    channel.down = "no route to host"
    engine = _engine(store, clock, back_off_s=[10, 60])
    for _ in range(20):
        assert engine.deliver_pending() == DeliveryCounts(troubles={"outbox": "no route to host"})
        assert {(record.attempts, record.reason) for record in store.deliveries()} == {(0, "no route to host")}
        clock.move(30)
    channel.down = None
    clock.move(60)
    assert engine.deliver_pending() == DeliveryCounts(delivered=3)


def test_one_over_which_the_connection_is_lost_goes_last_and_dies_alone(
    store: Store, clock: Clock, channel: FakeChannel
) -> None:
    fill(store, 7)
    channel.batch_count, channel.lost = 4, {2}
    engine = _engine(store, clock, tries=3, back_off_s=[1.0])
    assert engine.deliver_pending() == DeliveryCounts(delivered=2, troubles={"outbox": "it hung up"})
    for _ in range(8):
        clock.move(2)
        assert engine.deliver_pending().dead == 0, "alone, it may be the channel's fault"
    assert sorted(channel.delivered) == [0, 1, 3, 4, 5, 6], "each once"
    assert {row.attempts for row in store.deliveries() if row.state == "delivered"} == {1}
    store.pin_batch("s", 1)
    store.commit_batch("s", 1, result(map(message, range(100, 103)), ["frost"]))
    dead = 0
    for _ in range(3):
        clock.move(2)
        dead += engine.deliver_pending().dead
    assert (sorted(channel.delivered)[6:], dead) == ([100, 101, 102], 1)


def test_what_no_channel_is_configured_for_waits_and_says_so(store: Store, clock: Clock, channel: FakeChannel) -> None:
    fill(store, 1, deliveries=("outbox", "elsewhere"))
    counts = _engine(store, clock).deliver_pending()
    assert counts == DeliveryCounts(delivered=1, troubles={"elsewhere": "no [[delivery]] is named 'elsewhere'"})
    (waiting,) = store.deliveries(state="pending")
    assert (waiting.delivery, waiting.attempts, waiting.reason) == (
        "elsewhere",
        0,
        "no [[delivery]] is named 'elsewhere'",
    )


def test_one_channel_in_trouble_does_not_hold_up_another(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill(store, 2, deliveries=("files", "rows"))
    (tmp_path / "file").write_text("in the way")
    files = EmlDelivery(name="files", type="eml", folder=tmp_path / "file" / "outbox")
    counts = NotificationEngine(store, [files, StoreDelivery(name="rows", type="store")], clock).deliver_pending()
    assert counts.delivered == 2
    assert "cannot be written" in counts.troubles["files"]


def test_files_are_made_where_they_were_asked_for(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill(store, 3, deliveries=("mail", "lines"))
    mail = EmlDelivery(name="mail", type="eml", folder=tmp_path / "a" / "outbox")
    lines = JsonlDelivery(name="lines", type="jsonl", path=tmp_path / "b" / "lines.jsonl")
    assert NotificationEngine(store, [mail, lines], clock).deliver_pending().delivered == 6
    ids = {record.id for record in store.notifications()}
    assert {path.name for path in (tmp_path / "a" / "outbox").iterdir()} == {f"{name}.eml" for name in ids}
    found = [json.loads(line) for line in (tmp_path / "b" / "lines.jsonl").read_text().splitlines()]
    assert [line["offset"] for line in found] == [0, 1, 2]
    assert {line["id"] for line in found} == ids
    assert found[0]["properties"]["subject"] == "message 0"


def test_lines_are_appended_to_what_was_there_and_a_torn_one_is_cut_off(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text("before us, without an end")
    fill(store, 2, deliveries=("lines",))
    config = [JsonlDelivery(name="lines", type="jsonl", path=path)]
    assert NotificationEngine(store, config, clock).deliver_pending(1).delivered == 1
    good = path.read_bytes()
    assert good.startswith(b"before us, without an end\n{")
    path.write_bytes(good + b'{"torn": ')
    assert NotificationEngine(store, config, clock).deliver_pending().delivered == 1
    lines = path.read_bytes().removeprefix(good).splitlines()
    assert len(lines) == 1
    assert b'"offset": 1' in lines[0]


def test_a_file_that_another_process_writes_is_left_alone(store: Store, clock: Clock, tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "lines.jsonl"
    fill(store, 1, deliveries=("lines",))
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        engine = NotificationEngine(store, [JsonlDelivery(name="lines", type="jsonl", path=path)], clock)
        assert "another process writes this file" in engine.deliver_pending().troubles["lines"]
    assert path.read_bytes() == b""


def _lines(store: Store, clock: Clock, path: Path) -> NotificationEngine:
    return NotificationEngine(store, [JsonlDelivery(name="lines", type="jsonl", path=path)], clock)


def test_lines_of_another_writer_are_never_cut_off(store: Store, clock: Clock, tmp_path: Path) -> None:
    """Two pipelines with one path, each with a store of its own: each would take the other's lines for torn ones."""
    path = tmp_path / "lines.jsonl"
    fill(store, 30, deliveries=("lines",))
    with Store.open(tmp_path / "other.sqlite") as other:
        fill(other, 30, key="heat", deliveries=("lines",))
        one, two = _lines(store, clock, path), _lines(other, clock, path)
        assert one.deliver_pending(10).delivered == 10
        assert two.deliver_pending(10).delivered == 10
        counts = one.deliver_pending(10)
        assert "bytes were not written by this delivery" in counts.troubles["lines"]
        assert "Nothing was cut off" in counts.troubles["lines"]
        assert two.deliver_pending().delivered == 20
        assert store.counts().deliveries_pending == 20, "no try is counted"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["query"] for line in written] == ["frost"] * 10 + ["heat"] * 30
    path.rename(tmp_path / "moved away")
    clock.move(3600)
    assert one.deliver_pending().delivered == 20


def test_what_a_crash_left_is_cut_off_and_only_that(store: Store, clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    fill(store, 3, deliveries=("lines",))
    assert _lines(store, clock, path).deliver_pending(1).delivered == 1
    good = path.read_bytes()
    with pytest.MonkeyPatch.context() as crash:
        crash.setattr(Store, "record_outcomes", lambda *_: (_ for _ in ()).throw(StoreError("killed")))
        with pytest.raises(StoreError):
            _lines(store, clock, path).deliver_pending()
    left = path.read_bytes()
    assert left.startswith(good)
    assert left.count(b"\n") == 3
    path.write_bytes(left[:-5])
    assert _lines(store, clock, path).deliver_pending().delivered == 2
    assert path.read_bytes() == left
    path.write_bytes(left + left.splitlines(keepends=True)[0])
    store.retry_dead()
    store.pin_batch("t", 0)
    store.commit_batch("t", 0, result([message(9)]))
    assert "not written by this delivery" in _lines(store, clock, path).deliver_pending().troubles["lines"]


def test_half_a_surrogate_pair_is_no_poison(store: Store, clock: Clock, tmp_path: Path) -> None:
    store.add_query(QuerySpec("frost", "a = 1", deliveries=("lines", "mail")))
    store.pin_batch("s", 0)
    odd = message(0)._replace(properties='{"subject": "half \\ud83e a pair"}')
    store.commit_batch("s", 0, result([odd]))
    lines = JsonlDelivery(name="lines", type="jsonl", path=tmp_path / "lines.jsonl")
    mail = EmlDelivery(name="mail", type="eml", folder=tmp_path / "outbox")
    assert NotificationEngine(store, [lines, mail], clock).deliver_pending().delivered == 2
    line = json.loads(lines.path.read_bytes().decode())
    assert line["properties"]["subject"] == "half \ud83e a pair"


def test_the_reasons_follow_the_hierarchies_of_the_store(store: Store, clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    store.set_hierarchy("region", {"Europe": None, "France": "Europe", "Asia": None})
    store.add_query(QuerySpec("europe", "region UNDER 'Europe' AND n > 1", deliveries=("lines",)))
    store.add_query(QuerySpec("grouped", "region == Europe", "boolean:region", deliveries=("lines",)))
    store.pin_batch("s", 0)
    store.commit_batch("s", 0, result([message(0, region="France", n=2)], ["europe", "grouped"]))
    engine = NotificationEngine(store, [JsonlDelivery(name="lines", type="jsonl", path=path)], clock)
    assert engine.deliver_pending() == DeliveryCounts(delivered=2)
    reasons = {line["query"]: line["reasons"] for line in map(json.loads, path.read_text().splitlines())}
    assert reasons == {
        "europe": ["region UNDER 'Europe'  (France)", "n > 1  (2)"],
        "grouped": ["region UNDER 'Europe'  (France)"],
    }
