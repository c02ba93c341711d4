"""Streams as rows, without Spark: numbers, gaps, and what queries see."""

from __future__ import annotations

import itertools
import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pyarrow as pa
import pytest

import tamis
from tamis._core import stream_message
from tamis.adapters.rows import Row
from tamis.adapters.sources.journal import JournalOptions, JournalSource
from tamis.adapters.xml import from_xml
from tamis.errors import AdapterError
from tests.adapters.reading import BEGINNING, between, read_all
from tests.stream_log import TIME_US, StreamLog, message


@pytest.fixture
def log(tmp_path: Path) -> StreamLog:
    return StreamLog(tmp_path / "stream")


def source(log: StreamLog, **options: Any) -> JournalSource:
    return JournalSource(JournalOptions(path=str(log.folder), topic="orders", **options))


def write(log: StreamLog, count: int, *, synced: bool = True) -> None:
    for _ in range(count):
        log.append(message("a.b", b"body"))
    if synced:
        log.sync()


def numbers(rows: list[Row]) -> list[int]:
    return [row.offset for row in rows]


def test_a_record_is_a_row_with_all_that_the_message_had(log: StreamLog) -> None:
    properties = pika.BasicProperties(
        content_type="text/plain",
        headers={"price": 120, "deep": {"a": [1, "x"]}, "none": None},
        timestamp=1_600_000_000,
    )
    log.append(message("orders.new", b"Cover the garlic", properties, exchange="amq.topic"))
    log.sync()
    (row,) = read_all(source(log, signature=True, xml=True))
    assert (row.partition, row.offset, row.topic, row.exchange) == (str(log.folder), 1, "orders.new", "amq.topic")
    assert (row.body, row.raw, row.error, row.time) == ("Cover the garlic", None, None, TIME_US + 1)
    assert row.signature == [("cover", [0]), ("garlic", [2])]
    assert from_xml(row.xml or "").properties == {
        "content_type": "text/plain",
        "price": 120,
        "deep": {"a": [1, "x"]},
        "timestamp": datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC),
    }


def test_queries_find_in_the_variant_what_they_find_in_the_properties(log: StreamLog) -> None:
    properties = pika.BasicProperties(
        headers={
            "price": Decimal("12.5"),
            "when": datetime(2002, 8, 22, 18, 26, 25),
            "tags": ["x", "y"],
            "app_id": "header",
        },
        message_id="m",
        priority=3,
        timestamp=1_600_000_000,
    )
    texts = [
        "price > 12 AND price < 13",
        "when > TIMESTAMP '2002-08-22T18:26:24Z'",
        "timestamp = TIMESTAMP '2020-09-13T12:26:40Z'",
        "tags = 'y'",
        "app_id = 'header' AND message_id = 'm' AND priority = 3",
        "body.qty > 2",
        "body.items.sku = 'b'",
        "topic = 'k' AND CONTAINS(body, 'qty')",
        "missing IS NULL",
    ]
    engine = tamis.Engine()
    engine.add_many((text, tamis.selector(text)) for text in texts)
    body = b'{"qty": 3, "items": [{"sku": "a"}, {"sku": "b"}]}'
    _, topic, found, (value, metadata), same = stream_message(1, message("k", body, properties), "json")
    assert (topic, same) == ("k", body)
    assert engine.match(found, topic=topic, body=body) == texts
    variant = pa.array([{"value": value, "metadata": metadata}])
    ids = engine.match_batch(pa.table({"topic": [topic], "body": [body.decode()], "properties": variant}))
    assert engine.keys(ids[0]) == texts


def test_what_json_cannot_say_is_said() -> None:
    headers = {"raw": b"\xff\xfe", "far": 2**62, "none": None}
    record = message("k", b"\xff", pika.BasicProperties(headers=headers))
    _, _, properties, _, body = stream_message(1, record)
    assert properties["raw"] is tamis.PRESENT
    assert (properties["far"], properties["none"], body) == (2**62, None, b"\xff")
    with pytest.raises(ValueError, match="query_body: expected none, text or json, not 'xml'"):
        stream_message(1, record, "xml")  # type: ignore[arg-type]


def test_times_that_python_cannot_have_are_no_trouble() -> None:
    record = message("k", b"").removesuffix(bytes([0, 0])) + bytes([0, 1 << 6]) + (10**12).to_bytes(8, "big")
    _, _, properties, (value, _), _ = stream_message(1, record)
    assert properties["timestamp"] is tamis.PRESENT
    assert (10**18).to_bytes(8, "little") in value


def test_a_body_that_is_no_text_is_kept(log: StreamLog) -> None:
    log.append(message("k", b"\xff\x00"))
    log.sync()
    (row,) = read_all(source(log))
    assert (row.body, row.raw, row.error, row.signature) == (None, b"\xff\x00", None, None)


@pytest.mark.parametrize(
    ("record", "kind", "reason"),
    [
        (b"", 1, "a name ends too early"),
        (b"\x05ab", 1, "a name ends too early"),
        (b"\x00\x00\x00\x03", 1, "unknown property flags"),
        (b"\x00\x00\x20\x00\x00\x00\x00\x09x", 1, "end too early"),
        (message("k", b"x"), 9, "a record of kind 9, where a message was expected"),
        (message("k", b'{"a":' + b"[" * 99 + b"1" + b"]" * 99 + b"}"), 1, "nest"),
    ],
)
def test_what_is_no_message_is_a_dead_letter_with_its_reason(
    log: StreamLog, record: bytes, kind: int, reason: str
) -> None:
    log.append(record, kind)
    log.append(message("k", b"fine"))
    log.sync()
    dead, fine = read_all(source(log, query_body="json"))
    assert reason in (dead.error or "")
    assert (dead.offset, dead.topic, dead.raw) == (1, "orders", record)
    assert (fine.offset, fine.error) == (2, None)


def test_only_what_is_synced_is_read_while_the_broker_writes(log: StreamLog) -> None:
    reader = source(log)
    write(log, 3, synced=False)
    assert read_all(reader) == []
    log.sync()
    end = reader.latest(BEGINNING, None)
    assert numbers(between(reader, BEGINNING, end)) == [1, 2, 3]
    write(log, 2, synced=False)
    assert reader.latest(end, None) == end
    log.sync()
    log.roll()
    write(log, 2)
    assert numbers(between(reader, end, reader.latest(end, None))) == [4, 5, 6, 7]


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (100, [5])])
def test_batches_have_no_more_messages_than_allowed(log: StreamLog, limit: int, sizes: list[int]) -> None:
    write(log, 5)
    reader, at, found = source(log), BEGINNING, []
    while (end := reader.latest(at, limit)) != at:
        found.append(numbers(between(reader, at, end)))
        at = end
    assert [len(batch) for batch in found] == sizes
    assert list(itertools.chain.from_iterable(found)) == [1, 2, 3, 4, 5]


def test_slices_are_the_whole_range_once_each(log: StreamLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.adapters.sources.journal.SLICE_MESSAGES_MIN", 3)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    write(log, 50)
    reader = source(log)
    end = reader.latest(BEGINNING, None)
    parts = reader.plan(BEGINNING, end)
    assert len(parts) == 4
    assert numbers(between(reader, BEGINNING, end)) == list(range(1, 51))


@pytest.mark.parametrize(("starting", "expected"), [("first", [1, 2, 3, 4, 5]), ("next", [4, 5]), ("2", [2, 3, 4, 5])])
def test_a_reader_begins_where_it_is_told(log: StreamLog, starting: str, expected: list[int]) -> None:
    write(log, 3)
    reader = source(log, starting_offset=starting)
    first = reader.latest(BEGINNING, None)
    write(log, 2)
    again = reader.latest(first, None)
    found = between(reader, BEGINNING, first) + between(reader, first, again)
    assert numbers(found) == expected
    # The first batch has the same rows again, although "next" has moved.
    assert between(reader, BEGINNING, first) == found[: len(found) - 2]


def test_a_number_that_is_to_come_is_waited_for(log: StreamLog) -> None:
    write(log, 3)
    reader = source(log, starting_offset="5")
    first = reader.latest(BEGINNING, None)
    assert reader.plan(BEGINNING, first) == []
    write(log, 3)
    assert numbers(between(reader, first, reader.latest(first, None))) == [5, 6]


def test_what_retention_took_is_told_once(log: StreamLog) -> None:
    write(log, 2)
    reader = source(log)
    at = reader.latest(BEGINNING, 1)
    write(log, 8)
    removed = log.segment
    log.roll()
    write(log, 3)
    removed.unlink()
    end = reader.latest(at, 2)  # removed messages do not count
    gap, *rows = between(reader, at, end)
    assert gap.error == "9 messages, 2 to 10, were removed by the stream's retention before they were read"
    assert (gap.offset, gap.raw, numbers(rows)) == (2, b"", [11, 12])
    assert numbers(between(reader, end, reader.latest(end, None))) == [13]
    # A reader that begins at the first message has missed nothing.
    assert numbers(read_all(source(log))) == [11, 12, 13]
    # A reader that asked for a removed number has missed messages.
    assert numbers(read_all(source(log, starting_offset="10"))) == [10, 11, 12, 13]


def test_a_batch_of_which_everything_is_gone_is_told_too(log: StreamLog) -> None:
    write(log, 5)
    reader = source(log)
    end = reader.latest(BEGINNING, None)
    removed = log.segment
    log.roll()
    write(log, 1)
    removed.unlink()
    (gap,) = between(reader, BEGINNING, end)
    assert (gap.error or "").startswith("5 messages, 1 to 5, were removed")


def test_damage_is_told_and_the_rest_is_read(log: StreamLog) -> None:
    for number in range(1, 10):
        log.append(message("k", b"body of %d." % number))
    log.sync()
    for number in (3, 6, 7):
        log.damage(b"body of %d." % number)
    for limit in (None, 1, 2, 5):
        rows = read_all(source(log), limit)
        assert [row.offset for row in rows if row.error is None] == [1, 2, 4, 5, 8, 9]
        told = [row.error for row in rows if row.error]
        assert told[0] == "message 3 was damaged on disk"
        cut = ["message 6 was damaged on disk", "message 7 was damaged on disk"]
        assert told[1:] in (["2 messages, 6 to 7, were damaged on disk"], cut)


def test_another_log_in_the_same_place_stops_the_adapter(log: StreamLog) -> None:
    write(log, 3)
    reader = source(log)
    end = reader.latest(BEGINNING, None)
    before = {row.digest for row in read_all(reader)}
    shutil.rmtree(log.folder)
    again = StreamLog(log.folder, log_id=8)
    write(again, 9)
    assert before.isdisjoint(row.digest for row in read_all(source(log))), "all its messages are new"
    with pytest.raises(
        AdapterError, match="the stream was deleted and declared again since it was read up to number 4"
    ):
        reader.latest(end, None)
    with pytest.raises(AdapterError, match="deleted and declared again"):
        reader.plan(BEGINNING, end)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffset": "last"}, "option startingOffset: expected first, next or a number from 1, not 'last'"),
        ({"starting_offset": "0"}, "not '0'"),
        ({"query_body": "xml"}, "option query_body: expected text, json, not 'xml'"),
        ({"settle_ms": "5"}, "unknown option 'settle_ms'"),
        ({"pattern": "*"}, "unknown option 'pattern'"),
    ],
)
def test_a_wrong_option_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(AdapterError) as error:
        JournalOptions.of({"path": "x"} | given)
    assert said in str(error.value)


def test_names_of_options_may_be_written_as_spark_writes_them() -> None:
    options = JournalOptions.of({"path": "/x", "startingOffset": "7", "maxMessages": "5"})
    assert options == JournalOptions(path="/x", starting_offset="7", max_messages=5)


def test_a_place_without_a_log_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(AdapterError, match="expected the directory of a stream|cannot be read"):
            JournalSource(JournalOptions(path=str(path))).check()
