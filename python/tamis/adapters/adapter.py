"""An adapter of a pipeline: a source with a name, its topic and its settings; and whether it can be read."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, Self

from tamis.adapters import register
from tamis.adapters.eml import EmlSource
from tamis.adapters.files import Source, offset_of, status_of
from tamis.adapters.journal import JournalSource
from tamis.adapters.jsonl import JsonlSource
from tamis.adapters.mbox import MboxSource
from tamis.adapters.options import MAX_MESSAGES_DEFAULT, SourceOptions
from tamis.errors import AdapterError, TamisError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SOURCES: Final[dict[str, type[Source]]] = {
    "mbox": MboxSource,
    "eml": EmlSource,
    "jsonl": JsonlSource,
    "journal": JournalSource,
}
"""The types of adapters."""

_SAMPLE_MESSAGES: Final = 20


class AdapterSettings(Protocol):
    """An ``[[adapter]]`` of pipeline.toml, as its configuration gives it."""

    @property
    def name(self) -> str: ...  # noqa: D102 - as `Adapter` says, for this and all that follow
    @property
    def type(self) -> str: ...  # noqa: D102
    @property
    def path(self) -> Path: ...  # noqa: D102
    @property
    def topic(self) -> str: ...  # noqa: D102
    @property
    def poll_interval_ms(self) -> int: ...  # noqa: D102
    @property
    def stop_words(self) -> str: ...  # noqa: D102
    @property
    def max_messages(self) -> int: ...  # noqa: D102
    @property
    def body_field(self) -> str | None: ...  # noqa: D102
    @property
    def starting_offset(self) -> str | None: ...  # noqa: D102
    @property
    def query_body(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class AdapterHealth:
    """What a test of an adapter found.

    Attributes:
        name: the adapter's.
        readable: whether it can be read; False when `reason` says why not.
        reason: what is wrong, or None.
        files: how many there are.
        bytes: how large they are together.
        sampled: messages that were read for the test, at most 20.
        dead: how many of these could not be read.
        first_dead: why the first of these could not.
        newest_at: when the newest file was last written; None when there is none.
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


@dataclass(frozen=True, slots=True)
class Adapter:
    """A source with a name.

    Attributes:
        name: unique in its pipeline.
        type: ``mbox``, ``eml``, ``jsonl`` or ``journal``.
        path: a file, a folder or a glob; the directory of a stream.
        topic: of its messages, or of dead letters of a stream; empty: the adapter's name.
        poll_interval_ms: how often it looks for new messages.
        stop_words: as `tamis.words.stop_words` reads them.
        max_messages: the most in one batch.
        body_field: JSON lines: the member that is the body.
        starting_offset: streams: ``first``, ``next`` or a number.
        query_body: streams: ``text`` or ``json``.
    """

    name: str
    type: str
    path: str
    topic: str = ""
    poll_interval_ms: int = 1_000
    stop_words: str = "english"
    max_messages: int = MAX_MESSAGES_DEFAULT
    body_field: str | None = None
    starting_offset: str | None = None
    query_body: str | None = None

    def __post_init__(self) -> None:
        if self.type not in SOURCES:
            raise AdapterError(f"adapter '{self.name}': no type '{self.type}'; there are: {', '.join(SOURCES)}")

    @classmethod
    def from_config(cls, config: AdapterSettings) -> Self:
        """The adapter that a configuration describes.

        Raises:
            AdapterError: there is no such type.
        """
        return cls(
            name=config.name,
            type=config.type,
            path=str(config.path),
            topic=config.topic,
            poll_interval_ms=config.poll_interval_ms,
            stop_words=config.stop_words,
            max_messages=config.max_messages,
            body_field=config.body_field,
            starting_offset=config.starting_offset,
            query_body=config.query_body,
        )

    @property
    def format(self) -> str:
        """The name of its source in Spark."""
        return SOURCES[self.type].format

    def options(self) -> dict[str, str]:
        """The options of its source in Spark."""
        options = {
            "path": self.path,
            "topic": self.topic or self.name,
            "stop_words": self.stop_words,
            "max_messages": str(self.max_messages),
        }
        of_its_type = {
            "body_field": self.body_field,
            "starting_offset": self.starting_offset,
            "query_body": self.query_body,
        }
        return options | {name: value for name, value in of_its_type.items() if value is not None}

    def source(self) -> Source:
        """Its source, without Spark.

        Raises:
            AdapterError: an option is wrong.
            ConfigError: the file of stop words cannot be read.
        """
        kind = SOURCES[self.type]
        return kind(SourceOptions.of(self.options(), kind.has_option))

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """Its messages as a streaming DataFrame.

        Raises:
            AdapterError: there is nothing to read from, said before Spark is asked.
        """
        self.source().check()
        # Anew for each stream: Spark 4.3's PythonStreamingSourceRunner writes into the registration's map of the
        # environment when a stream starts. Were it shared, another stream's tasks could be serialized at that moment,
        # and would fail with java.io.OptionalDataException.
        register(spark, self.format)
        return spark.readStream.format(self.format).options(**self.options()).load()

    def test(self) -> AdapterHealth:
        """Open the source without Spark, and read a few messages. Raises nothing: what is wrong is in the answer.

        Cost: a system call a file, and at most 20 messages.
        """
        started = time.monotonic()
        try:
            health = _examine(self.name, self.source())
        except TamisError as error:
            health = AdapterHealth(self.name, readable=False, reason=str(error))
        except OSError as error:
            health = AdapterHealth(self.name, readable=False, reason=f"{error.filename}: {error.strerror}")
        return replace(health, seconds=time.monotonic() - started)


def _examine(name: str, source: Source) -> AdapterHealth:
    source.check()
    statuses = [status for path in source.files() if (status := status_of(path))]
    start = offset_of({})
    end = source.latest(start, _SAMPLE_MESSAGES, settled=True)
    errors = [row.error for part in source.plan(start, end) for row in source.read(part)]
    dead = [error for error in errors if error is not None]
    newest = max((status.st_mtime for status in statuses), default=None)
    return AdapterHealth(
        name,
        readable=True,
        files=len(statuses),
        bytes=sum(status.st_size for status in statuses),
        sampled=len(errors),
        dead=len(dead),
        first_dead=dead[0] if dead else None,
        newest_at=None if newest is None else datetime.fromtimestamp(newest, UTC),
    )
