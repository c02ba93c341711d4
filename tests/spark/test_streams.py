"""Spark's errors are explained to users; no Spark is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.adapters.manager import reason
from tamis.errors import AdapterError
from tamis.spark.streams import checkpoint_id

OURS = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted.
Traceback (most recent call last):
  File "x.py", line 1, in read
tamis.errors.AdapterError: /mail/gone.mbox: there is no such file
Caused by: org.apache.spark.SparkException: Job aborted"""
PYTHON = """Job aborted due to stage failure
Traceback (most recent call last):
  File "x.py", line 1, in read
ValueError: no number
"""
JAVA = """Job aborted
Caused by: java.io.UncheckedIOException: java.io.IOException: x
Caused by: java.io.IOException: No space left on device"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OURS, "/mail/gone.mbox: there is no such file"),
        (PYTHON, "ValueError: no number"),
        (JAVA, "No space left on device"),
        ("one line\nanother", "one line"),
        ("", "Exception"),
    ],
)
def test_an_error_of_spark_is_told_in_one_line(text: str, told: str) -> None:
    assert reason(Exception(text)) == told


def test_a_checkpoint_without_its_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(AdapterError, match="the checkpoint is damaged"):
        checkpoint_id(tmp_path)
    (tmp_path / "metadata").write_text('{"id":"abc"}')
    assert checkpoint_id(tmp_path) == "abc"
