"""The command `tamis journal`, which inspects a broker's logs on disk, and accepts that some of them are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, OK
from tamis.cli.options import JsonOption
from tamis.errors import JournalError

if TYPE_CHECKING:
    from tamis._core import JournalReader

app = typer.Typer(help="Look at a broker's journal, or start without what is missing.", no_args_is_help=True)

DAMAGE_SHOWN = 100
"""Maximum number of damages per log that are described; further ones are counted, and --json has them all."""
_WHAT = {
    "records": "unreadable records",
    "missing": "missing records",
    "header": "the header of a segment; its records are read without it",
    "index": "the index of a segment; its records are read without it",
}
_WHY = {"records": "damaged", "missing": "lost", "removed": "retention has removed them"}


@app.callback()
def _app() -> None:
    """Look at a broker's journal, or start without what is missing."""


@app.command()
def inspect(
    folder: Annotated[
        Path, typer.Argument(help="A broker's data directory, or one log: its journal, or one of its streams.")
    ],
    records: Annotated[bool, typer.Option("--records", help="List every record instead.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Read and check every record, and report what is there and what is damaged.

    The broker may be running; the records that it is writing may look torn at the end of a log. Reading everything once
    takes most of the time.

    Exit code: 0 without damage, 2 when something is damaged or cannot be read.
    """
    from tamis._core import JournalReader

    if not folder.is_dir():
        raise JournalError(f"{folder}: expected a folder: a broker's data directory, or one log")
    is_intact = _has_journal(folder)
    for log in _logs(folder):
        kinds = _kinds(log)
        if records:
            is_intact &= _list_records(JournalReader(log), kinds, as_json)
        else:
            is_intact &= _report(JournalReader.inspect(log), kinds, as_json)
    return OK if is_intact else ERROR


@app.command()
def accept(folder: Annotated[Path, typer.Argument(help="A broker's data directory; no broker may be running.")]) -> int:
    """Accept that files of the journal or of a stream are lost, so that the broker starts with what is there.

    A broker does not start while a file is missing, because it could still be put back. Do that if you can: what this
    command accepts, it names, and it stays lost. Without missing files it changes nothing.

    Exit code: 0 when nothing is missing any more, 2 for an error.
    """
    from tamis._core import JournalReader
    from tamis.broker.data_folder import DataFolder

    logs = _logs(folder)
    if not folder.is_dir() or logs == [folder]:
        raise JournalError(f"{folder}: expected a broker's data directory, with a journal in it")
    count = 0
    with DataFolder(folder):
        for log in logs:
            for loss in JournalReader.accept_losses(log):
                output.data(f"{log}: {loss}")
                count += 1
    output.note(f"accepted {count:,} losses" if count else "nothing is missing")
    return OK


def _has_journal(folder: Path) -> bool:
    """Return whether there is a journal where there are streams; say so if not."""
    if (folder / "journal").is_dir() or not any((folder / "streams").glob("*")):
        return True
    output.error(f"{folder / 'journal'} is missing")
    return False


def _logs(folder: Path) -> list[Path]:
    """Return the logs of a data directory; any other folder is taken for a log."""
    streams = sorted(path for path in folder.glob("streams/*") if path.is_dir())
    journal = folder / "journal"
    return [*([journal] if journal.is_dir() else []), *streams] or [folder]


Kinds = Callable[[int], int | str]
"""Returns the name of a kind of records, or its number if it has no name."""


def _kinds(log: Path) -> Kinds:
    """Return the names of the kinds in a log, which its location in a data directory determines."""
    from tamis._core import journal_kind

    path = log.resolve()
    if path.name != "journal" and path.parent.name != "streams":
        return lambda kind: kind
    return lambda kind: journal_kind(kind, is_stream=path.name != "journal") or kind


# ---- the report ----


def _report(log: dict[str, Any], kinds: Kinds, as_json: bool) -> bool:
    """Print the report of one log; return whether it is intact."""
    segments, damage = log["segments"], log["damage"]
    for segment in segments:
        segment["kinds"] = {kinds(kind): count for kind, count in segment["kinds"].items()}
    is_intact = not damage and not log["missing"]
    if as_json:
        output.data_json({**log, **_sums(log)})
        return is_intact
    sums = _sums(log)
    output.data(
        f"{log['path']}: records {sums['first_sequence']:,} to {sums['next_sequence'] - 1:,}, "
        f"synced to {log['synced']:,}; {sums['record_count']:,} intact in {len(segments):,} segments, "
        f"{sums['data_bytes']:,} bytes"
    )
    if sums["kinds"]:
        output.data("by kind: " + ", ".join(f"{kind}: {count:,}" for kind, count in sums["kinds"].items()))
    header = ("SEGMENT", "FILE", "FIRST", "RECORDS", "BYTES", "FILE BYTES", "SEALED", "FROM", "TO")
    output.table(header, [_row(segment) for segment in segments], numbers=(0, 2, 3, 4, 5))
    for missing in log["missing"]:
        output.error(missing)
    names = {segment["ordinal"]: segment["file"] for segment in segments}
    for damaged in damage[:DAMAGE_SHOWN]:
        output.error(_sentence(damaged, names))
    if len(damage) > DAMAGE_SHOWN:
        output.error(f"and {len(damage) - DAMAGE_SHOWN:,} more damages: --json has them all")
    return is_intact


def _sums(log: dict[str, Any]) -> dict[str, Any]:
    """Return the totals of all segments."""
    segments = log["segments"]
    kinds: Counter[int | str] = Counter()
    for segment in segments:
        kinds.update(segment["kinds"])
    ends = [segment["first_sequence"] + segment["record_count"] for segment in segments]
    return {
        "first_sequence": segments[0]["first_sequence"] if segments else log["synced"] + 1,
        "next_sequence": max([log["synced"] + 1, *ends]),
        "record_count": sum(segment["record_count"] for segment in segments),
        "data_bytes": sum(segment["data_bytes"] for segment in segments),
        "kinds": dict(sorted(kinds.items(), key=lambda kind: str(kind[0]))),
    }


def _row(segment: dict[str, Any]) -> tuple[Any, ...]:
    has_records = segment["record_count"] > 0
    return (
        segment["ordinal"],
        segment["file"],
        segment["first_sequence"],
        segment["record_count"],
        segment["data_bytes"],
        segment["file_bytes"],
        "yes" if segment["is_sealed"] else "no",
        _time(segment["first_time_us"]) if has_records else None,
        _time(segment["last_time_us"]) if has_records else None,
    )


def _sentence(damaged: dict[str, Any], names: dict[int, str]) -> str:
    """Describe a damage: file, byte, kind, and what is lost."""
    file = names.get(damaged["segment"], f"segment {damaged['segment']}")
    size = f", {damaged['size_bytes']:,} bytes" if damaged["size_bytes"] else ""
    lost = damaged["lost_count"]
    first = damaged["first_sequence"]
    if lost == 0:
        gone = "no record is lost"
    elif lost == 1:
        gone = f"record {first:,} is lost"
    else:
        gone = f"records {first:,} to {first + lost - 1:,} are lost"
    return f"{file}, byte {damaged['offset']:,}{size}: {_WHAT.get(damaged['kind'], damaged['kind'])}: {gone}"


# ---- record by record ----


def _list_records(reader: JournalReader, kinds: Kinds, as_json: bool) -> bool:
    """Print one line per synced record; return whether none is missing."""
    is_intact = True
    for row in _rows(reader, kinds):
        if "gap" in row:
            is_intact &= row["reason"] == "removed"  # records that retention has removed are no damage
        if as_json:
            output.data_json(row)
        elif "gap" in row:
            first, last = row["gap"]
            output.error(f"records {first:,} to {last:,} are missing: {_WHY.get(row['reason'], row['reason'])}")
        else:
            output.data(f"{row['sequence']}\t{row['time']}\t{row['kind']}\t{row['size_bytes']}")
    return is_intact


def _rows(reader: JournalReader, kinds: Kinds) -> Iterator[dict[str, Any]]:
    while True:
        records, gaps = reader.read()
        if not records and not gaps:
            return
        rows = [
            (sequence, {"sequence": sequence, "time": _time(time_us), "kind": kinds(kind), "size_bytes": len(body)})
            for sequence, time_us, kind, body in records
        ]
        rows += [(first, {"gap": [first, last], "reason": reason}) for first, last, reason in gaps]
        yield from (row for _, row in sorted(rows, key=lambda pair: pair[0]))


def _time(time_us: int) -> str:
    try:
        return datetime.fromtimestamp(time_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return f"{time_us} us"
