"""Defines an adapter of a pipeline, a source with a name and options, and tests whether it can be read."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tamis.adapters import register
from tamis.adapters.registry import source_class
from tamis.adapters.sources.files import status_of
from tamis.adapters.sources.live.source import LiveSource
from tamis.adapters.sources.source import Source
from tamis.errors import AdapterError, TamisError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tamis.adapters.rows import Row

_SAMPLE_MESSAGES: Final = 20
_TRIGGER_MS: Final = 1_000


class AdapterSettings(Protocol):
    """An ``[[adapter]]`` of pipeline.toml, as its configuration gives it."""

    @property
    def name(self) -> str: ...  # noqa: D102 - as `Adapter` says, for this and the two that follow
    @property
    def type(self) -> str: ...  # noqa: D102
    @property
    def poll_interval_ms(self) -> int: ...  # noqa: D102
    def options(self) -> Mapping[str, Any]:
        """Return name -> value of the options of its source that were given."""


@dataclass(frozen=True, slots=True)
class AdapterHealth:
    """The result of a test of an adapter.

    Attributes:
        name: the name of the adapter.
        readable: whether it can be read; if not, `reason` says why.
        reason: what is wrong, or None.
        files: number of files.
        bytes: total size of the files.
        sampled: number of messages that were read for the test, at most 20.
        dead: number of these that could not be read.
        first_dead: why the first of them could not be read.
        newest_at: when the newest file was last written; without files, the date of the newest of the messages read for
            the test; None if there is none.
        seconds: how long the test took.
    """

    name: str
    readable: bool
    reason: str | None = None
    files: int = 0
    bytes: int = 0
    sampled: int = 0
    dead: int = 0
    first_dead: str | None = None
    newest_at: datetime | None = None
    seconds: float = 0.0


class Adapter:
    """A source with a name.

    Args:
        name: unique in its pipeline.
        source_type: one of `tamis.adapters.registry.source_types`.
        poll_interval_ms: time between two looks for new messages; None: the source's own.
        options: fields of the source's `Options`, such as `path`; an empty topic is the adapter's name.

    Raises:
        AdapterError: there is no such type, or it does not have one of the options.
    """

    def __init__(
        self,
        name: str,
        source_type: str,
        path: str | None = None,
        *,
        poll_interval_ms: int | None = None,
        **options: Any,
    ) -> None:
        try:
            self._source = source_class(source_type)
            given = options if path is None else {"path": path} | options
            self._source.Options.check_names(given)
        except AdapterError as error:
            raise AdapterError(f"adapter '{name}': {error}") from error
        self.name, self.source_type = name, source_type
        self.poll_interval_ms = poll_interval_ms or self._source.poll_interval_ms
        if "poll_interval_ms" in {one.name for one in fields(self._source.Options)}:
            given["poll_interval_ms"] = self.poll_interval_ms
        self._options = self._source.Options(**given | {"topic": given.get("topic") or name})

    @classmethod
    def from_config(cls, config: AdapterSettings, work: Path | None = None) -> Self:
        """Return the adapter that a configuration describes.

        Args:
            config: an ``[[adapter]]``.
            work: the pipeline's folder for its own files, such as spools; None: ``work`` in the current folder.

        Raises:
            AdapterError: there is no such type.
        """
        spool = (work or Path("work")) / "spools" / config.name
        has_spool = "spool" in {one.name for one in fields(source_class(config.type).Options)}
        options = dict(config.options()) | ({"spool": str(spool.absolute())} if has_spool else {})
        return cls(config.name, config.type, poll_interval_ms=config.poll_interval_ms, **options)

    @property
    def trigger_ms(self) -> int:
        """The time between two polls by Spark, in milliseconds. A live source decides by itself when it looks."""
        return (
            min(self.poll_interval_ms, _TRIGGER_MS) if issubclass(self._source, LiveSource) else self.poll_interval_ms
        )

    @property
    def format(self) -> str:
        """The name of the source in Spark."""
        return self._source.format()

    def options(self) -> dict[str, str]:
        """Return the options of the source in Spark."""
        return self._options.texts()

    def source(self) -> Source:
        """Return the source, without Spark.

        Raises:
            AdapterError: an option is wrong.
            ConfigError: the file of stop words cannot be read.
        """
        return self._source(self._source.Options.of(self.options()))

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """Return the messages as a streaming DataFrame.

        Raises:
            AdapterError: there is nothing to read from; this is checked before Spark is asked.
        """
        self.source().check()
        # Register again for each stream: Spark 4.3's PythonStreamingSourceRunner writes into the registration's map of
        # the environment when a stream starts. If streams shared the map, the tasks of another stream could be
        # serialized at that moment and fail with java.io.OptionalDataException.
        register(spark, self.format)
        carried = {"carry": "true"} if issubclass(self._source, LiveSource) and not _is_local(spark) else {}
        return spark.readStream.format(self.format).options(**self.options(), **carried).load()

    def test(self) -> AdapterHealth:
        """Open the source without Spark and read a few messages. It never raises: errors are part of the result.

        Cost: one system call per file, and reading at most 20 messages.
        """
        started = time.monotonic()
        try:
            health = _examine(self.name, self.source())
        except TamisError as error:
            health = AdapterHealth(self.name, readable=False, reason=str(error))
        except OSError as error:
            health = AdapterHealth(self.name, readable=False, reason=f"{error.filename}: {error.strerror}")
        return replace(health, seconds=time.monotonic() - started)


def _is_local(spark: SparkSession) -> bool:
    """Return whether Spark's tasks run in processes of this machine."""
    from pyspark.sql.utils import is_remote

    return not is_remote() and str(spark.sparkContext.master).partition("[")[0] == "local"


def _examine(name: str, source: Source) -> AdapterHealth:
    source.check()
    statuses = [status for path in source.files() if (status := status_of(path))]
    rows = list(source.sample(_SAMPLE_MESSAGES))
    errors = [row.error for row in rows]
    dead = [error for error in errors if error is not None]
    written = (datetime.fromtimestamp(status.st_mtime, UTC) for status in statuses)
    dates = () if statuses else filter(None, map(_date_of, rows))
    return AdapterHealth(
        name,
        readable=True,
        files=len(statuses),
        bytes=sum(status.st_size for status in statuses),
        sampled=len(errors),
        dead=len(dead),
        first_dead=dead[0] if dead else None,
        newest_at=max((*written, *dates), default=None),
    )


def _date_of(row: Row) -> datetime | None:
    """Return the date of a mail or an item of a feed."""
    date = row.properties.get("date") if isinstance(row.properties, dict) else None
    return date.astimezone(UTC) if isinstance(date, datetime) and date.tzinfo else None
