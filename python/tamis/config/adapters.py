"""Defines an ``[[adapter]]`` of pipeline.toml from the options of its source."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, create_model, model_validator

from tamis.adapters.options import SOURCE_TYPES, OptionRule, options_of, rule_of
from tamis.config.errors import MistakeError
from tamis.config.fields import Milliseconds, Name, PathBeside, Section
from tamis.errors import short


def _option_field(option: dataclasses.Field[Any]) -> tuple[Any, Any]:
    """An option of a source as a field of a model: its type, and its default."""
    rule = rule_of(option)
    if option.name == "path":
        return PathBeside, ...
    kind: Any = str
    if rule.minimum is not None:
        kind = Annotated[int, Field(strict=True, gt=rule.minimum - 1)]
    elif rule.or_number:
        kind = Annotated[str, BeforeValidator(functools.partial(_word_or_number, option.name, rule))]
    elif rule.words:
        kind = Literal[rule.words]
    is_of_all = rule.types == SOURCE_TYPES
    return (kind, option.default) if is_of_all else (kind | None, None)


def _word_or_number(name: str, rule: OptionRule, value: Any) -> str:
    if value in rule.words or (type(value) is int and value > 0):
        return str(value)
    raise ValueError(f"{name}: expected {rule.expected}, not {short(value)}")


_OPTIONS: Final = [option for option in options_of() if rule_of(option).in_pipeline]

if TYPE_CHECKING:

    class _AdapterFields(Section):
        name: Name
        type: str
        poll_interval_ms: Milliseconds

        def __getattr__(self, name: str) -> Any: ...
else:
    _AdapterFields = create_model(
        "_AdapterFields",
        __base__=Section,
        name=(Name, ...),
        type=(Literal[SOURCE_TYPES], ...),
        poll_interval_ms=(Milliseconds, 1000),
        **{option.name: _option_field(option) for option in _OPTIONS},
    )


class AdapterConfig(_AdapterFields):
    """An ``[[adapter]]``: a source of messages, with the options of `tamis.adapters.options.SourceOptions`.

    Attributes:
        name: unique; the `source` of its notifications.
        type: the format of what it reads.
        poll_interval_ms: time between two looks for new messages.
    """

    @model_validator(mode="after")
    def _is_of_a_type_that_has_its_options(self) -> Self:
        for option in _OPTIONS:
            types = rule_of(option).types
            if self.type not in types and getattr(self, option.name) is not None:
                having = " or ".join(f"'{one}'" for one in types)
                raise MistakeError(
                    (option.name,), f"'{option.name}' is for adapters of type {having}, not '{self.type}'"
                )
        return self

    def options(self) -> dict[str, Any]:
        """Name -> value of the options of its source that are set."""
        values = {option.name: getattr(self, option.name) for option in _OPTIONS}
        return {name: value for name, value in values.items() if value is not None} | {"path": str(self.path)}
