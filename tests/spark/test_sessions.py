"""A Spark session leaves the process's environment unchanged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tamis.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_running_session_is_used_again(spark: SparkSession) -> None:
    assert session("another name", cores=1) is spark


def test_nothing_listens_elsewhere_and_the_page_is_off(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_a_child_of_this_process_finds_its_own_java(spark: SparkSession) -> None:
    assert "tamis" not in os.environ.get("JAVA_HOME", "")
    assert "TAMIS_SPARK_STDERR" not in os.environ
