"""Starts and stops the one Spark session of this process, set up for tamis: loopback, quiet, quick to start.

Spark listens on 127.0.0.1 unless another address is given, its web page is off, and temporary files go to one folder
that is removed at the end."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tamis.errors import TamisError
from tamis.spark.class_archive import archive_file
from tamis.spark.interpreters import check_python, is_connect
from tamis.spark.java import CLASSES_VARIABLE, STDERR_VARIABLE, cache_folder, find_java, wrapped_home
from tamis.spark.temporary import temporary_folder

LOOPBACK = "127.0.0.1"
ARROW_BATCH_ROWS = 10_000
"""Rows per Arrow batch, by measurement; below 1,000 the fixed cost of a batch matters."""

_STOP_S_MAX = 10

_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.only.ref = only
appender.only.name = only
{appender}
appender.only.layout.type = PatternLayout
appender.only.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%xEx
# An error that stops a stream reaches the caller as an exception; here it would be logged again, at length.
logger.stream.name = org.apache.spark.sql.execution.streaming
logger.stream.level = {stream_level}
# Spark raises the root's level to this one, and logs that, unless they are equal.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = {level}
"""
_TO_STDERR = "appender.only.type = Console\nappender.only.target = SYSTEM_ERR"
_TO_FILE = """\
appender.only.type = RollingFile
appender.only.fileName = {path}
appender.only.filePattern = {path}.%i
appender.only.policies.type = SizeBasedTriggeringPolicy
appender.only.policies.size = 10MB
appender.only.strategy.type = DefaultRolloverStrategy
appender.only.strategy.max = 2"""

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",  # replanning costs more than it saves on micro-batches
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.noDataProgressEventInterval": "2s",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",  # its adapter's max_messages and max_bytes bound what a batch returns
}


def session(
    app: str = "tamis",
    *,
    cores: int | None = None,
    master: str | None = None,
    host: str = LOOPBACK,
    python: str | None = None,
    folder: Path | None = None,
    options: dict[str, str] | None = None,
) -> SparkSession:
    """Return the process's Spark session, started on the first call, with the data sources of tamis registered.

    Args:
        app: the name that Spark shows.
        cores: number of threads on this machine (default: one per core).
        master: the master of a cluster, such as ``spark://host:7077``; default: this machine.
        host: the address of this machine to which the workers of another connect, and on which Spark listens.
        python: the Python of the workers; default: the path of this one.
        folder: is used by one process at a time. Warnings go to its ``spark.log`` (at most 30 MB in three files),
            temporary files below ``spark``, which is emptied first. Without a folder, errors go to stderr, and
            temporary files to the system's folder for them.
        options: further settings, which override those of tamis.

    Returns:
        The session. One that already runs, such as a notebook's own or one of Spark Connect, is returned as it is.

    Raises:
        JavaNotFoundError: there is no Java 17 or newer.
        TamisError: Spark did not start; the text says where to find the reason. Or both `cores` and `master` are given.
        OSError: the folder cannot be written.

    Cost: 3 to 10 s for the first call.
    """
    if cores and master:
        raise TamisError("cores: the master has a number of its own; expected one of cores and master")
    spark = SparkSession.getActiveSession() if is_remote() else None
    if spark is None and SparkContext._active_spark_context is not None:
        spark = SparkSession.builder.getOrCreate()
    if spark is None:
        spark = _start(app, master or f"local[{cores or '*'}]", host, python, folder, options or {})
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Register the data sources of tamis (``tamis.mbox``, ``.eml``, ``.jsonl``, ``.journal``) with a session of yours.

    `session` does this by itself. A second call does nothing. A warning tells if the session's workers run a Python
    without this tamis.

    Args:
        spark: the session; Spark Connect is fine.
    """
    from tamis import adapters

    if not is_connect(spark):
        check_python(spark)
    adapters.register(spark)


def close_session(spark: SparkSession, *, stop_s: float = _STOP_S_MAX) -> None:
    """Stop a session and its Java, and wait until that has ended. A later `session` starts a new one.

    Args:
        spark: the session.
        stop_s: the time that Java has to end, in seconds; then it is killed.
    """
    gateway = spark.sparkContext._gateway
    spark.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process.stdin.close()  # what Java waits for
    try:
        process.wait(stop_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _start(
    app: str, master: str, host: str, python: str | None, folder: Path | None, options: dict[str, str]
) -> SparkSession:
    scratch = _scratch(folder)
    log = None if folder is None else (folder / "spark.log").absolute()
    logging = scratch / "log4j2.properties"
    logging.write_text(_logging(log), encoding="utf-8")
    settings = {
        **_ALWAYS,
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        # The serial collector and a quick compiler: the JVM only moves rows, and starts a second sooner.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()} -XX:+UseSerialGC "
        "-XX:TieredStopAtLevel=1 -Xshare:auto",
        **options,
    }
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with environment(_java(scratch) | _variables(host, python or sys.executable, log)):
            return builder.getOrCreate()
    except TamisError:
        raise
    except Exception as error:  # py4j and pyspark raise many kinds; a user can do the same about each
        hint = f"; see {log}" if log else ""
        raise TamisError(f"Spark did not start: {str(error).splitlines()[0]}{hint}") from error


def _scratch(folder: Path | None) -> Path:
    """Return an empty folder for temporary files, removed when Python ends or, after a kill, by the next start."""
    if folder is None:
        return temporary_folder("spark")
    scratch = (folder / "spark").absolute()
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


def _variables(host: str, python: str, log: Path | None) -> dict[str, str]:
    """Return the environment variables that Spark reads, but for those of Java."""
    variables = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": host,
    }
    return variables if log is None else variables | {STDERR_VARIABLE: str(log)}


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Set `variables` for the start of Spark only, so that later child processes do not inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _java(scratch: Path) -> dict[str, str]:
    """Return the variables for a wrapped Java in the cache folder; in `scratch` if that cannot be written."""
    java = find_java()
    try:
        home = wrapped_home(java, cache_folder())
        return {"JAVA_HOME": str(home), CLASSES_VARIABLE: str(archive_file(java))}
    except (OSError, RuntimeError):
        return {"JAVA_HOME": str(wrapped_home(java, scratch))}


def _logging(log: Path | None) -> str:
    if log is None:
        return _LOGGING.format(level="error", stream_level="off", appender=_TO_STDERR)
    return _LOGGING.format(level="warn", stream_level="warn", appender=_TO_FILE.format(path=log))
