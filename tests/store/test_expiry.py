"""Queries that are paused or expired match nothing, and a batch that is read again sees what it saw."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import ConfigError, StoreError
from tamis.query import QuerySpec, load_query_file
from tamis.store import Store, revisions

BEGIN = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Clock:
    """Replaces the time of the store."""

    def __init__(self) -> None:
        self.at = BEGIN

    def now(self, zone: object = None) -> datetime:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(revisions, "datetime", clock)
    return clock


def matching(store: Store, batch_id: int) -> list[str]:
    return [record.key for record in store.queries_at(store.pin_batch("s", batch_id))]


def test_a_paused_query_matches_nothing_until_it_is_resumed(store: Store) -> None:
    store.add_queries([QuerySpec("a", "x = 1", owner="ann", tags=("t",)), QuerySpec("b", "x = 2")])
    assert matching(store, 0) == ["a", "b"]
    paused = store.pause_query("a")
    assert (paused.version, paused.paused, paused.text, paused.owner, paused.tags) == (2, True, "x = 1", "ann", ("t",))
    assert store.pause_query("a") == paused
    assert [record.key for record in store.list_queries()] == ["a", "b"]
    assert (matching(store, 0), matching(store, 1)) == (["a", "b"], ["b"])
    assert store.resume_query("a").version == 3
    assert (matching(store, 1), matching(store, 2)) == (["b"], ["a", "b"])


def test_an_expired_query_matches_nothing_from_the_next_batch_on(store: Store, clock: Clock) -> None:
    store.add_queries([QuerySpec("a", "x = 1"), QuerySpec("b", "x = 2", expires_at=BEGIN + timedelta(hours=1))])
    clock.at += timedelta(minutes=59)
    assert matching(store, 0) == ["a", "b"]
    clock.at += timedelta(minutes=1)
    assert (matching(store, 0), matching(store, 1)) == (["a", "b"], ["a"])
    assert store.revision() == 2
    assert (store.changed_keys(1, 2), store.changed_keys(2, 1), store.changed_keys(2, 2)) == ({"b"}, {"b"}, set())
    assert (matching(store, 2), store.revision()) == (["a"], 2)  # one revision for each expiry, not for each batch
    store.expire_query("b", None)
    assert (matching(store, 2), matching(store, 3)) == (["a"], ["a", "b"])


def test_a_change_of_another_query_lets_an_expired_one_end_too(store: Store, clock: Clock) -> None:
    store.add_query(QuerySpec("b", "x = 2", expires_at=BEGIN + timedelta(hours=1)))
    clock.at += timedelta(hours=2)
    store.add_query(QuerySpec("a", "x = 1"))
    assert (matching(store, 0), store.revision()) == (["a"], 2)


def test_a_pause_and_an_expiry_are_undone_like_any_change(store: Store) -> None:
    store.add_query(QuerySpec("a", "x = 1"))
    store.pause_query("a")
    undone = store.undo_query("a")
    assert undone is not None
    assert (undone.version, undone.paused) == (3, False)
    store.expire_query("a", BEGIN)
    store.remove_query("a")
    back = store.undo_query("a")
    assert back is not None
    assert (back.expires_at, back.paused) == (BEGIN, False)
    assert [(it.paused, it.expires_at) for it in store.query_history("a")] == [
        (False, None),
        (True, None),
        (False, None),
        (False, BEGIN),
        (False, BEGIN),
    ]


def test_what_stands_in_a_file_is_paused_there(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "queries.toml"
    text = '[[query]]\nkey = "a"\ntext = "x = 1"\n'
    for more, state in (("", (False, None)), ("paused = true\n", (True, None))):
        file.write_text(text + more)
        store.apply_files([load_query_file(file)])
        (record,) = store.list_queries()
        assert (record.paused, record.expires_at) == state
    file.write_text(text + "expires = 2026-12-31\n")
    (change,) = store.apply_files([load_query_file(file)]).changes
    assert (change.before, change.after) == (
        {"paused": True, "expires_at": None},
        {"paused": False, "expires_at": datetime(2027, 1, 1, tzinfo=UTC)},
    )
    assert store.apply_files([load_query_file(file)]).unchanged == 1
    for change_by_hand in (
        lambda: store.pause_query("a"),
        lambda: store.expire_query("a", None),
    ):
        with pytest.raises(StoreError, match="belongs to the file"):
            change_by_hand()


def test_pausing_what_is_not_there_is_a_key_error(store: Store) -> None:
    for change in (store.pause_query, store.resume_query, lambda key: store.expire_query(key, BEGIN)):
        with pytest.raises(KeyError):
            change("nobody")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("paused = 1", "line 4: expected true or false for 'paused'"),
        ('expires = "30d"', "line 4: expected a date or a time without quotes, as 2026-12-31"),
        ('expires = "30d"', "'30d' would start again each time the file is read"),
        ("expires = 12:00:00", "line 4: expected a date or a time"),
        ("expires = 9999-12-31", "line 4: expected a date or a time"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path, line: str, expected: str) -> None:
    file = tmp_path / "queries.toml"
    file.write_text(f'[[query]]\nkey = "a"\ntext = "x = 1"\n{line}\n')
    with pytest.raises(ConfigError, match=expected):
        load_query_file(file)


KEYS = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.sampled_from([None, 1, 3])),
    st.tuples(st.just("pause"), KEYS, st.none()),
    st.tuples(st.just("resume"), KEYS, st.none()),
    st.tuples(st.just("expire"), KEYS, st.sampled_from([None, 0, 2])),
    st.tuples(st.just("remove"), KEYS, st.none()),
    st.tuples(st.just("wait"), KEYS, st.sampled_from([1, 2])),
    st.tuples(st.just("batch"), KEYS, st.none()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_each_batch_sees_what_a_dict_held_when_it_began_also_when_it_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list
) -> None:
    clock, model, seen = Clock(), {}, []
    with Store.open(tmp_path_factory.mktemp("store") / "s") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(revisions, "datetime", clock)
        for step, key, value in steps:
            at = None if value is None else clock.at + timedelta(hours=value)
            match step:
                case "wait":
                    clock.at = at
                case "add":
                    store.add_query(QuerySpec(key, "x = 1", expires_at=at))
                    model[key] = (False, at)
                case "batch":
                    seen.append(
                        {k for k, (paused, end) in model.items() if not paused and not (end and end <= clock.at)}
                    )
                    assert set(matching(store, len(seen) - 1)) == seen[-1]
                case _ if key not in model:
                    pass
                case "remove":
                    store.remove_query(key)
                    del model[key]
                case "expire":
                    store.expire_query(key, at)
                    model[key] = (model[key][0], at)
                case "pause" | "resume":
                    (store.pause_query if step == "pause" else store.resume_query)(key)
                    model[key] = (step == "pause", model[key][1])
        for number, keys in enumerate(seen):
            assert set(matching(store, number)) == keys
