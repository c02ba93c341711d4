"""A snapshot whose bytes were changed and whose checksums fit again gives answers or a SnapshotError, nothing else."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import tamis
from tests.stream_log import crc32c

PAGE = 4096


def snapshot(path: Path) -> bytes:
    """Return a snapshot of 60 queries of several kinds, with keys of each type."""
    engine = tamis.Engine()
    texts = ["a = {}", "a > {} AND b = 'x'", "b LIKE '%x{}%'", "a = {} OR NOT c = 1"]
    engine.add_many((f"key {n}" if n % 2 else n, tamis.selector(texts[n % 4].format(n))) for n in range(50))
    engine.add_many((("t", n), tamis.topic(f"a.*.{n}")) for n in range(10))
    engine.save(path)
    return path.read_bytes()


def forge(whole: bytes, offset: int, value: int) -> bytes:
    """Change a byte of the body and the checksum of its page."""
    forged = bytearray(whole)
    forged[offset] = value
    pages = -(-(len(whole) - PAGE) // (PAGE + 4))
    end = len(whole) - 4 * pages
    number = (offset - PAGE) // PAGE
    page = forged[PAGE * (number + 1) : min(end, PAGE * (number + 2))]
    forged[end + 4 * number : end + 4 * number + 4] = crc32c(bytes(page)).to_bytes(4, "little")
    return bytes(forged)


def uses(engine: tamis.Engine) -> list[Callable[[], object]]:
    """Return calls that read the snapshot."""

    def every_key() -> None:
        for key in engine.all_keys():
            with contextlib.suppress(tamis.SnapshotError):
                engine.query(key)
            with contextlib.suppress(tamis.SnapshotError):
                engine.explain(key, {"a": 1})

    messages = [({"a": n, "b": "x", "c": n}, "a.b.3") for n in range(0, 60, 7)]
    matches = [lambda message=message: engine.match(*message) for message in messages]
    return [*matches, lambda: engine.near_misses({"a": 1}), engine.report, every_key, lambda: engine.remove("key 1")]


def test_every_call_answers_or_says_that_the_snapshot_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    whole = snapshot(path)
    end = len(whole) - 4 * -(-(len(whole) - PAGE) // (PAGE + 4))
    chance = random.Random(18)
    refused = 0
    for _ in range(400):
        path.unlink()  # an open engine has the file mapped
        path.write_bytes(forge(whole, chance.randrange(PAGE, end), chance.randrange(256)))
        try:
            engine = tamis.Engine.open(path)
        except tamis.SnapshotError:
            refused += 1
            continue
        for use in uses(engine):
            try:
                use()
            except tamis.SnapshotError:
                refused += 1
            except KeyError as error:
                assert error.args == ("key 1",), "only what is asked for by its key may be absent"
    assert refused > 50
