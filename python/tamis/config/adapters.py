"""Defines an ``[[adapter]]`` of pipeline.toml: one model for each type of source, made from the source's options."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Field, create_model

from tamis.adapters.options import OptionRule, rule_of
from tamis.adapters.registry import usable_sources
from tamis.adapters.sources.source import Source
from tamis.config.fields import ConfigPath, Milliseconds, Name, Section
from tamis.config.publish import PublishConfig
from tamis.errors import short


class AdapterConfig(Section):
    """An ``[[adapter]]``: a source of messages. A subclass for each type has the options of its source.

    Attributes:
        name: unique; the `source` of its notifications.
        type: the type of its source.
        poll_interval_ms: time between two looks for new messages.
        topic: the topic of its messages; empty: the adapter's name.
        publish: the broker to which each of its messages is also published.
    """

    name: Name
    type: str
    poll_interval_ms: Milliseconds = 1_000
    topic: str = ""
    publish: PublishConfig | None = None

    def options(self) -> dict[str, Any]:
        """Return name -> value of the options of its source that are set."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in _COMMON}
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in values.items()
            if value is not None
        }

    @property
    def place(self) -> str:
        """Return what it reads, for people: its path, its address or its server."""
        named = (getattr(self, name, None) for name in ("path", "url", "host", "listen", "servers"))
        return next((str(value) for value in named if value), "")


_COMMON = frozenset(AdapterConfig.model_fields) - {"topic"}


def model_of(source: type[Source]) -> type[AdapterConfig]:
    """Return the model of an ``[[adapter]]`` of one type."""
    options = {one.name: _option_field(one) for one in dataclasses.fields(source.Options) if rule_of(one).in_pipeline}
    own: dict[str, Any] = {
        "type": (Literal[source.type], ...),
        "poll_interval_ms": (Milliseconds, source.poll_interval_ms),
    }
    return create_model(f"{source.__name__}Config", __base__=AdapterConfig, **(options | own))


def _option_field(one: dataclasses.Field[Any]) -> tuple[Any, Any]:
    """Return an option of a source as a field of a model: its type, and its default."""
    rule = rule_of(one)
    kind: Any = str
    if rule.is_path:
        kind = ConfigPath
    elif rule.minimum is not None:
        kind = Annotated[int, Field(strict=True, gt=rule.minimum - 1, le=rule.maximum)]
    elif isinstance(one.default, bool):
        kind = Annotated[bool, Field(strict=True)]
    elif rule.or_number:
        kind = Annotated[str, BeforeValidator(functools.partial(_word_or_number, one.name, rule))]
    elif rule.words:
        kind = Literal[rule.words]
    if rule.required:
        return kind, ...
    return (kind | None, None) if one.default is None else (kind, one.default)


def _word_or_number(name: str, rule: OptionRule, value: Any) -> str:
    if value in rule.words or (type(value) is int and value > 0):
        return str(value)
    raise ValueError(f"{name}: expected {rule.expected}, not {short(value)}")


ADAPTERS: dict[str, type[AdapterConfig]] = {source.type: model_of(source) for source in usable_sources()}
"""Type -> model, of every type that can be used."""

if TYPE_CHECKING:
    AnyAdapterConfig = AdapterConfig
else:
    AnyAdapterConfig = Annotated[Union[tuple(ADAPTERS.values())], Field(discriminator="type")]  # noqa: UP007
    """An ``[[adapter]]``, by its `type`."""


def types_with(option: str) -> list[str]:
    """Return the types of adapters that have an option."""
    return [name for name, model in ADAPTERS.items() if option in model.model_fields]
