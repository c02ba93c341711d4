"""A Spark session leaves the process's environment unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis.spark import register, session
from tamis.spark.class_archive import ARCHIVES_MAX, archive_file, remove_old_archives
from tamis.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_newest_files_of_classes_stay(tmp_path: Path) -> None:
    for number in range(ARCHIVES_MAX + 2):
        file = tmp_path / f"spark-classes-{number}.jsa"
        file.touch()
        os.utime(file, (number, number))
    (tmp_path / "other").touch()
    remove_old_archives(tmp_path)
    kept = [f"spark-classes-{number}.jsa" for number in (2, 3, 4)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", *kept]


def test_a_running_session_is_used_again(spark: SparkSession) -> None:
    assert session("another name", cores=1) is spark


def test_nothing_listens_elsewhere_and_the_page_is_off(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_a_child_of_this_process_finds_its_own_java(spark: SparkSession) -> None:
    assert "tamis" not in os.environ.get("JAVA_HOME", "")
    assert "TAMIS_SPARK_STDERR" not in os.environ


def test_data_sources_are_registered_with_a_second_session(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    second = spark.newSession()
    for _ in range(2):
        register(second)
    assert second.read.format("tamis.jsonl").load(str(tmp_path / "a.jsonl")).count() == 1
    register(spark)
    assert spark.read.format("tamis.jsonl").load(str(tmp_path / "a.jsonl")).count() == 1


def test_java_starts_from_the_file_of_classes(spark: SparkSession) -> None:
    file = archive_file(find_java())
    if not file.exists():
        pytest.skip("no file of classes: make test makes one, and so does python -m tamis.spark.class_archive")
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    assert file.name in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
