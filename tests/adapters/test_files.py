from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.adapters.sources import records
from tamis.adapters.sources import source as source_module
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.sources.mbox import MboxSource, unescape
from tamis.adapters.sources.records import last_boundary, next_boundary, split
from tamis.adapters.sources.source import Range, offset_of, progress_of
from tamis.errors import AdapterError
from tests.adapters.reading import join_mbox

SEPARATORS = st.sampled_from([b"\n", b"\nFrom "])
CONTENT = st.lists(st.sampled_from([b"\n", b"From ", b"x", b">From ", b"\nFrom a\n", b"Fro", b"\r"]), max_size=60).map(
    b"".join
)


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files in small pieces, so that messages span several."""
    monkeypatch.setattr(records, "READ_BYTES", 7)
    monkeypatch.setattr(records, "RAW_KEPT_BYTES", 4)


def boundaries(content: bytes, separator: bytes) -> list[int]:
    """Return, by the definition, where messages begin, except at the start of the file."""
    return [at + 1 for at in range(len(content)) if content.startswith(separator, at)]


@given(CONTENT, SEPARATORS)
def test_split_cuts_before_every_message_and_loses_nothing(content: bytes, separator: bytes) -> None:
    pieces = list(split(io.BytesIO(content), Range("x", 0, len(content)), separator))
    assert b"".join(piece.content for piece in pieces) == content
    starts = [0, *boundaries(content, separator)] if content else []
    assert [piece.offset for piece in pieces] == [start for start in starts if start < len(content)]


@given(CONTENT, SEPARATORS, st.integers(0, 400))
def test_next_and_last_boundary_are_as_defined(content: bytes, separator: bytes, start: int) -> None:
    start = min(start, len(content))
    file, end = io.BytesIO(content), len(content)
    places = [0, *boundaries(content, separator)]
    assert next_boundary(file, start, end, separator) == min([place for place in places if place >= start], default=end)
    after = [place for place in places if place > start]
    assert last_boundary(file, start, end, separator) == max(after, default=start)


@given(CONTENT, SEPARATORS, st.integers(10, 40))
def test_a_piece_that_is_too_large_gives_its_beginning_and_its_size(
    content: bytes, separator: bytes, limit: int
) -> None:
    whole = list(split(io.BytesIO(content), Range("x", 0, len(content)), separator))
    cut = list(split(io.BytesIO(content), Range("x", 0, len(content)), separator, limit))
    assert [(piece.offset, piece.size_bytes) for piece in cut] == [(piece.offset, piece.size_bytes) for piece in whole]
    for small, piece in zip(cut, whole, strict=True):
        assert piece.content.startswith(small.content)
        assert small.is_whole or len(piece.content) > limit


MESSAGES = st.lists(
    st.lists(
        st.sampled_from([b"From ", b">From ", b">>From x", b"a", b"\n", b"\r\n", b"\n\n", b"\xff"]), max_size=8
    ).map(b"".join),
    max_size=6,
)


@given(MESSAGES)
def test_an_mbox_holds_the_messages_that_were_put_into_it(messages: list[bytes]) -> None:
    content = join_mbox(messages)
    pieces = split(io.BytesIO(content), Range("x", 0, len(content)), MboxSource.separator)
    assert [unescape(piece.content) for piece in pieces] == [message + b"\n" for message in messages]


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 40), st.integers(1, 5))
def test_the_same_rows_come_however_the_stream_is_cut(lengths: list[int], limit: int, slice_bytes: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "SLICE_BYTES_MIN", slice_bytes)
        path = Path(folder, "a.jsonl")
        path.write_bytes(b"".join(b'{"n":"%s"}\n' % (b"x" * length) for length in lengths))
        source = JsonlSource(JsonlOptions(path=folder))
        at, seen = offset_of({}), []
        while (end := source.latest(at, limit, settled=True)) != at:
            rows = [row.offset for part in source.plan(at, end) for row in source.read(part)]
            assert len(rows) <= limit
            again = [row.offset for part in source.plan(at, end) for row in source.read(part)]
            assert again == rows
            seen, at = seen + rows, end
        assert seen == [sum(length + 9 for length in lengths[:index]) for index in range(len(lengths))]


def test_an_offset_of_a_later_version_is_refused() -> None:
    with pytest.raises(AdapterError, match="version 2"):
        progress_of({"version": 2, "places": {}})
