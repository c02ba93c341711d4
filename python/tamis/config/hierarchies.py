"""Defines a ``[[hierarchy]]`` of pipeline.toml: the values of an attribute, each with its parent."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ValidationInfo, field_validator, model_validator

from tamis.config.errors import MistakeError
from tamis.config.fields import ConfigPath, Line, Section
from tamis.errors import ConfigError
from tamis.query.hierarchy import HierarchySpec, checked_parents, read_parents


class HierarchyConfig(Section):
    """A ``[[hierarchy]]``, which UNDER follows; a root has the parent ``""``.

    Attributes:
        attribute: the property whose values it orders.
        parents: value -> its parent.
        file: a file with the same, instead of `parents`: JSON or TOML.
    """

    attribute: Line
    parents: dict[str, str | None] | None = None
    file: ConfigPath | None = None

    @field_validator("parents", mode="before")
    @classmethod
    def _is_a_hierarchy(cls, value: Any, _info: ValidationInfo) -> Any:
        try:
            return checked_parents(value, "parents")
        except ConfigError as error:
            raise MistakeError((), str(error)) from error

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.parents is None) == (self.file is None):
            raise ValueError("expected either 'parents' or 'file'")
        return self

    def spec(self) -> HierarchySpec:
        """Return the hierarchy, which is read now if it is in a file.

        Raises:
            ConfigError: the file cannot be read, or holds no hierarchy.
        """
        if self.file is not None:
            return HierarchySpec(self.attribute, read_parents(self.file))
        return HierarchySpec(self.attribute, self.parents or {})
