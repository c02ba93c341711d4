from __future__ import annotations

from pathlib import Path

import pytest

from tamis.adapters.adapter import Adapter
from tamis.config.adapters import ADAPTERS
from tamis.errors import AdapterError
from tests.adapters.reading import join_mbox, mail


def test_a_test_says_what_there_is_to_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(join_mbox([*map(mail, range(30)), b"no header"]))
    (tmp_path / "b").write_bytes(join_mbox([b"no header", mail(1)]))
    health = Adapter("inbox", "mbox", str(tmp_path)).test()
    assert health.readable
    assert health.reason is None
    assert (health.files, health.sampled, health.dead) == (2, 20, 1)
    assert health.first_dead is not None
    assert health.first_dead.startswith("no header")
    assert health.newest_at is not None
    assert health.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_an_empty_folder_is_readable(tmp_path: Path) -> None:
    health = Adapter("inbox", "eml", str(tmp_path)).test()
    assert (health.readable, health.files, health.newest_at) == (True, 0, None)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": "nowhere"}, "no such file or folder"),
        ({"path": ".", "stop_words": "@nowhere"}, "a file of stop words"),
    ],
)
def test_a_test_says_why_there_is_nothing(tmp_path: Path, options: dict[str, str], reason: str) -> None:
    options["path"] = str(tmp_path / options["path"])
    health = Adapter("inbox", "mbox", **options).test()
    assert not health.readable
    assert reason in str(health.reason)


def test_an_adapter_is_what_its_configuration_says(tmp_path: Path) -> None:
    config = ADAPTERS["jsonl"](name="ticks", type="jsonl", path=tmp_path, body_field="text", max_messages=7)
    adapter = Adapter.from_config(config)
    assert adapter.format == "tamis.jsonl"
    assert adapter.options() == {
        "path": str(tmp_path),
        "topic": "ticks",
        "stop_words": "english",
        "max_messages": "7",
        "max_bytes": "268435456",
        "body_field": "text",
    }
    assert adapter.source().options.max_messages == 7


def test_a_type_that_there_is_not_is_refused() -> None:
    with pytest.raises(AdapterError, match="there are: mbox, eml, jsonl"):
        Adapter("inbox", "gopher", "x")


def test_an_option_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="unknown option 'body_field'"):
        Adapter("inbox", "mbox", str(tmp_path), body_field="text")
