"""Adds the matches as a column of a Spark DataFrame; a stream (`readStream`) takes the same `transform`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import tamis.spark
from tamis.demo import lay_out


def main() -> None:
    """Count the matches of the demo's queries in the demo's mailing lists."""
    spark = tamis.spark.session("example")
    with TemporaryDirectory() as scratch:
        folder = lay_out(Path(scratch))
        mail = (
            spark.read.format("tamis.mbox").option("topic", "mail.lists").load(str(folder.path / "mail" / "lists.mbox"))
        )
        hits = mail.transform(tamis.spark.match(folder.queries))
        hits.selectExpr("explode(matched) AS query").groupBy("query").count().orderBy("count", ascending=False).show(
            10, truncate=False
        )
    tamis.spark.close_session(spark)


if __name__ == "__main__":
    main()
