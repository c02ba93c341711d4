"""Makes the sources available as Python data sources of Spark, for batches and streams.

The sources themselves do all the work.

Source: PySpark's `DataSource`, `DataSourceStreamReader` and `SupportsTriggerAvailableNow`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from tamis.adapters.registry import usable_sources
from tamis.adapters.rows import arrow_batches, columns
from tamis.adapters.sources.source import Offset, Slice, Source, offset_of

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "bigint": LongType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "positions": MapType(StringType(), ArrayType(IntegerType())),
    "text": StringType(),
    "time": TimestampType(),
    "texts": ArrayType(StringType()),
    "headers": MapType(StringType(), ArrayType(StringType())),
}
"""Kind of a column of `Row`, or of a property of mail -> its type in Spark."""


class SlicePartition(InputPartition):
    """A slice for a task."""

    def __init__(self, value: Slice) -> None:
        super().__init__(value)
        self.value: Slice = value


class TamisDataSource(DataSource):
    """A data source of Spark; `data_sources` makes a subclass for each source."""

    source_type: ClassVar[type[Source]]

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.source_type.format()

    def schema(self) -> StructType:
        """Return the columns of the rows.

        Raises:
            AdapterError: an option is wrong, or there is nothing to read from.
        """
        source = self.source()
        source.check()
        kinds = columns(signature=source.options.signature, streams=source.streams)
        types = _TYPES | {"properties": _properties_type(source)}
        return StructType([StructField(name, types[kind]) for name, kind in kinds.items()])

    def source(self) -> Source:
        """Return the source that the options describe.

        Raises:
            AdapterError: an option is wrong.
        """
        return self.source_type(self.source_type.Options.of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of everything that exists."""
        return BatchReader(self.source(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of what is new."""
        return StreamReader(self.source(), schema)


def data_sources() -> list[type[TamisDataSource]]:
    """Return a data source for each type of source that can be used."""
    return [type(f"{source.__name__}Data", (TamisDataSource,), {"source_type": source}) for source in usable_sources()]


def _properties_type(source: Source) -> DataType:
    if isinstance(source.table, str):
        return {"json": StringType(), "variant": VariantType()}[source.table]
    return StructType([StructField(known.name, _TYPES[known.kind]) for known in source.table])


class BatchReader(DataSourceReader):
    """Reads everything once; the end of a file is the end of its last message."""

    def __init__(self, source: Source, schema: StructType) -> None:
        self._source, self._schema = source, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per slice."""
        start = offset_of({})
        slices = self._source.plan(start, self._source.latest(start, None, settled=True))
        return [SlicePartition(part) for part in slices or [Slice(())]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a slice."""
        return _read(self._source, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches of at most `max_messages`. A process next to the driver asks for offsets; tasks read."""

    def __init__(self, source: Source, schema: StructType) -> None:
        self._source, self._schema = source, schema
        self._ceiling: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the beginning: a stream first reads everything that exists."""
        return offset_of({})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the option `max_messages`."""
        return ReadMaxRows(self._source.options.max_messages)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset at which the next batch ends."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._source.latest(start, rows, ceiling=self._ceiling)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take the current state as the end, after a file that is being written has had time to settle."""
        self._source.wait_until_settled()
        self._ceiling = self._source.latest(offset_of({}), None)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition per slice."""
        return [SlicePartition(part) for part in self._source.plan(start, end) or [Slice(())]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a slice."""
        return _read(self._source, self._schema, partition)


def _read(source: Source, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    return arrow_batches(source.read(partition.value), to_arrow_schema(schema, timezone="UTC"))
