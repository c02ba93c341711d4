"""Compares the bitmap engine with a set of integers."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis

sizes = st.one_of(st.integers(0, 70), st.sampled_from([65_535, 65_536, 65_537]))


def bits_of(size: int) -> st.SearchStrategy[set[int]]:
    if size == 0:
        return st.just(set())
    some = st.sets(st.integers(0, size - 1), max_size=40)
    return st.one_of(some, some.map(lambda holes: set(range(size)) - holes))


pairs = sizes.flatmap(lambda size: st.tuples(st.just(size), bits_of(size), bits_of(size)))


def bitmap(size: int, bits: set[int]) -> tamis.Bitmap:
    if len(bits) * 2 > size:
        return ~bitmap(size, set(range(size)) - bits)
    made = tamis.Bitmap(size)
    for bit in bits:
        made.set(bit)
    return made


def bits(of: tamis.Bitmap) -> set[int]:
    found, bit = set(), of.first_set()
    while bit is not None:
        found.add(bit)
        bit = of.next_set(bit)
    return found


@given(pairs)
def test_every_operation_agrees_with_a_set(pair: tuple[int, set[int], set[int]]) -> None:
    size, a, b = pair
    left, right, all_bits = bitmap(size, a), bitmap(size, b), set(range(size))
    assert len(left) == size
    assert left.count() == len(a)
    assert bits(left) == a
    assert bits(left & right) == a & b
    assert bits(left | right) == a | b
    assert bits(left ^ right) == a ^ b
    assert bits(~left) == all_bits - a
    assert (left == right) == (a == b)
    zeroes = all_bits - a
    assert (left.first_set(), left.last_set()) == (min(a, default=None), max(a, default=None))
    assert (left.first_clear(), left.last_clear()) == (min(zeroes, default=None), max(zeroes, default=None))
    for i in [i for i in (0, 1, size // 2, size - 1) if 0 <= i < size]:
        assert left.test(i) == (i in a)
        assert left.next_set(i) == min((x for x in a if x > i), default=None)
        assert left.previous_set(i) == max((x for x in a if x < i), default=None)
        assert left.next_clear(i) == min((x for x in zeroes if x > i), default=None)
        assert left.previous_clear(i) == max((x for x in zeroes if x < i), default=None)
    for i in range(min(size, 3)):
        left.set(i)
        assert left.test(i)
        left.clear(i)
        assert not left.test(i)
    left.reset()
    assert left.count() == 0


@given(pairs)
def test_what_is_written_is_read_and_not_a_byte_more(pair: tuple[int, set[int], set[int]]) -> None:
    size, a, b = pair
    file = io.BytesIO()
    bitmap(size, a).write(file)
    bitmap(size, b).write(file)
    file.seek(0)
    assert tamis.Bitmap.read(file) == bitmap(size, a)
    assert tamis.Bitmap.read(file) == bitmap(size, b)


@given(st.binary(max_size=80), st.integers(0, 60), st.integers(0, 255))
def test_what_is_no_bitmap_is_refused(noise: bytes, at: int, byte: int) -> None:
    file = io.BytesIO()
    bitmap(70, {1, 5, 69}).write(file)
    damaged = bytearray(file.getvalue())
    damaged[at % len(damaged)] = byte
    for content in (noise, damaged, file.getvalue()[:at]):
        try:
            read = tamis.Bitmap.read(io.BytesIO(content))
        except ValueError as error:
            assert "bitmap" in str(error)
        else:
            assert read.count() <= len(read)


@pytest.mark.parametrize("index", [-1, 8, 2**40])
@pytest.mark.parametrize("method", ["set", "clear", "test", "next_set", "previous_set", "next_clear", "previous_clear"])
def test_outside_the_size_is_an_index_error(method: str, index: int) -> None:
    with pytest.raises(IndexError, match=str(index)):
        getattr(tamis.Bitmap(8), method)(index)


def test_sizes_that_differ_or_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="8 and 9 bits"):
        tamis.Bitmap(8) & tamis.Bitmap(9)
    for size in (-1, 2**32 + 1):
        with pytest.raises(ValueError, match="size"):
            tamis.Bitmap(size)
    other: Any = 3
    with pytest.raises(TypeError):
        tamis.Bitmap(8) | other
