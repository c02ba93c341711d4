"""Decides when a notification is sent to its owner: at once, or later in a digest with others.

Pure: the answer depends on the owner's settings, the time of the match and a count, so a restart decides the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from tamis.config.owners import WEEKDAYS, OwnerConfig
from tamis.store.records import StepKind

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Decision:
    """When to send.

    Attributes:
        until: when the digest is sent, UTC; None: at once and alone.
        step: what the log says.
        reason: why, with the time in the owner's time zone.
    """

    until: datetime | None = None
    step: StepKind = "digested"
    reason: str | None = None


@dataclass(frozen=True)
class SentAlone:
    """How many notifications were sent to an owner alone since `window_start`.

    Attributes:
        of_query: of the same query.
        in_all: of all queries.
    """

    of_query: int = 0
    in_all: int = 0


def decide(owner: OwnerConfig, at: datetime, sent: SentAlone) -> Decision:
    """Decide when a notification is sent.

    Args:
        owner: who gets it.
        at: when its message matched; aware.
        sent: what was sent before it.
    """
    if owner.digest != "none":
        until = after_quiet(owner, next_digest(owner, at))
        which = "next digest" if owner.digest == "cron" else f"digest of the {owner.digest}"
        return Decision(until, "digested", f"in the {which}, {_local(owner, until)}")
    if (until := after_quiet(owner, at)) != at:
        return Decision(until, "quiet", f"quiet hours until {_local(owner, until)}")
    limits = ((owner.most, sent.of_query, "of this query"), (owner.most_in_all, sent.in_all, "of all queries"))
    for most, count, what in limits:
        if most is not None and count >= most:
            until = after_quiet(owner, window_start(owner, at) + timedelta(seconds=owner.per_s))
            more = f"more than {most} {what} in {owner.per_s:.10g} s"
            return Decision(until, "throttled", f"{more}; in a digest, {_local(owner, until)}")
    return Decision()


def window_start(owner: OwnerConfig, at: datetime) -> datetime:
    """Return when the span of `per_s` that `at` lies in began; the first began with the year 1970, UTC."""
    return datetime.fromtimestamp(at.timestamp() // owner.per_s * owner.per_s, UTC)


def next_digest(owner: OwnerConfig, at: datetime) -> datetime:
    """Return when the first digest after `at` is sent, UTC. A time that the clocks skip is moved later."""
    local = at.astimezone(owner.zone)
    if owner.digest == "hour":
        past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        return at.astimezone(UTC) - past + _HOUR
    if owner.cron is not None:
        return next(when for when in _cron_times(owner.cron, local) if when > at)
    days = (local.date() + _DAY * number for number in range(9))
    times = (_instant(owner, day, owner.digest_time) for day in days if _is_digest_day(owner, day))
    return next(when for when in times if when > at)


def _cron_times(cron: str, local: datetime) -> Iterator[datetime]:
    from cronsim import CronSim

    return (when.astimezone(UTC) for when in CronSim(cron, local))


def after_quiet(owner: OwnerConfig, at: datetime) -> datetime:
    """`at`, or the end of the quiet hours in which it lies."""
    if owner.quiet_times is None:
        return at
    (begin, end), local = owner.quiet_times, at.astimezone(owner.zone)
    over_midnight, now = begin > end, local.time()
    if not (begin <= now or now < end if over_midnight else begin <= now < end):
        return at
    ends_on = local.date() + (_DAY if over_midnight and now >= begin else 0 * _DAY)
    return max(at, _instant(owner, ends_on, end))  # clocks that are put back show the hours before the end twice


def _is_digest_day(owner: OwnerConfig, day: date) -> bool:
    return owner.digest == "day" or WEEKDAYS[day.weekday()] == owner.weekday


def _instant(owner: OwnerConfig, day: date, at: time) -> datetime:
    return datetime.combine(day, at, owner.zone).astimezone(UTC)


def _local(owner: OwnerConfig, at: datetime) -> str:
    return f"{at.astimezone(owner.zone):%Y-%m-%d %H:%M %Z}"
