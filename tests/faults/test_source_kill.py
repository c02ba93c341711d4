"""A stream of mail whose process is killed within a batch goes on from its checkpoint without loss (long form only)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.adapters.conftest import real, spamassassin  # noqa: F401 - fixtures
from tests.adapters.test_datasource import stream
from tests.faults.promises import LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KILLED = """
import json, os, sys
import tamis.spark
inbox, checkpoint, log, fatal = sys.argv[1:]
spark = tamis.spark.session(cores=2)
def take(frame, batch_id):
    rows = [[row.partition, row.offset] for row in frame.select("partition", "offset").collect()]
    if batch_id == int(fatal):
        os.kill(os.getpid(), 9)
    with open(log, "a") as file:
        file.write(json.dumps([batch_id, rows]) + "\\n")
frame = spark.readStream.format("tamis.mbox").option("max_messages", "500").load(inbox)
writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.skipif(not LONG, reason="part of `make faults`; test_pipeline_kill.py kills what reads through a source")
def test_killed_in_the_middle_it_goes_on_without_loss(
    spark: SparkSession,
    spamassassin: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    arguments = [sys.executable, "-c", KILLED, str(spamassassin), str(checkpoint), str(log), "3"]
    ended = subprocess.run(arguments, capture_output=True, timeout=120, check=False, env=dict(os.environ))
    assert ended.returncode == -9, ended.stderr.decode()[-2_000:]
    before = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(number, len(rows)) for number, rows in before] == [(0, 500), (1, 500), (2, 500)]
    rest = stream(spark, "mbox", spamassassin, checkpoint, max_messages="500")
    assert [len(batch) for batch in rest] == [500, 500, 500]
    places = {tuple(place) for _, rows in before for place in rows} | {place for batch in rest for place in batch}
    assert len(places) == 3_000
    forgetful = stream(spark, "mbox", spamassassin, tmp_path / "another", max_messages="500")
    assert len(forgetful) > len(rest), "the control: without the checkpoint it begins again"
