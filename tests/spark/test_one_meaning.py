"""Tests that Spark gives the answers of the other faces, with rules from a file and from a mapping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis.spark import match
from tests.one_meaning import HIERARCHY, RECORDS, SPECS, expected, query_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_has_the_same_meaning(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "queries.toml"
    file.write_text(query_file(), encoding="utf-8")
    frame = spark.createDataFrame([(json.dumps(record),) for record in RECORDS], "properties string").coalesce(1)
    rules = [(spec.key, spec.text, spec.language) for spec in SPECS]
    for matching in (match(file), match(rules, hierarchies={"region": HIERARCHY})):
        assert [row.matched for row in frame.transform(matching).collect()] == expected()
