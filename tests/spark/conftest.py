"""Makes folders in which tests run pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis.config.pipeline import PipelineConfig
from tamis.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tamis.spark import RunSummary

PIPELINE = """\
[pipeline]
name = "test"
[queries]
deliveries = ["outbox"]
[[delivery]]
name = "outbox"
type = "store"
"""

ADAPTER = """
[[adapter]]
name = "{name}"
type = "{type}"
path = "{path}"
topic = "mail.inbox"
max_messages = {max_messages}
poll_interval_ms = 200
"""


class Workshop:
    """A folder with a store and a pipeline.toml, to which adapters are added."""

    def __init__(self, folder: Path, spark: SparkSession, store: str = "tamis.sqlite") -> None:
        self.folder, self.spark = folder, spark
        self.toml = PIPELINE.replace("\n[queries]", f'\nstore = "{store}"\n[queries]')
        self.store = Store.open(store if "://" in store else folder / store)

    def adapter(self, name: str, kind: str, path: Path, max_messages: int = 10_000) -> None:
        self.toml += ADAPTER.format(name=name, type=kind, path=path, max_messages=max_messages)

    @property
    def config(self) -> PipelineConfig:
        path = self.folder / "pipeline.toml"
        path.write_text(self.toml, encoding="utf-8")
        return PipelineConfig.load(path)

    def run(self, store: Store | None = None) -> RunSummary:
        """Run once over everything that exists."""
        from tamis.spark import Pipeline

        return Pipeline(self.config, store or self.store, self.spark).run(once=True)


@pytest.fixture
def workshop(tmp_path: Path, spark: SparkSession) -> Iterator[Workshop]:
    workshop = Workshop(tmp_path, spark)
    with workshop.store:
        yield workshop


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Runs a function in a thread that is joined at the end of the test; what it raises fails the test."""
    from concurrent.futures import Future, ThreadPoolExecutor

    futures: list[Future[object]] = []
    with ThreadPoolExecutor() as threads:
        yield lambda function: futures.append(threads.submit(function))
    for future in futures:
        future.result()
