"""Tables of a declarative pipeline: offers, and those that somebody wants to be told of."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

import tamis.spark

spark = SparkSession.active()
RULES = {"cheap": "price < 3", "european": "region = 'EU' AND price BETWEEN 5 AND 7"}
bargains = tamis.spark.match(RULES)


@dp.materialized_view
def offers() -> DataFrame:
    """Return made-up offers: in real life, a table that others fill."""
    price, region = F.col("id") % 10, F.when(F.col("id") % 2 == 0, "EU").otherwise("US")
    return spark.range(100).select("id", price.alias("price"), region.alias("region"))


@dp.materialized_view
def wanted() -> DataFrame:
    """Return the offers that satisfy a rule, with the keys of the rules."""
    return spark.table("offers").transform(bargains).filter("size(matched) > 0")
