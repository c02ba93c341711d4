"""The command `tamis shard`, which writes queries as snapshots of equal size, for Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tamis.cli import output
from tamis.cli.options import HierarchyOption, JsonOption, QueriesArgument
from tamis.engine.shards import SHARDS_MAX


def shard(
    queries: QueriesArgument,
    folder: Annotated[Path, typer.Argument(help="Where the shards go: a new or an empty folder.")],
    shards: Annotated[int, typer.Option("--shards", min=1, max=SHARDS_MAX, help="The number of shards.")] = 8,
    hierarchy: HierarchyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write queries as shards, of which `tamis.spark.match` maps at most two at a time in each worker.

    Queries that are paused or expired are left out.
    """
    from tamis.cli.queries.load import hierarchies_given, is_snapshot, read_queries
    from tamis.engine.shards import write_shards
    from tamis.query.predicates import open_registered

    given = hierarchies_given(hierarchy)
    if is_snapshot(queries):
        summary = write_shards(open_registered(queries), folder, shards, hierarchies=given)
    else:
        specs, held = read_queries(queries)
        summary = write_shards(specs, folder, shards, hierarchies={**held, **given})
    if as_json:
        output.data_json(summary._asdict())
    else:
        written = output.counted(summary.shards, "shard", "shards")
        output.success(f"{folder}: {written} with {output.counted(summary.queries, 'query', 'queries')}")
        met = output.counted(summary.met_by_all, "shard", "shards")
        output.note(f"every message meets {met} of queries without an access key")
