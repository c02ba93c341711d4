"""Defines an ``[[owner]]`` of pipeline.toml: where the notifications of a person's queries go, and at which times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tamis.config.errors import MistakeError
from tamis.config.fields import Clock, Count, MailAddress, Name, QuietHours, Seconds, Section, TemplatesFolder

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_ONLY_WITH = {
    "at": ("digest", ("day", "week")),
    "weekday": ("digest", ("week",)),
    "cron": ("digest", ("cron",)),
}
_INHERITED = ("to", "time_zone", "confirm", "templates")
_CONFIRM_WHAT = "'confirm' needs 'to': the addresses to confirm"
_CRON_FROM = datetime(2024, 1, 1, tzinfo=UTC)  # the expression is only tried; the time does not matter


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _cron(text: str) -> str:
    from cronsim import CronSim, CronSimError

    try:
        next(CronSim(text, _CRON_FROM))
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "there is no such time"
        form = "minute, hour, day of the month, month, day of the week, as in '30 8 * * mon-fri'"
        raise ValueError(f"cron: '{text}': {reason[:1].lower()}{reason[1:]}; expected {form}") from None
    return text


class ProfileConfig(Section):
    """The address and the rhythm with which an owner is told of some of their queries.

    Attributes:
        name: queries name the owner as ``owner/name``.
        to: the addresses; empty: those of the delivery, or for a profile those of its owner.
        time_zone: the time zone of all times, such as ``Europe/Berlin``.
        digest: whether notifications are gathered, and how often they are sent.
        at: when a digest of the day or week is sent.
        weekday: when a digest of the week is sent.
        cron: when a digest is sent, in five fields: minute, hour, day of the month, month, day of the week.
        quiet: hours in which nothing is sent; it goes as a digest at their end.
        most: maximum number of e-mails of one query in `per_s`; the others go as a digest at its end.
        most_in_all: the same for all queries together.
        per_s: see `most`.
        confirm: whether e-mails go to an address only once its holder has confirmed it.
        templates: a folder with templates for their e-mails, instead of the delivery's.
    """

    name: Name
    to: Annotated[tuple[MailAddress, ...], BeforeValidator(_as_tuple)] = ()
    time_zone: str = "UTC"
    digest: Literal["none", "hour", "day", "week", "cron"] = "none"
    at: Clock = "08:00"
    weekday: Weekday = "mon"
    cron: Annotated[str, AfterValidator(_cron)] | None = None
    quiet: QuietHours | None = None
    most: Count | None = None
    most_in_all: Count | None = None
    per_s: Seconds = 3600.0
    confirm: bool = Field(default=False, strict=True)
    templates: TemplatesFolder | None = None

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
        if self.digest == "cron" and self.cron is None:
            raise MistakeError(("digest",), "digest = \"cron\" needs 'cron', as in '30 8 * * mon-fri'")
        limits = [key for key in ("most", "most_in_all") if getattr(self, key) is not None]
        if "per_s" in self.model_fields_set and not limits:
            raise MistakeError(("per_s",), "'per_s' is used only with 'most' or 'most_in_all'")
        if limits and self.digest != "none":
            raise MistakeError((limits[0],), f"'{limits[0]}' has no effect with a digest: remove one of them")
        if self.most is not None and self.most_in_all is not None and self.most > self.most_in_all:
            raise MistakeError(("most",), "'most' has no effect above 'most_in_all': remove it, or make it smaller")
        if (quiet := self.quiet_times) and quiet[0] == quiet[1]:
            raise MistakeError(("quiet",), "the quiet hours end when they begin; expected two times, as 22:00-07:00")
        return self


class OwnerConfig(ProfileConfig):
    """A person who is told of the matches of the queries that name them as `owner`, by e-mail or chat.

    Attributes:
        name: what queries call them.
        profiles: other addresses and rhythms, each for the queries that name it.
    """

    profiles: tuple[ProfileConfig, ...] = Field(default=(), alias="profile")

    def with_profiles(self) -> Iterator[OwnerConfig]:
        """Yield the owner, then each profile as an owner of its own, with the name ``owner/profile``.

        What a profile does not say of addresses, time zone and templates is as the owner says. Its rhythm is its own.
        """
        yield self.model_copy(update={"profiles": ()})
        for profile in self.profiles:
            own = {name: getattr(profile, name) for name in ProfileConfig.model_fields}
            own |= {name: getattr(self, name) for name in _INHERITED if name not in profile.model_fields_set}
            yield self.model_copy(update={**own, "name": f"{self.name}/{profile.name}", "profiles": ()})

    @model_validator(mode="after")
    def _profiles_are_consistent(self) -> Self:
        taken: set[str] = set()
        for index, profile in enumerate(self.profiles):
            if profile.name in taken:
                raise MistakeError(("profile", index, "name"), f"the name '{profile.name}' is taken already")
            taken.add(profile.name)
            if profile.confirm and not (profile.to or self.to):
                raise MistakeError(("profile", index, "confirm"), _CONFIRM_WHAT)
        if self.confirm and not self.to:
            raise MistakeError(("confirm",), _CONFIRM_WHAT)
        return self


def find_owner(owners: Mapping[str, OwnerConfig], name: str) -> OwnerConfig | None:
    """Return the owner whom a query names, without the profile if that does not exist; None if there is none.

    Args:
        owners: the owners by name, each with its profiles.
        name: the owner as a query names them: ``owner`` or ``owner/profile``.
    """
    return owners.get(name) or owners.get(name.partition("/")[0])
