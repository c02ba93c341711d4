"""The command `tamis adapter`, which controls the sources of a pipeline.

A running pipeline uses a change within seconds, any other in its next run."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, OK
from tamis.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption
from tamis.errors import ConfigError

if TYPE_CHECKING:
    from tamis.config.adapter_status import AdapterStatus
    from tamis.config.adapters import AdapterConfig
    from tamis.config.pipeline import PipelineConfig
    from tamis.store.records import AdapterDesire, Lease

app = typer.Typer(
    help="List, show, start, stop, pause, resume, test and backfill the adapters of a pipeline.", no_args_is_help=True
)

_ANSWERS: dict[AdapterDesire, str] = {
    "running": "will run",
    "paused": "will be paused until `tamis adapter resume` or `start`, and then go on where it ended",
    "stopped": "will be stopped: it stays off until `tamis adapter start`; `resume` leaves it off",
}

NamesArgument = Annotated[list[str], typer.Argument(help="The names of adapters.")]


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """List each adapter with its source, what was asked of it, and how it is.

    LAST READ is when it last read messages. BEHIND is what is there and not yet read. LAST POLL and NEXT POLL are when
    it looked for new messages, and when it will look again. LAST ERROR is the error that it has now.
    """
    _, statuses, running, last = _statuses(config)
    if as_json:
        for it in statuses:
            output.data_json(_plain(it, running))
        return
    header = [*("NAME", "TYPE", "TOPIC", "ASKED", "STATUS", "READ", "DEAD", "BEHIND")]
    header += ["LAST READ", "LAST POLL", "NEXT POLL", "LAST ERROR", "PATH"]
    rows = [
        (
            *(it.state.name, it.config.type, it.config.topic or it.config.name, it.state.desired, it.status),
            *(it.state.read_count, it.state.dead_count, _behind(it), it.state.last_batch_at, it.state.polled_at),
            *(it.state.next_poll_at if running else None, it.state.last_error, it.config.place),
        )
        for it in statuses
    ]
    output.table(header, rows, numbers=(5, 6))
    output.note(_runner(running, last))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The name of an adapter.")],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show how an adapter is, and its last errors with their times."""
    _, (it,), running, last = _statuses(config, name)
    if as_json:
        output.data_json(_plain(it, running))
        return
    state = it.state
    rows = {
        "name": state.name,
        "source": f"{it.config.type}, {it.config.place}",
        "topic": it.config.topic or it.config.name,
        "asked": state.desired,
        "status": it.status,
        "read": f"{output.counted(state.read_count, 'message', 'messages')}, {state.dead_count:,} of them dead",
        "last read": _moment(state.last_batch_at),
        "behind": f"unknown: {it.behind_problem}" if it.behind_problem else _behind(it),
        "last poll": _moment(state.polled_at),
        "next poll": _moment(state.next_poll_at if running else None),
        "error": state.last_error or "none now",
    }
    for key, value in rows.items():
        output.data(f"{key + ':':<12}{value}")
    for error in it.errors:
        output.data(f"  {_moment(error.at)}  {error.error}")
    output.note(_runner(running, last))


def _statuses(
    config: object, name: str | None = None
) -> tuple[PipelineConfig, list[AdapterStatus], Lease | None, Lease | None]:
    """Return the pipeline, its adapters or one of them, and who runs it and ran it last."""
    from tamis.config.adapter_status import adapter_statuses
    from tamis.store import Store

    loaded = _load(config)
    names = [_adapter(loaded, name).name] if name is not None else []
    with Store.open(loaded.store_path) as store:
        return loaded, adapter_statuses(loaded, store, names), store.running_pipeline(), store.lease()


def _plain(it: AdapterStatus, running: Lease | None) -> dict[str, Any]:
    """Return how an adapter is as JSON has it."""
    return {
        "config": it.config.model_dump(mode="json"),
        **dataclasses.asdict(it.state),
        "pipeline": dataclasses.asdict(running) if running else None,
        "status": it.status,
        **{"behind": it.behind, "unit": it.unit, "behind_problem": it.behind_problem},
        "errors": [error._asdict() for error in it.errors],
    }


def _behind(it: AdapterStatus) -> str:
    """Return how much there is to read, as people write it."""
    if it.behind is None:
        return "?"
    return "nothing" if it.behind == 0 else f"{it.behind:,} {it.unit if it.behind != 1 else it.unit.rstrip('s')}"


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _runner(running: Lease | None, last: Lease | None) -> str:
    """Return who runs the pipeline, or since when nobody does."""
    if running is not None:
        since = f"{running.taken_at:%Y-%m-%d %H:%M:%S} UTC"
        return f"running since {since}: process {running.pid} on {running.host}"
    if last is None:
        return "not running; `tamis run` was never started over this store"
    how = "" if last.ended_at else f" (process {last.pid} on {last.host} ended without saying so)"
    return f"not running since {last.last_seen_at:%Y-%m-%d %H:%M:%S} UTC{how}"


@app.command()
def start(names: NamesArgument, config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Let adapters run."""
    _set_desired(config, names, "running", as_json)


@app.command()
def stop(names: NamesArgument, config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Turn adapters off until `start`, also in later runs; then they go on where they ended.

    `resume` leaves them off.
    """
    _set_desired(config, names, "stopped", as_json)


@app.command()
def pause(names: NamesArgument, config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Turn adapters off for a while, also in later runs: `resume` lets all that are paused go on where they ended."""
    _set_desired(config, names, "paused", as_json)


@app.command()
def resume(
    names: Annotated[
        list[str] | None, typer.Argument(help="The names of paused adapters; default: all of them.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Let paused adapters go on where they ended. Those that were stopped stay off.

    A name of an adapter that is not paused is an error, and then nothing is changed.
    """
    from tamis.config.adapter_control import resume_adapters
    from tamis.store import Store

    loaded = _load(config)
    with Store.open(loaded.store_path) as store:
        resumed = resume_adapters(loaded, store, names or ())
    if not resumed:
        output.note("no adapter is paused")
    _tell(resumed, "running", as_json)


@app.command("test")
def try_(
    names: Annotated[list[str] | None, typer.Argument(help="The names of adapters; default: all.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> int:
    """Open each source and read a few messages, without Spark. Nothing is matched, and no offset is moved.

    Exit code: 0 when all can be read, 2 when one cannot.
    """
    from tamis.adapters.adapter import Adapter

    loaded = _load(config)
    chosen = [_adapter(loaded, name) for name in names] if names else loaded.adapters
    tested = [Adapter.from_config(adapter, loaded.pipeline.work).test() for adapter in chosen]
    if as_json:
        for health in tested:
            output.data_json(dataclasses.asdict(health))
    else:
        header = ("NAME", "READABLE", "FILES", "BYTES", "SAMPLED", "DEAD", "NEWEST", "REASON")
        rows = [
            (
                *(it.name, "yes" if it.readable else "NO", it.files, it.bytes, it.sampled, it.dead, it.newest_at),
                it.reason or it.first_dead,
            )
            for it in tested
        ]
        output.table(header, rows, numbers=(2, 3, 4, 5))
    return OK if all(health.readable for health in tested) else ERROR


@app.command()
def backfill(
    name: Annotated[str, typer.Argument(help="The name of an adapter of files.")],
    since: Annotated[
        str | None, typer.Option(help="The oldest message to match: a date or a time, in UTC; default: all.")
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="Only this query, by its key; may be repeated. Default: all.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Match the messages of an adapter again, for queries that came later. The pipeline must not run meanwhile.

    What was notified before is not notified again. The next `tamis run` delivers what is new.
    """
    from tamis.cli.progress_bar import progress_bar
    from tamis.spark.backfill import backfill as fill
    from tamis.store import Store

    loaded, begin = _load(config), _since(since)
    _adapter(loaded, name)
    with Store.open(loaded.store_path) as store, progress_bar(f"reading {name}", 100, shown=not as_json) as advance:
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal shown
            percent = 100 * done // total if total else 100
            advance(percent - shown)
            shown = percent

        summary = fill(loaded, store, name, begin, query or (), show)
    if as_json:
        output.data_json(dataclasses.asdict(summary))
    older = f", {summary.older:,} of them older" if since else ""
    output.success(
        f"{output.counted(summary.read, 'message', 'messages')} read{older}; "
        f"{summary.matched:,} matched, {output.counted(summary.notifications, 'new notification', 'new notifications')}"
    )


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--since: expected a date or a time as 2026-11-01, not '{text}'") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _load(config: object) -> PipelineConfig:
    from tamis.config.pipeline import PipelineConfig

    return PipelineConfig.load(str(config))


def _set_desired(config: object, names: list[str], desired: AdapterDesire, as_json: bool) -> None:
    """Record the desired state of `names`; none is changed if one is unknown."""
    from tamis.config.adapter_control import ask_adapters
    from tamis.store import Store

    loaded = _load(config)
    with Store.open(loaded.store_path) as store:
        _tell(ask_adapters(loaded, store, names, desired), desired, as_json)


def _tell(names: list[str], desired: AdapterDesire, as_json: bool) -> None:
    for name in names:
        if as_json:
            output.data_json({"name": name, "desired": desired})
        output.success(f"{name} {_ANSWERS[desired]}")


def _adapter(config: PipelineConfig, name: str) -> AdapterConfig:
    from tamis.config.adapter_control import adapter_named

    return adapter_named(config, name)
