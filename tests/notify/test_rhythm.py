"""Owners are told at the times that they asked for: as the naive version says, also after restarts."""

from __future__ import annotations

import email
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tamis.config.deliveries import EmlDelivery
from tamis.config.owners import OwnerConfig
from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError
from tamis.notify import engine as engine_module
from tamis.notify.channels.channel import Sent
from tamis.notify.engine import NotificationEngine
from tamis.notify.rhythm import SentAlone, decide, next_digest, window_start
from tamis.query import QuerySpec
from tamis.store import DueDelivery, Store
from tests.notify.conftest import Clock
from tests.notify.rhythm_oracle import Dispatch, Event, dispatches
from tests.store.rows import message, result

_CHANGES = [datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 10, 30, 12, tzinfo=UTC)]  # a day before Berlin's
_NUMBERS = itertools.count()

_BURST = [Event(_CHANGES[0] + timedelta(minutes=number), "frost") for number in range(4)]
_NIGHT = [Event(_CHANGES[0] + timedelta(hours=hours), "frost") for hours in (10, 11, 14, 20)]
_AT_MOST_TWO = OwnerConfig(name="ann", most=2)
_NOT_AT_NIGHT = OwnerConfig(name="ann", time_zone="Europe/Berlin", quiet="22:00-07:00")

clocks = st.builds("{:02}:{:02}".format, st.integers(4, 23), st.sampled_from([0, 15, 30, 45]))  # no change of clocks
quiet_hours = st.tuples(clocks, clocks).filter(lambda pair: pair[0] != pair[1]).map("-".join)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])


crons = st.builds(
    "{} {} {} {} {}".format,
    st.sampled_from(["0", "15", "0,45"]),
    st.sampled_from(["8", "5,17", "23"]),
    st.sampled_from(["*", "28", "1,30"]),
    st.sampled_from(["*", "3,4,10,11"]),
    st.sampled_from(["*", "mon", "sat,sun"]),
)


@st.composite
def owners(draw: st.DrawFn) -> OwnerConfig:
    """Draw the settings of an owner."""
    known: dict[str, Any] = {"name": "ann", "time_zone": draw(zones), "quiet": draw(st.none() | quiet_hours)}
    known["digest"] = digest = draw(st.sampled_from(["none", "none", "hour", "day", "week", "cron"]))
    if digest == "cron":
        known["cron"] = draw(crons)
    if digest in ("day", "week"):
        known["at"] = draw(clocks)
    if digest == "week":
        known["weekday"] = draw(st.sampled_from(["mon", "thu", "sun"]))
    if digest == "none" and draw(st.booleans()):
        known |= {"most": draw(st.integers(1, 3)), "per_s": draw(st.sampled_from([900.0, 3600.0, 7200.0]))}
        known["most_in_all"] = draw(st.none() | st.integers(known["most"], 4))
        if known["most_in_all"] and draw(st.booleans()):
            del known["most"]
    return OwnerConfig(**known)


@st.composite
def matches(draw: st.DrawFn) -> list[Event]:
    """Draw matches of two queries, in order of time, around a change of the clocks."""
    seconds = sorted(draw(st.lists(st.integers(0, 130_000), min_size=1, max_size=8)))
    start = draw(st.sampled_from(_CHANGES))
    return [Event(start + timedelta(seconds=one), draw(st.sampled_from(["frost", "heat"]))) for one in seconds]


@given(owners(), matches())
@example(_AT_MOST_TWO, _BURST)
@example(_NOT_AT_NIGHT, _NIGHT)
@settings(max_examples=150, deadline=None)
def test_decisions_are_those_of_the_naive_version(owner: OwnerConfig, events: list[Event]) -> None:
    decided: list[Dispatch] = []
    for number, event in enumerate(events):
        start = window_start(owner, event.at)
        earlier = zip(events[:number], decided, strict=True)
        alone = [one.query for one, it in earlier if it.alone and one.at >= start]
        decision = decide(owner, event.at, SentAlone(alone.count(event.query), len(alone)))
        decided.append(Dispatch(decision.until or event.at, decision.until is None))
    assert decided == dispatches(owner, events)


class Recorder:
    """A channel that notes when it handed over which messages, and whether alone."""

    batch_count = 10

    def __init__(self) -> None:
        self.now = _CHANGES[0]
        self.sent: dict[int, Dispatch] = {}

    def open(self) -> None:
        """Do nothing."""

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Note each alone."""
        return self._note(due, alone=True)

    def deliver_digest(self, due: Sequence[DueDelivery]) -> Sent:
        """Note all of them as parts of one digest."""
        assert len({it.owner for it in due}) == 1
        return self._note(due, alone=False)

    def _note(self, due: Sequence[DueDelivery], *, alone: bool) -> Sent:
        for it in due:
            assert it.notification.offset not in self.sent, "sent twice"
            self.sent[it.notification.offset] = Dispatch(self.now, alone)
        return Sent()

    def interrupt(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@given(owners(), matches())
@example(_AT_MOST_TWO, _BURST)
@example(_NOT_AT_NIGHT, _NIGHT)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_engine_sends_when_the_naive_version_does(
    store: Store, tmp_path: Path, owner: OwnerConfig, events: list[Event]
) -> None:
    name, recorder = f"mail-{next(_NUMBERS)}", Recorder()
    for key in ("frost", "heat"):
        store.add_query(QuerySpec(key, "a = 1", owner="ann", deliveries=(name,)))

    def deliver(at: datetime) -> None:
        recorder.now = at
        config = EmlDelivery(name=name, type="eml", folder=tmp_path)
        with pytest.MonkeyPatch.context() as patch:  # a new engine each time: nothing may depend on its memory
            patch.setattr(engine_module, "make_channel", lambda *_: recorder)
            NotificationEngine(store, [config], lambda: at, owners=[owner]).deliver_pending()

    def deliver_until(end: datetime | None) -> None:
        while (due := store.next_attempt_at()) is not None and (end is None or due < end):
            deliver(max(due, recorder.now))

    for number, event in enumerate(events):
        deliver_until(event.at)
        _match(store, name, number, event)
        deliver(event.at)
    deliver_until(None)
    assert [recorder.sent[number] for number in range(len(events))] == dispatches(owner, events)


def _match(store: Store, stream: str, number: int, event: Event) -> None:
    """Commit a match as if it happened at the time of `event`."""
    version = store.get_query(event.query).version
    batch = result([message(number, partition=stream)], [event.query])
    notification = batch.notifications[0]._replace(query_version=version)
    store.pin_batch(stream, number)
    store.commit_batch(stream, number, type(batch)(batch.messages, [notification], [], 1, 1))
    at = event.at.strftime("%Y-%m-%d %H:%M:%S.%f")
    with store._write() as connection:
        connection.exec_driver_sql(
            "UPDATE batches SET committed_at = ? WHERE stream = ? AND batch_id = ?", (at, stream, number)
        )


def test_a_time_that_the_clocks_leave_out_comes_later_and_one_they_show_twice_once() -> None:
    owner = OwnerConfig(name="ann", time_zone="Europe/Berlin", digest="day", at="02:30")
    assert next_digest(owner, datetime(2027, 3, 27, 12, tzinfo=UTC)) == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    first = next_digest(owner, datetime(2027, 10, 30, 12, tzinfo=UTC))
    assert first == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert next_digest(owner, first) == datetime(2027, 11, 1, 1, 30, tzinfo=UTC)


def test_quiet_hours_that_the_clocks_show_twice_end_once() -> None:
    owner = OwnerConfig(name="ann", time_zone="Europe/Berlin", quiet="22:00-02:30")
    again = datetime(2027, 10, 31, 1, 10, tzinfo=UTC)  # 02:10 for the second time
    assert decide(owner, again, SentAlone()).until is None


BERLIN, HOUR = {"name": "ann", "time_zone": "Europe/Berlin", "digest": "cron"}, timedelta(hours=1)


@pytest.mark.parametrize(
    ("cron", "at", "expected"),
    [
        # On 28 March 2027 the clocks go from 2:00 to 3:00: what falls between comes at 3:00, once.
        ("30 2 * * *", "2027-03-28T00:10", ["2027-03-28T01:00", "2027-03-29T00:30"]),
        ("0 * * * *", "2027-03-28T00:10", ["2027-03-28T01:00", "2027-03-28T02:00"]),
        ("0 8 * * *", "2027-03-27T12:00", ["2027-03-28T06:00", "2027-03-29T06:00"]),
        # On 31 October 2027 they go from 3:00 to 2:00: a time that comes twice counts once, an hour counts twice.
        ("30 2 * * *", "2027-10-30T12:00", ["2027-10-31T00:30", "2027-11-01T01:30"]),
        ("30 2 * * *", "2027-10-31T01:15", ["2027-11-01T01:30", "2027-11-02T01:30"]),
        ("0 * * * *", "2027-10-30T23:10", ["2027-10-31T00:00", "2027-10-31T01:00", "2027-10-31T02:00"]),
        ("0 8 * * mon-fri", "2027-10-29T12:00", ["2027-11-01T07:00", "2027-11-02T07:00"]),
    ],
)
def test_a_cron_digest_comes_once_when_the_clocks_change(cron: str, at: str, expected: list[str]) -> None:
    owner, when = OwnerConfig(**BERLIN, cron=cron), datetime.fromisoformat(f"{at}:00+00:00")
    for one in expected:
        when = next_digest(owner, when)
        assert when == datetime.fromisoformat(f"{one}:00+00:00")


@given(st.integers(0, 800_000), st.sampled_from(["30 2 * * *", "*/20 * * * *", "0 1-3 * * *"]), st.booleans())
def test_a_cron_digest_comes_after_the_match_whatever_the_clocks_do(minutes: int, cron: str, seconds: bool) -> None:
    at = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes, seconds=30 * seconds)
    when = next_digest(OwnerConfig(**BERLIN, cron=cron), at)
    assert at < when <= at + 26 * HOUR


def test_the_log_names_the_time_of_a_cron_digest() -> None:
    decision = decide(OwnerConfig(**BERLIN, cron="30 8 * * *"), datetime(2027, 1, 1, 12, tzinfo=UTC), SentAlone())
    assert decision.reason == "in the next digest, 2027-01-02 08:30 CET"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('digest = "cron"', "digest = \"cron\" needs 'cron'"),
        ('cron = "* * * * *"', "'cron' is used only with digest = \"cron\""),
        ('digest = "cron"\ncron = "61 8 * * *"', "line 4: cron: '61 8 * * *': bad minute; expected minute, hour,"),
        ('digest = "cron"\ncron = "@daily"', "line 4: cron: '@daily': wrong number of fields"),
        ('digest = "cron"\ncron = "0 0 31 2 *"', "line 4: cron: '0 0 31 2 *': bad day-of-month"),
        ('digest = "cron"\ncron = "0 8 * * *"\nat = "09:00"', "'at' is used only with"),
    ],
)
def test_a_mistake_in_a_cron_rhythm_is_told(tmp_path: Path, settings: str, expected: str) -> None:
    (tmp_path / "pipeline.toml").write_text(f'[[owner]]\nname = "ann"\n{settings}\n')
    with pytest.raises(ConfigError) as told:
        PipelineConfig.load(tmp_path / "pipeline.toml")
    assert expected in str(told.value)


def test_each_profile_of_an_owner_is_told_in_its_own_rhythm(store: Store, clock: Clock, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(
        '[[owner]]\nname = "ann"\nto = "ann@example.org"\ndigest = "day"\n'
        '[[owner.profile]]\nname = "urgent"\n'
        '[[owner.profile]]\nname = "list"\nto = "list@example.org"\ndigest = "day"\n'
    )
    for owner in ("ann", "ann/urgent", "ann/list"):
        store.add_query(QuerySpec(owner.replace("/", "-"), "n > 0", owner=owner, deliveries=("mail",)))
    store.pin_batch("s", 0)
    store.commit_batch("s", 0, result([message(0), message(1)], ["ann", "ann-urgent", "ann-list"]))
    mail = EmlDelivery(name="mail", type="eml", folder=tmp_path / "mail")
    people = PipelineConfig.load(tmp_path / "pipeline.toml").people
    engine = NotificationEngine(store, [mail], clock, owners=people)
    assert engine.deliver_pending().delivered == 2
    assert _told(tmp_path / "mail") == [("ann@example.org", "ann-urgent")] * 2
    clock.move(86_400)
    assert engine.deliver_pending().delivered == 4
    digests = [("ann@example.org", "2 notifications: ann (2)"), ("list@example.org", "2 notifications: ann-list (2)")]
    assert _told(tmp_path / "mail") == sorted([*digests, *[("ann@example.org", "ann-urgent")] * 2])


def _told(folder: Path) -> list[tuple[str, str]]:
    """Return to whom each e-mail goes, and its query, or its subject if it is a digest."""
    mails = [email.message_from_bytes(path.read_bytes()) for path in folder.iterdir()]
    return sorted((mail["To"], mail["X-Tamis-Query"] or mail["Subject"].removeprefix("[tamis] ")) for mail in mails)
