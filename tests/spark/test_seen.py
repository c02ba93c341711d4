"""A pipeline notes every message that it reads, whether it matches or not, so that a trace finds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis import QuerySpec
from tamis.adapters.mail.message import read_mail
from tamis.adapters.sources.mbox import unescape
from tamis.store import Store
from tests.spark.conftest import Workshop
from tests.spark.mail import QUERIES, brute_force, real_messages, write_mbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SELECTIVE = [query for query in QUERIES if query.key in ("redhat", "exmh", "near")]


@pytest.fixture(params=["sqlite", "postgres"])
def anywhere(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Workshop]:
    """Return a folder with a store in a file, and one with a store on a server."""
    place = "tamis.sqlite"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").new_database()
    workshop = Workshop(tmp_path, spark, place)
    with workshop.store:
        yield workshop


def notes(store: Store) -> list[tuple[str, int, str | None, int]]:
    """Return the partition, offset, Message-ID and number of matches of each note."""
    with store._read() as connection:
        rows = connection.exec_driver_sql('SELECT partition, "offset", message_id, matches FROM seen ORDER BY seq')
        return [tuple(row) for row in rows]  # type: ignore[misc]


def test_every_message_is_noted_once_with_the_number_of_its_matches(anywhere: Workshop, shared: Path) -> None:
    messages = real_messages(shared, 60)
    box = anywhere.folder / "inbox"
    placed = list(zip(write_mbox(box, messages), map(unescape, messages), strict=True))
    anywhere.adapter("inbox", "mbox", box, max_messages=25)
    anywhere.store.add_queries(SELECTIVE)
    anywhere.run()
    matches = Counter(match[4] for match in brute_force("inbox", str(box), placed, SELECTIVE))
    wanted = [(str(box), at, read_mail(raw).properties["message_id"], matches[at]) for at, raw in placed]
    assert notes(anywhere.store) == wanted
    assert 0 < len(matches) < 60, "some match, and others do not"
    anywhere.run()
    assert len(notes(anywhere.store)) == 60
    silent = next(note for note in wanted if not note[3])
    trace = anywhere.store.trace(silent[2])
    assert ([it.batch_id for it in trace.seen], trace.places, trace.notifications) == ([0], (), ())


def test_a_copy_of_a_message_without_a_match_is_found_at_both_places(anywhere: Workshop, shared: Path) -> None:
    for name in ("first", "second"):
        write_mbox(anywhere.folder / name, real_messages(shared, 1))
        anywhere.adapter(name, "mbox", anywhere.folder / name)
    anywhere.run()
    ((_, _, message_id, _), _) = notes(anywhere.store)
    assert message_id is not None
    assert {it.source for it in anywhere.store.trace(message_id).seen} == {"first", "second"}
    assert len({it.digest for it in anywhere.store.trace(message_id).seen}) == 1


def test_a_message_that_cannot_be_read_has_no_note(anywhere: Workshop) -> None:
    lines = anywhere.folder / "in.jsonl"
    lines.write_text('{"n": 1, "message_id": "tab\\t back\\\\slash"}\nnot json\n{"n": 2, "message_id": 7}\n{"n": 3}\n')
    anywhere.adapter("lines", "jsonl", lines)
    anywhere.store.add_query(QuerySpec("second", "n = 2"))
    assert anywhere.run().dead == 1
    told = [(message_id, matches) for _, _, message_id, matches in notes(anywhere.store)]
    assert told == [("tab\t back\\slash", 0), ("7", 1), (None, 0)]
    last = lines.read_text().index('{"n": 3}')
    assert [it.matches for it in anywhere.store.trace(f"{lines}:{last}").seen] == [0]


@pytest.mark.parametrize("anywhere", ["sqlite"], indirect=True)
def test_the_number_of_notes_is_a_setting(anywhere: Workshop) -> None:
    lines = anywhere.folder / "in.jsonl"
    lines.write_text("".join(f'{{"n": {number}}}\n' for number in range(10)))
    anywhere.adapter("lines", "jsonl", lines)
    toml = anywhere.toml
    for kept, wanted in ((4, 4), (2, 2), (0, 0)):
        anywhere.toml = toml.replace("[queries]", f"seen_messages = {kept}\n[queries]")
        anywhere.run()
        assert len(notes(anywhere.store)) == wanted
    with lines.open("a") as file:
        file.write('{"n": 10}\n')
    assert anywhere.run().read == 1
    assert notes(anywhere.store) == []


def test_the_message_id_is_found_in_each_kind_of_properties(spark: SparkSession) -> None:
    from tamis.spark.sinks.sink import _message_id

    text, expected = '{"message_id": "' + "x" * 2_000 + '"}', "x" * 998
    frames = [
        spark.sql("SELECT :text AS properties", {"text": text}),
        spark.sql("SELECT parse_json(:text) AS properties", {"text": text}),
        spark.sql("SELECT from_json(:text, 'message_id string') AS properties", {"text": text}),
        spark.sql("SELECT from_json(:text, 'other string') AS properties", {"text": text}),
    ]
    assert [frame.select(_message_id(frame)).first()[0] for frame in frames] == [expected] * 3 + [None]  # type: ignore[index]
