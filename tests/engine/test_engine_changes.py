"""Every message sees exactly one state of an engine that changes during the match, and nobody waits."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tamis

TREES: list[dict[str, str | None]] = [{"x": None, "y": "x", "z": None}, {"x": None, "y": None, "z": "x"}]
QUERIES = [
    tamis.selector("a = 1"),
    tamis.selector("a <> 1 OR b IS NULL"),
    tamis.selector("a BETWEEN 1 AND 2 AND NOT b = 'x'"),
    tamis.selector("b IN ('x', 'y') AND a > 0"),
    tamis.selector("b LIKE '%x%' OR CONTAINS(body, 'garlic')"),
    tamis.selector("c UNDER 'x'"),
    tamis.selector("NOT c UNDER 'x' AND a = 1"),
    tamis.topic("forex.*"),
    tamis.topic("#.usd") & tamis.selector("a = 2"),
    tamis.fields({"a": 1, "b": tamis.ANY}, require="any"),
    tamis.regex("^f", on="topic") & tamis.text("rhubarb"),
    tamis.boolean("a == 2 && (b == x || c == y)"),
    tamis.opaque("expensive", lambda properties, topic, body: properties.get("a") == 2),
]
MESSAGES: list[tuple[dict[str, Any], str, str | None]] = [
    ({"a": 1, "b": "x", "c": "y"}, "forex.usd", None),
    ({"a": 2, "b": "xy", "c": "z"}, "forex.eur", "garlic and rhubarb"),
    ({"a": [1, 2], "b": None}, "a.usd", "rhubarb"),
    ({"c": "y", "b": "y"}, "", None),
]
FILLER = tamis.selector("filler = 'none'")
TRUTHS = [
    [[q.evaluate(*message, hierarchies={"c": tree}) is True for message in MESSAGES] for q in QUERIES] for tree in TREES
]


@pytest.fixture(autouse=True)
def threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class History:
    """An engine with its results in every state that it has had. One thread changes it; any thread may match."""

    def __init__(self) -> None:
        self.engine = tamis.Engine()
        self.engine.hierarchy("c", TREES[0])
        self._queries: dict[Hashable, int] = {}
        self._tree = 0
        self._answers: list[list[list[Hashable]]] = []
        self.begun = 0
        self._remember()
        self.done = 0

    def _remember(self) -> None:
        truths = TRUTHS[self._tree]
        self._answers.append([[k for k, q in self._queries.items() if truths[q][m]] for m in range(len(MESSAGES))])

    def change(self, queries: dict[Hashable, int | None], tree: int | None = None, fillers: int = 0) -> None:
        """Make one change: queries by number (None removes one), or a tree. Fillers are queries that match nothing."""
        for key, number in queries.items():
            if number is None:
                del self._queries[key]
            else:
                self._queries[key] = number
        self._tree = self._tree if tree is None else tree
        self._remember()
        self.begun += 1
        if tree is not None:
            self.engine.hierarchy("c", TREES[tree])
        elif None in queries.values():
            (key,) = queries
            self.engine.remove(key)
        else:
            pairs: list[tuple[Hashable, tamis.Query]] = [(k, QUERIES[n]) for k, n in queries.items() if n is not None]
            self.engine.add_many(pairs + [(("filler", self.done, i), FILLER) for i in range(fillers)])
        self.done += 1

    def random_change(self, source: random.Random) -> None:
        key, number = source.randrange(40), source.randrange(len(QUERIES))
        kind = source.randrange(10)
        if kind == 0:
            self.change({}, tree=source.randrange(len(TREES)))
        elif kind <= 3 and key in self._queries:
            self.change({key: None})
        elif kind <= 5:
            self.change({key + i: source.randrange(len(QUERIES)) for i in range(source.randrange(1, 30))})
        else:
            self.change({key: number}, fillers=source.choice([0, 0, 0, 100, 2_000]))

    def is_right(self, message: int, found: list[Hashable], begun: int, ended: int) -> bool:
        """Return whether `found` is the result of a state from `begun` to `ended`, both included."""
        return any(answers[message] == found for answers in self._answers[begun : ended + 1])


def in_threads(*works: Callable[[], None]) -> None:
    """Run all of them at once; any failure fails the test."""
    with ThreadPoolExecutor(len(works)) as threads:
        for done in [threads.submit(work) for work in works]:
            done.result()


@pytest.mark.parametrize("opened", [False, True])
def test_every_match_sees_one_state_between_its_beginning_and_its_end(tmp_path: Path, opened: bool) -> None:
    history = History()
    source = random.Random(3)
    if opened:
        for _ in range(50):
            history.random_change(source)
        history.engine.save(tmp_path / "queries", opaque="names")
        expensive = {"expensive": lambda properties, topic, body: properties.get("a") == 2}
        history.engine = tamis.Engine.open(tmp_path / "queries", opaque=expensive)
    stop = threading.Event()
    matches = 0

    def change() -> None:
        try:
            for _ in range(1_500):
                history.random_change(source)
        finally:
            stop.set()

    def match() -> None:
        nonlocal matches
        message = 0
        while not stop.is_set():
            message = (message + 1) % len(MESSAGES)
            begun = history.done
            found = history.engine.match(*MESSAGES[message])
            assert history.is_right(message, found, begun, history.begun), (message, begun, history.begun)
            matches += 1

    in_threads(change, match, match)
    assert matches > 100
    for message, sent in enumerate(MESSAGES):
        assert history.is_right(message, history.engine.match(*sent), history.done, history.done)


def test_a_batch_in_threads_agrees_with_brute_force_while_queries_change() -> None:
    history = History()
    keys = range(60)
    history.change({key: key % len(QUERIES) for key in keys})  # ids are given in this order, and kept
    rows = [MESSAGES[i % len(MESSAGES)] for i in range(600)]
    columns: dict[str, list[Any]] = {
        "properties": [json.dumps(properties) for properties, _, _ in rows],
        "topic": [topic for _, topic, _ in rows],
        "body": [body for _, _, body in rows],
    }
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    source = random.Random(5)
    stop = threading.Event()

    def change() -> None:
        try:
            for step in range(1_000):
                if step % 10 == 0:
                    history.change({}, tree=source.randrange(2))
                swapped = source.sample(keys, source.choice([1, 2, 30]))
                history.change({k: source.randrange(len(QUERIES)) for k in swapped}, fillers=source.choice([0, 0, 500]))
        finally:
            stop.set()

    def match() -> None:
        while not stop.is_set():
            begun = history.done
            found = history.engine.match_batch(table, threads=3).to_pylist()
            ended = history.begun
            for row, ids in enumerate(found):
                assert history.is_right(row % len(MESSAGES), ids, begun, ended), (row, begun, ended)

    in_threads(change, match)


def test_queries_that_are_swapped_together_are_seen_together() -> None:
    engine = tamis.Engine()
    yes, no = tamis.selector("a = 1 AND b > 0"), tamis.selector("a = 2")
    pairs: list[list[tuple[Hashable, tamis.Query]]] = [
        [(("left", i), left) for i in range(20)] + [(("right", i), right) for i in range(20)]
        for left, right in ((yes, no), (no, yes))
    ]
    engine.add_many(pairs[0])
    sides = [[key for key, query in state if query is yes] for state in pairs]
    stop = threading.Event()

    def change() -> None:
        for step in range(2_000):
            engine.add_many(pairs[(step + 1) % 2])
        stop.set()

    def match() -> None:
        seen = set()
        while not stop.is_set():
            found = engine.match({"a": 1, "b": 1})
            seen.add(sides.index(found))
        assert seen <= {0, 1}

    in_threads(change, match, match)


def test_new_keys_and_removed_keys_are_seen_whole() -> None:
    """Adds the queries of a generation at once, and removes the last one key by key, newest first."""
    engine = tamis.Engine()
    query = tamis.selector("a = 1")
    engine.add("always", query)
    stop = threading.Event()

    def change() -> None:
        for generation in range(400):
            engine.add_many(((generation, i), query) for i in range(50))
            for i in reversed(range(50)):
                engine.remove((generation, i))
        stop.set()

    def match() -> None:
        while not stop.is_set():
            first, *rest = engine.match({"a": 1})
            assert first == "always"
            assert [key[1] for key in rest] == list(range(len(rest)))  # type: ignore[index]
            assert len({key[0] for key in rest}) <= 1  # type: ignore[index]

    in_threads(change, match, match)


# ---- a function that uses the engine that asks it ---------------------------------------------------------------


@pytest.mark.timeout(20)
def test_a_function_may_match_with_and_change_the_engine_that_asks_it() -> None:
    engine = tamis.Engine()
    seen: list[object] = []

    def nested(properties: object, topic: str, body: object) -> bool:
        seen.append(engine.match({"inner": True}))
        engine.add("new", tamis.selector("inner"))
        engine.remove("old")
        return True

    engine.add("old", tamis.selector("inner"))
    engine.add("outer", tamis.opaque("nested", nested) & tamis.selector("outer"))
    assert engine.match({"outer": True}) == ["outer"]
    assert seen == [["old"]]
    assert engine.match({"inner": True}) == ["new"]


@pytest.mark.timeout(20)
def test_a_function_that_waits_for_a_writer_does_not_stop_it() -> None:
    engine = tamis.Engine()

    def waits(properties: object, topic: str, body: object) -> bool:
        writer = threading.Thread(target=engine.add, args=("late", tamis.selector("x")))
        writer.start()
        writer.join(timeout=10)
        return not writer.is_alive()

    engine.add("waits", tamis.opaque("waits", waits))
    assert engine.match({}) == ["waits"]


@pytest.mark.timeout(60)
def test_functions_in_many_threads_may_add_until_segments_merge() -> None:
    engine = tamis.Engine()
    numbers = iter(range(1_000_000))

    def adds(properties: object, topic: str, body: object) -> bool:
        engine.add_many((next(numbers), FILLER) for _ in range(100))
        return True

    engine.add("adds", tamis.opaque("adds", adds))
    found = engine.match_batch(pa.table({"a": list(range(600))}), threads=4)
    assert found.to_pylist() == [[0]] * 600
    assert len(engine) == 1 + 60_000


FORKED = """
import os, signal, tamis
engine = tamis.Engine()
for part in range(4):
    engine.add_many(((part, i), tamis.selector(f"a = {i} AND b > {i}")) for i in range(20_000))
child = os.fork()  # four of a size: a thread merges them
if child == 0:
    signal.alarm(60)
    for part in range(4, 74):
        engine.add_many(((part, i), tamis.selector(f"a = {i} AND b > {i}")) for i in range(1_100))
    os._exit(0 if len(engine.match({"a": 7, "b": 8})) == 74 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_is_forked_during_a_merge_does_not_wait_for_it() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=False)
    assert done.returncode == 0


def removing_while_it_matches(*, reopened: Path | None = None) -> tuple[tamis.Engine, list[Hashable]]:
    """Return an engine whose function makes other changes, and removes what its message has matched already."""
    engine = tamis.Engine()

    def remove(properties: object, topic: str, body: object) -> bool:
        engine.add("later", tamis.selector("a = 1"))
        engine.remove("first")
        engine.add("first", tamis.selector("a = 1"))
        for i in range(100):
            engine.remove(i)
        return True

    engine.add("first", tamis.selector("a = 1"))
    engine.add_many((i, tamis.selector("a = 1")) for i in range(100))
    engine.add("last", tamis.opaque("remove", remove))
    if reopened:
        engine.save(reopened, opaque="names")
        engine = tamis.Engine.open(reopened, opaque={"remove": remove})
    return engine, ["first", *range(100), "last"]


@pytest.mark.parametrize("reopened", [False, True])
def test_keys_removed_while_a_message_is_matched_are_still_told(tmp_path: Path, reopened: bool) -> None:
    engine, before = removing_while_it_matches(reopened=tmp_path / "queries" if reopened else None)
    assert engine.match({"a": 1}) == before
    with pytest.raises(KeyError):
        engine.keys([0])
    with pytest.raises(KeyError):
        engine.remove(0)


def test_hits_and_near_misses_tell_removed_keys_too() -> None:
    engine = tamis.Engine()

    def remove(properties: object, topic: str, body: object) -> bool:
        engine.remove("x")
        return False

    engine.add("x", tamis.selector("a = 1 AND b = 1"))
    engine.add("expensive", tamis.opaque("remove", remove))
    assert engine.near_misses({"a": 1}) == ["x", "expensive"]
    engine.add("y", tamis.fields({"a": 1, "b": 1}))
    engine.remove("expensive")
    assert engine.hits({"a": 1}) == [("y", 1, 2)]


def test_a_key_is_known_before_its_query_can_match() -> None:
    engine = tamis.Engine()
    query = tamis.selector("a = 1")
    engine.add("old", query)
    core, found = engine._core, []

    class Watched:
        """Matches after the core has changed and before the caller knows."""

        def __getattr__(self, name: str) -> Any:
            return getattr(core, name)

        def change(self, *arguments: Any) -> list[int]:
            given = core.change(*arguments)
            found.append(engine.match({"a": 1}))
            return given

        def remove(self, subscription_id: int) -> bool:
            removed = core.remove(subscription_id)
            found.append(engine.match({"a": 1}))
            return removed

    engine._core = Watched()  # type: ignore[assignment]
    engine.add_many([("b", query), ("c", query)])
    engine.remove("b")
    assert found == [["old", "b", "c"], ["old", "c"]]


@pytest.mark.timeout(20)
def test_a_finalizer_may_change_the_engine_in_the_middle_of_a_change() -> None:
    engine = tamis.Engine()
    query = tamis.selector("a = 1")
    engine.add("finalized", query)
    core, is_first = engine._core, True

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return getattr(core, name)

        def change(self, *arguments: Any) -> list[int]:
            nonlocal is_first
            if is_first:
                is_first = False
                engine.remove("finalized")
                engine.add("from the finalizer", query)
            return core.change(*arguments)

    engine._core = Interrupted()  # type: ignore[assignment]
    engine.add_many([("b", query), ("c", query)])
    assert engine.match({"a": 1}) == ["from the finalizer", "b", "c"]
    for key in ("c", "b", "from the finalizer"):
        engine.remove(key)
    assert engine.match({"a": 1}) == []


def test_removed_keys_are_kept_as_long_as_a_match_may_need_them_and_no_longer() -> None:
    class Key:
        pass

    engine = tamis.Engine()
    query = tamis.selector("a = 1")
    kept: list[bool] = []
    key = Key()
    watched = weakref.ref(key)

    def remove(properties: object, topic: str, body: object) -> bool:
        nonlocal key
        engine.remove(key)
        del key
        gc.collect()
        kept.append(watched() is not None)
        return False

    engine.add(key, query)
    engine.add("remove", tamis.opaque("remove", remove))
    engine.match({"a": 1})
    gc.collect()
    assert kept == [True]
    assert watched() is None


def test_a_hundred_thousand_removals_during_one_match_are_let_go_without_recursion() -> None:
    engine = tamis.Engine()
    count = 100_000

    def remove(properties: object, topic: str, body: object) -> bool:
        for i in range(count):
            engine.remove(i)
        return False

    engine.add_many((i, FILLER) for i in range(count))
    engine.add("one", tamis.selector("a = 1"))
    engine.add("remove", tamis.opaque("remove", remove))
    assert engine.match({"a": 1}) == ["one"]
    assert len(engine) == 2


# ---- what must not happen, and when it does -----------------------------------------------------------------------


def test_a_message_that_changes_while_it_is_read_is_an_error() -> None:
    class Growing(Decimal):
        def __float__(self) -> float:
            properties["new"] = 1
            return 1.0

    engine = tamis.Engine()
    engine.add("a", tamis.selector("a = 1"))
    properties: dict[str, Any] = {"a": Growing(1), "b": 1}
    with pytest.raises(RuntimeError, match="changed while it was read"):
        engine.match(properties)


def test_a_panic_below_becomes_an_exception_and_the_engine_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    """PyO3 panics when a dict gets other keys, and as many, while it is read: no accident, and so a way to have one."""

    class Restless(Decimal):
        def __float__(self) -> float:
            properties[str(len(seen))] = properties.pop(next(iter(properties)))
            seen.append(1)
            return 1.0

    engine = tamis.Engine()
    engine.add("a", tamis.selector("a = 1"))
    seen: list[int] = []
    properties: dict[str, Any] = {"x": Restless(1), "y": Restless(2)}
    with pytest.raises(BaseException, match="dictionary keys changed") as caught:
        engine.match(properties)
    assert type(caught.value).__name__ == "PanicException"
    assert "panicked" in capfd.readouterr().err
    engine.add("b", tamis.selector("a = 1"))
    assert engine.match({"a": 1}) == ["a", "b"]
