"""The sources in Spark: batch and streaming, from checkpoints, with bounded batches."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.manager import AdapterManager
from tamis.errors import AdapterError
from tamis.store import Store
from tests.adapters.reading import join_mbox, mail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Batches = list[list[tuple[str, int]]]


def collect_into(batches: Batches) -> Callable[[DataFrame, int], None]:
    def take(frame: DataFrame, batch_id: int) -> None:
        assert batch_id >= 0
        batches.append([(row.partition, row.offset) for row in frame.select("partition", "offset").collect()])

    return take


def stream(spark: SparkSession, kind: str, path: Path, checkpoint: Path, **options: str) -> Batches:
    """Read everything from the checkpoint on, batch by batch."""
    batches: Batches = []
    frame = spark.readStream.format(f"tamis.{kind}").options(**options).load(str(path))
    writer = frame.writeStream.foreachBatch(collect_into(batches)).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    return batches


def test_the_columns_are_those_that_every_adapter_gives(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(
        b"From: a@b\nDate: 1 Aug 2002 10:00:00 +0200\nNewsgroups: x,y\nReceived: 1\n\nThe hat"
    )
    (tmp_path / "b.eml").write_bytes(b"nothing")
    reader = spark.read.format("tamis.eml").option("topic", "mail")
    frame = reader.load(str(tmp_path))
    mail_type = (
        "struct<author:string,date:timestamp,subject:string,source:string,newsgroup:array<string>,list:string,"
        "message_id:string,header:map<string,array<string>>>"
    )
    common = [("body", "string"), ("xml", "string")]
    ends = [("error", "string"), ("raw", "binary")]
    begins = [("partition", "string"), ("offset", "bigint"), ("digest", "string"), ("topic", "string")]
    ends.append(("identity", "string"))
    assert frame.dtypes == [*begins, ("properties", mail_type), *common, *ends]
    message, dead = frame.orderBy("partition").collect()
    assert message.properties.author == "a@b"
    assert message.properties.date.isoformat() == "2002-08-01T08:00:00"
    assert message.properties.newsgroup == ["x", "y"]
    assert message.properties.header["Received"] == ["1"]
    assert (message.topic, message.body) == ("mail", "The hat")
    assert (dead.topic, dead.properties, dead.error[:9], dead.raw) == ("mail", None, "no header", b"nothing")
    lines = spark.read.format("tamis.jsonl").load(str(tmp_path))
    assert lines.dtypes == [*begins, ("properties", "string"), *common, *ends]
    assert lines.count() == 0
    signed = reader.option("signature", "true").load(str(tmp_path))
    assert signed.dtypes == [*frame.dtypes[:7], ("signature", "map<string,array<int>>"), *ends]
    assert signed.orderBy("partition").first().signature == {"hat": [1]}


def test_all_real_mail_goes_through_spark(
    spark: SparkSession, spamassassin: Path, odd_mail: Path, usenet: Path
) -> None:
    for kind, path, read, dead in (
        ("mbox", spamassassin, 3_000, 0),
        ("eml", odd_mail, 212, 9),
        ("eml", usenet, 1_300, 0),
    ):
        options = {"xml": "true"} | ({"pattern": "*"} if kind == "eml" else {})
        frame = spark.read.format(f"tamis.{kind}").options(**options).load(str(path))
        counts = frame.selectExpr("count(*)", "count(error)", "count(xml)", "count(distinct partition, offset)").first()
        assert counts is not None
        assert tuple(counts) == (read, dead, read - dead, read)


def test_no_batch_is_larger_than_max_messages_and_the_checkpoint_goes_on(
    spark: SparkSession, spamassassin: Path, tmp_path: Path
) -> None:
    batches = stream(spark, "mbox", spamassassin, tmp_path, max_messages="1100")
    assert [len(batch) for batch in batches] == [1_100, 1_100, 800]
    assert len({place for batch in batches for place in batch}) == 3_000
    assert stream(spark, "mbox", spamassassin, tmp_path, max_messages="1100") == []


def test_what_is_new_is_read_from_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    inbox, lines, folder = tmp_path / "inbox", tmp_path / "a.jsonl", tmp_path / "mail"
    folder.mkdir()
    for number in range(2):
        with inbox.open("ab") as file:
            file.write(join_mbox([mail(number)]))
        with lines.open("ab") as file:
            file.write(b'{"a": 1}\n')
        (folder / f"{number}.eml").write_bytes(mail(number))
        for kind, path in (("mbox", inbox), ("jsonl", lines), ("eml", folder)):
            batches = stream(spark, kind, path, tmp_path / f"checkpoint-{kind}")
            assert [len(batch) for batch in batches] == [1], f"{kind}, round {number}"


def test_a_batch_that_failed_comes_again_with_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.write_bytes(join_mbox([mail(number) for number in range(20)]))
    failed: Batches = []

    def fail(frame: DataFrame, batch_id: int) -> None:
        collect_into(failed)(frame, batch_id)
        raise RuntimeError("out of paper")

    frame = spark.readStream.format("tamis.mbox").option("max_messages", "7").load(str(inbox))
    writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(Exception, match="out of paper"):
        query.awaitTermination(60)
    with inbox.open("ab") as file:
        file.write(join_mbox([mail(number) for number in range(20, 25)]))
    batches = stream(spark, "mbox", inbox, tmp_path / "checkpoint", max_messages="7")
    assert batches[0] == failed[0]
    assert Counter(place for batch in batches for place in batch).most_common(1)[0][1] == 1
    assert sum(map(len, batches)) == 25


def test_a_file_and_a_folder_that_grow_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    inbox, folder = tmp_path / "inbox", tmp_path / "mail"
    folder.mkdir()
    inbox.write_bytes(b"")
    seen: dict[str, Batches] = {"mbox": [], "eml": []}
    queries = []
    for kind, path in (("mbox", inbox), ("eml", folder)):
        frame = spark.readStream.format(f"tamis.{kind}").option("settle_ms", "50").load(str(path))
        writer = frame.writeStream.foreachBatch(collect_into(seen[kind]))
        writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint-{kind}"))
        queries.append(writer.trigger(processingTime="100 milliseconds").start())
    try:
        for number in range(30):
            with inbox.open("ab") as file:
                file.write(join_mbox([mail(number)]))
            (folder / f"{number}.eml").write_bytes(mail(number))
            if number % 10 == 9:
                wait_for(seen, number + 1)
    finally:
        for query in queries:
            query.stop()
    for kind, batches in seen.items():
        places = [place for batch in batches for place in batch]
        assert len(places) == len(set(places)) == 30, kind
        assert len(batches) >= 3, kind


def wait_for(seen: dict[str, Batches], count: int) -> None:
    end = time.monotonic() + 60
    while any(sum(map(len, batches)) < count for batches in seen.values()) and time.monotonic() < end:
        time.sleep(0.1)


def test_a_cut_file_stops_its_stream_with_a_clear_sentence(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.write_bytes(join_mbox([mail(1), mail(2)]))
    stream(spark, "mbox", inbox, tmp_path / "checkpoint")
    inbox.write_bytes(join_mbox([mail(3)]))
    with pytest.raises(Exception, match="was replaced, cut or edited") as error:
        stream(spark, "mbox", inbox, tmp_path / "checkpoint")
    assert str(inbox) in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no such file or folder"),
        ({"stop_word": "x"}, "did you mean 'stop_words'?"),
        ({"max_messages": "x"}, "not 'x'"),
    ],
)
def test_what_is_wrong_is_said_when_the_source_is_loaded(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=re.escape(said)):
        spark.readStream.format("tamis.mbox").options(**options).load(str(tmp_path / "nowhere"))


def test_the_manager_runs_real_streams(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "inbox").write_bytes(join_mbox([mail(1), mail(2), mail(3)]))
    adapters = [Adapter("good", "mbox", str(tmp_path / "inbox")), Adapter("bad", "eml", str(tmp_path / "nowhere"))]
    batches: Batches = []

    def start(adapter: Adapter, frame: DataFrame) -> Any:
        writer = frame.writeStream.foreachBatch(collect_into(batches))
        return writer.option("checkpointLocation", str(tmp_path / adapter.name)).trigger(availableNow=True).start()

    with Store.open(tmp_path / "tamis.sqlite") as store:
        manager = AdapterManager(spark, adapters, start, store)
        end = time.monotonic() + 60
        while manager.list()["good"] != "finished" and time.monotonic() < end:
            manager.look()
            time.sleep(0.1)
        assert manager.list() == {"good": "finished", "bad": "failed"}
        assert [len(batch) for batch in batches] == [3]
        manager.close()
    with pytest.raises(AdapterError, match="nowhere: no such file"):
        adapters[1].dataframe(spark)


def test_each_stream_has_a_registration_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """Spark writes into a registration's environment while it starts a stream; tasks that share it fail (4.3)."""
    (tmp_path / "mail").mkdir()
    manager = spark._jsparkSession.sessionState().dataSourceManager()  # type: ignore[attr-defined]
    environments = []
    for name in ("first", "second"):
        Adapter(name, "eml", str(tmp_path / "mail")).dataframe(spark)
        environments.append(manager.lookupDataSource("tamis.eml").dataSourceCls().envVars())
    first, second = environments
    first.put("TAMIS_WRITTEN_BY", "the first stream")
    assert not second.containsKey("TAMIS_WRITTEN_BY")
