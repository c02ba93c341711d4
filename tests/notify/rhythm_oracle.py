"""The naive answer to the question when notifications are sent to their owner: it looks at every quarter of an hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tamis.config.owners import WEEKDAYS, OwnerConfig

_STEP_S = 900


class Event(NamedTuple):
    """A match of a query at a time."""

    at: datetime
    query: str


class Dispatch(NamedTuple):
    """When the notification of an event is sent, and whether alone."""

    at: datetime
    alone: bool


def dispatches(owner: OwnerConfig, events: Sequence[Event]) -> list[Dispatch]:
    """Say when each of some events, in order of time, is sent; all times of `owner` are whole quarters of an hour."""
    sent: list[tuple[Event, Dispatch]] = []
    for event in events:
        sent.append((event, _dispatch(owner, event, sent)))
    return [dispatch for _, dispatch in sent]


def _dispatch(owner: OwnerConfig, event: Event, earlier: Sequence[tuple[Event, Dispatch]]) -> Dispatch:
    if owner.digest != "none":
        first = next(at for at in _quarters(event.at) if _is_digest_time(owner, at))
        return Dispatch(_first_loud(owner, first), alone=False)
    if _is_quiet(owner, event.at):
        return Dispatch(_first_loud(owner, event.at), alone=False)
    window = event.at.timestamp() // owner.per_s
    alone = [one.query for one, sent in earlier if sent.alone and one.at.timestamp() // owner.per_s == window]
    is_over = owner.most is not None and alone.count(event.query) >= owner.most
    if is_over or (owner.most_in_all is not None and len(alone) >= owner.most_in_all):
        end = next(at for at in _quarters(event.at) if at.timestamp() // owner.per_s != window)
        return Dispatch(_first_loud(owner, end), alone=False)
    return Dispatch(event.at, alone=True)


def _quarters(after: datetime) -> Iterator[datetime]:
    second = int(after.timestamp() // _STEP_S * _STEP_S)
    while True:
        second += _STEP_S
        yield datetime.fromtimestamp(second, UTC)


def _minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:5])


def _minute(owner: OwnerConfig, at: datetime) -> int:
    local = at.astimezone(ZoneInfo(owner.time_zone))
    return local.hour * 60 + local.minute


def _is_digest_time(owner: OwnerConfig, at: datetime) -> bool:
    if owner.cron is not None:
        return _is_cron_time(owner.cron, at.astimezone(ZoneInfo(owner.time_zone)))
    if owner.digest == "hour":
        return _minute(owner, at) % 60 == 0
    weekday = WEEKDAYS[at.astimezone(ZoneInfo(owner.time_zone)).weekday()]
    return _minute(owner, at) == _minutes(owner.at) and (owner.digest == "day" or weekday == owner.weekday)


def _is_cron_time(cron: str, local: datetime) -> bool:
    """Whether a time is one of an expression whose fields are numbers, lists of numbers, weekdays, or stars."""
    minute, hour, day, month, weekday = cron.split()

    def fits(field: str, value: int | str) -> bool:
        return field == "*" or str(value) in field.split(",")

    days = fits(day, local.day), fits(weekday, WEEKDAYS[local.weekday()])
    is_day = any(days) if day != "*" and weekday != "*" else all(days)  # as every cron: with both given, either counts
    return is_day and fits(minute, local.minute) and fits(hour, local.hour) and fits(month, local.month)


def _is_quiet(owner: OwnerConfig, at: datetime) -> bool:
    if owner.quiet is None:
        return False
    begin, end = (_minutes(clock) for clock in owner.quiet.split("-"))
    quiet = {minute % 1440 for minute in range(begin, end if begin < end else end + 1440)}
    return _minute(owner, at) in quiet


def _first_loud(owner: OwnerConfig, at: datetime) -> datetime:
    return at if not _is_quiet(owner, at) else next(later for later in _quarters(at) if not _is_quiet(owner, later))
