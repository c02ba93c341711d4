"""Defines ``[spark]``: the machines on which a pipeline reads and matches.

Without it, that is this machine."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from tamis.config.errors import MistakeError
from tamis.config.fields import Domain, Line, Section

LOCAL: Final = "local[*]"
"""All cores of this machine."""
_LOOPBACK: Final = ("127.", "localhost")
_MASTERS: Final = ("local", "spark://", "yarn", "k8s://")


def _master(master: str) -> str:
    if not master.startswith(_MASTERS):
        raise ValueError(f"master: expected local[N], spark://HOST:PORT, yarn or k8s://URL, not '{master}'")
    return master


class SparkSection(Section):
    """``[spark]``: where Spark runs.

    Attributes:
        master: the master, as Spark writes it, such as ``spark://host:7077``.
        host: the address of this machine to which the workers connect; other machines need another than 127.0.0.1.
        python: the Python of the workers, which has the same tamis; default: the path of this one.
        options: settings of Spark by their names, which override those of tamis.
    """

    master: Annotated[Line, AfterValidator(_master)] = LOCAL
    host: Domain = "127.0.0.1"
    python: Line | None = None
    options: dict[str, StrictStr | StrictBool | StrictInt | StrictFloat] = Field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine, in one process of Java."""
        return self.master.startswith("local")

    def texts(self) -> dict[str, str]:
        """Return the options as Spark takes them."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in self.options.items()
        }

    @field_validator("options")
    @classmethod
    def _are_of_spark(cls, options: dict[str, object]) -> dict[str, object]:
        for name in options:
            if not name.startswith("spark."):
                raise MistakeError((name,), f"expected a setting of Spark, such as spark.executor.memory, not '{name}'")
        return options

    @model_validator(mode="after")
    def _is_reachable(self) -> Self:
        elsewhere = not self.is_local and not self.master.partition("://")[2].startswith(_LOOPBACK)
        if elsewhere and self.host.startswith(_LOOPBACK):
            raise MistakeError(
                ("master",),
                f"workers on other machines cannot connect to {self.host}: set 'host' to an address of this machine",
            )
        return self
