"""The command `tamis bench`, which measures the engine on a given workload."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter, thread_time
from typing import Annotated, Any

import typer

from tamis import _core
from tamis.cli import output
from tamis.cli.bench.workload import FlatMessage, Workload, selector_text, truth
from tamis.cli.options import JsonOption
from tamis.cli.progress_bar import progress_bar
from tamis.errors import TamisError

app = typer.Typer(help="Measure tamis on this machine.", no_args_is_help=True)

PERCENTILES = (50, 80, 90, 99)
CHECKS_MAX = 2_000_000
"""Maximum number of single evaluations for checking; at least `CHECKED_MIN` messages are checked."""
CHECKED_MIN, CHECKED_MAX = 4, 200
WARM_UP_ROUNDS = 1


@dataclass(frozen=True)
class BenchResult:
    """The figures of one run. Times per message are medians of the rounds; percentiles are over the messages."""

    filters: int
    messages: int
    rounds: int
    checked: int
    parse_seconds: float
    parse_cpu_seconds: float
    build_seconds: float
    build_cpu_seconds: float
    bytes_per_filter: float
    text_bytes_per_filter: float
    matches_per_message: float
    p50_us: float
    p80_us: float
    p90_us: float
    p99_us: float
    mean_us: float
    p50_cpu_us: float
    p80_cpu_us: float
    p90_cpu_us: float
    p99_cpu_us: float
    mean_cpu_us: float


@app.callback()
def _benchmarks() -> None:
    """Benchmarks by name: `engine`."""


@app.command()
def engine(
    workload: Annotated[
        Path, typer.Option(help="A folder with schema.json, filters.jsonl and messages.jsonl.", show_default=False)
    ],
    filters: Annotated[int | None, typer.Option(min=1, help="Maximum number of filters.")] = None,
    messages: Annotated[int | None, typer.Option(min=1, help="Maximum number of messages.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of times that each message is matched.")] = 3,
    as_json: JsonOption = False,
) -> int:
    """Match Boolean filters, one message at a time, inside the core and in one thread.

    The engine is built from selector text. For a sample of the messages, the matches are compared with those of
    evaluating every filter by the definition of the format; the exit code is 2 when they differ.
    """
    files = Workload(workload, filters, messages)
    sent = files.messages()
    texts = _texts(files)
    if not texts or not sent:
        raise TamisError(f"{workload}: expected filters and messages")
    engine, built_s = _build(texts)
    checked = _check(files, engine, sent, len(texts))
    output.note(f"matching {len(sent):,} messages, {WARM_UP_ROUNDS} round to warm up and {rounds} timed ...")
    times = engine.time_matches([(message, "", None) for message in sent], WARM_UP_ROUNDS, rounds)
    walls, cpus = ([time[kind] / 1_000 for time in times] for kind in (0, 1))
    result = BenchResult(
        filters=len(texts),
        messages=len(sent),
        rounds=rounds,
        checked=checked,
        **built_s,
        bytes_per_filter=round((engine.bytes() - engine.text_bytes()) / len(texts), 1),
        text_bytes_per_filter=round(engine.text_bytes() / len(texts), 1),
        matches_per_message=round(mean(matched for _, _, matched in times), 2),
        **_figures(walls, "us"),
        **_figures(cpus, "cpu_us"),
    )
    _print(result, as_json)
    return 0


def _texts(files: Workload) -> list[str]:
    with progress_bar("reading filters", files.size_bytes()) as advance:
        return [selector_text(expression) for expression in files.filters(advance)]


def _build(texts: list[str]) -> tuple[_core.Engine, dict[str, float]]:
    """Return an engine of `texts`, and the wall and CPU seconds for parsing, and for all up to the first match."""
    output.note(f"building an engine of {len(texts):,} filters ...")
    gc.collect()
    gc.disable()  # each collection would visit all queries
    try:
        clocks = [(perf_counter(), thread_time())]
        queries = [_core.selector(text, "jms") for text in texts]
        clocks.append((perf_counter(), thread_time()))
        built = _core.Engine()
        built.change(queries, [])
        built.match({}, "", None, None, None)
        clocks.append((perf_counter(), thread_time()))
    finally:
        gc.enable()
    seconds = {
        f"{what}{unit}_seconds": round(clocks[until][kind] - clocks[0][kind], 3)
        for until, what in ((1, "parse"), (2, "build"))
        for kind, unit in ((0, ""), (1, "_cpu"))
    }
    return built, seconds


def _check(files: Workload, engine: _core.Engine, sent: list[FlatMessage], count: int) -> int:
    """Compare the matches of a sample of messages with evaluating every filter; return the size of the sample.

    Raises:
        TamisError: the matches of a message differ.
    """
    wanted = min(len(sent), max(CHECKED_MIN, min(CHECKED_MAX, CHECKS_MAX // count)))
    sample = sent[:: max(1, len(sent) // wanted)][:wanted]
    expected: list[list[int]] = [[] for _ in sample]
    with progress_bar(f"checking {len(sample)} messages", files.size_bytes()) as advance:
        for subscription_id, expression in enumerate(files.filters(advance)):
            for matches, message in zip(expected, sample, strict=True):
                if truth(expression, message) is True:
                    matches.append(subscription_id)
    for matches, message in zip(expected, sample, strict=True):
        if engine.match(message, "", None, None, None).to_list() != matches:
            raise TamisError(
                f"the engine and evaluating every filter differ on this message: {output.to_json(message)}"
            )
    return len(sample)


def _figures(times_us: list[float], unit: str) -> dict[str, float]:
    ordered = sorted(times_us)
    at: Callable[[int], float] = lambda percent: ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]  # noqa: E731
    return {
        **{f"p{percent}_{unit}": round(at(percent), 3) for percent in PERCENTILES},
        f"mean_{unit}": round(mean(ordered), 3),
    }


def _print(result: BenchResult, as_json: bool) -> None:
    plain: dict[str, Any] = asdict(result)
    if as_json:
        output.data_json(plain)
        return
    rows = [
        (name, *(f"{plain[f'{which}_{unit}']:,.2f}" for which in ("p50", "p80", "p90", "p99", "mean")))
        for name, unit in (("wall", "us"), ("CPU of the thread", "cpu_us"))
    ]
    output.data(
        f"{result.filters:,} filters, {result.messages:,} messages ({result.checked} of them checked),"
        f" {result.matches_per_message:,.1f} matches per message"
    )
    output.data(
        f"built in {result.build_seconds:.2f} s ({result.parse_seconds:.2f} s of it parsing; CPU"
        f" {result.build_cpu_seconds:.2f} and {result.parse_cpu_seconds:.2f} s),"
        f" {result.bytes_per_filter:,.0f} bytes per filter without the {result.text_bytes_per_filter:,.0f} of its text"
    )
    output.table(("MICROSECONDS", "P50", "P80", "P90", "P99", "MEAN"), rows, numbers=(1, 2, 3, 4, 5))
