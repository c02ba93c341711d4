"""Defines an ``[[owner]]`` of pipeline.toml: where the notifications of a person's queries go, and at which times."""

from __future__ import annotations

from datetime import time
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, model_validator

from tamis.config.errors import MistakeError
from tamis.config.fields import Clock, Count, Line, Name, QuietHours, Seconds, Section, TemplatesBeside

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_ONLY_WITH = {"at": ("digest", ("day", "week")), "weekday": ("digest", ("week",))}


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class OwnerConfig(Section):
    """Who is told of the matches of the queries that name them as `owner`, by e-mail (`smtp`, `eml`).

    Attributes:
        name: what queries call them.
        to: their addresses; empty: those of the delivery.
        time_zone: for all times, such as ``Europe/Berlin``.
        digest: whether notifications are gathered, and how often they are sent.
        at: when a digest of the day or week is sent.
        weekday: when a digest of the week is sent.
        quiet: hours in which nothing is sent; it goes as a digest at their end.
        most: maximum number of e-mails of one query in `per_s`; the others go as a digest at its end.
        per_s: see `most`.
        templates: a folder with templates for their e-mails, instead of the delivery's.
    """

    name: Name
    to: Annotated[tuple[Line, ...], BeforeValidator(_as_tuple)] = ()
    time_zone: str = "UTC"
    digest: Literal["none", "hour", "day", "week"] = "none"
    at: Clock = "08:00"
    weekday: Weekday = "mon"
    quiet: QuietHours | None = None
    most: Count | None = None
    per_s: Seconds = 3600.0
    templates: TemplatesBeside | None = None

    @property
    def zone(self) -> ZoneInfo:
        """The time zone."""
        return ZoneInfo(self.time_zone)

    @property
    def digest_time(self) -> time:
        """When a digest of the day or week is sent, in the owner's time zone."""
        return time.fromisoformat(self.at)

    @property
    def quiet_times(self) -> tuple[time, time] | None:
        """The begin and the end of the quiet hours, in the owner's time zone."""
        if self.quiet is None:
            return None
        begin, end = self.quiet.split("-")
        return time.fromisoformat(begin), time.fromisoformat(end)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        try:
            ZoneInfo(self.time_zone)
        except (LookupError, ValueError, OSError):
            expected = "expected a name such as Europe/Berlin"
            raise MistakeError(("time_zone",), f"no time zone is named '{self.time_zone}'; {expected}") from None
        for key, (other, values) in _ONLY_WITH.items():
            if key in self.model_fields_set and getattr(self, other) not in values:
                wanted = " or ".join(f'{other} = "{value}"' for value in values)
                raise MistakeError((key,), f"'{key}' is used only with {wanted}")
        if "per_s" in self.model_fields_set and self.most is None:
            raise MistakeError(("per_s",), "'per_s' is used only with 'most'")
        if self.most is not None and self.digest != "none":
            raise MistakeError(("most",), "'most' is of no use where everything goes into a digest")
        if (quiet := self.quiet_times) and quiet[0] == quiet[1]:
            raise MistakeError(("quiet",), "the quiet hours end when they begin; expected two times, as 22:00-07:00")
        return self
