"""Fixtures for all tests: the folder of real data, and the Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.postgres_server import Server

# Machines are shared, so the time of an example says nothing about the code.
hypothesis.settings.register_profile("tamis", deadline=None)
hypothesis.settings.load_profile("tamis")

pytest_plugins = ["tests.conformance.counts"]

PROJECT = Path(__file__).resolve().parent.parent


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the workers groups of files."""
    from tests.groups import GroupScheduling

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of the Spark sessions come first, and then other files with Spark.

    A long group that began last would leave the other workers idle.
    """
    from tests.groups import SPARK, group_of

    with_spark = {item.location[0] for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (group_of(item.location[0]) not in SPARK, item.location[0] not in with_spark))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of conformance cases and real data beside the project."""
    folder = Path(os.environ.get("TAMIS_SHARED", PROJECT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data: {folder} is absent (set TAMIS_SHARED)")
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return the one Spark session of this process, which takes seconds to start; its tests have the mark `spark`."""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'tamis[spark]'")
    from tamis.spark import JavaNotFoundError, close_session, session

    try:
        started = session("tamis tests", cores=2)
    except JavaNotFoundError as error:
        pytest.skip(str(error))
    yield started
    close_session(started)


@pytest.fixture
def lasting_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Return the session for programs that start and close one by themselves: here they use it and leave it open."""
    for place in ("tamis.spark.close_session", "tamis.spark.pipeline.close_session"):
        monkeypatch.setattr(place, lambda _: None)
    return spark


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Return the one PostgreSQL server of the run; its password is in PGPASSWORD."""
    from tests.postgres_server import PASSWORD, Server, why_not

    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tamis[postgres]'")
    if reason := why_not():
        pytest.skip(reason)
    server = Server()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        yield server
    server.close()
