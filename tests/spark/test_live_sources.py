"""Live sources in a pipeline: each message is notified once, over restarts, moves and new names of adapters."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis import QuerySpec
from tests.adapters.reading import join_mbox, mail
from tests.adapters.test_feed import rss
from tests.adapters.web import Answer, Web, web_server
from tests.spark.conftest import Workshop
from tests.spark.mail import outbox

pytestmark = pytest.mark.spark

GARLIC = QuerySpec("garlic", "CONTAINS(body, 'garlic') AND date < TIMESTAMP '2025-01-01T00:00:00Z'")


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as web:
        yield web


def _toml(name: str, kind: str, **options: object) -> str:
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in options.items()]
    return "\n".join([f'\n[[adapter]]\nname = "{name}"\ntype = "{kind}"', *lines, ""])


def _read(workshop: Workshop) -> dict[str, int]:
    """Return how many notifications each query has."""
    counts: dict[str, int] = {}
    for key, *_ in outbox(workshop.store):
        counts[key] = counts.get(key, 0) + 1
    return counts


def test_live_sources_are_read_once(workshop: Workshop, web: Web) -> None:
    base = workshop.toml
    workshop.store.add_query(GARLIC)
    workshop.toml = base + _toml("news", "feed", url=web.page("/rss", Answer(200, rss("g1", "g2"))))
    assert workshop.run().failed == {}
    assert _read(workshop) == {"garlic": 2}
    web.page("/rss", Answer(200, rss("g3", "g2", "g1")))
    assert workshop.run().failed == {}
    assert _read(workshop) == {"garlic": 3}
    workshop.toml = base + _toml("renamed", "feed", url=f"{web.address}/rss")
    assert workshop.run().failed == {}
    assert _read(workshop) == {"garlic": 3}


def test_a_mail_is_notified_once_after_a_move_and_a_new_name(workshop: Workshop) -> None:
    base, folder = workshop.toml, workshop.folder
    workshop.store.add_query(QuerySpec("hello", "CONTAINS(body, 'Hello')"))
    (folder / "a").mkdir()
    (folder / "a" / "in").write_bytes(join_mbox([mail(1), mail(2)]))
    workshop.toml = base + _toml("first", "mbox", path=str(folder / "a"))
    workshop.run()
    shutil.move(folder / "a", folder / "b")
    (folder / "b" / "in").write_bytes(join_mbox([mail(3), mail(2)]))
    Path(folder / "b" / "1.eml").write_bytes(mail(1))
    workshop.toml = base + _toml("second", "mbox", path=str(folder / "b" / "in"))
    workshop.toml += _toml("third", "eml", path=str(folder / "b"))
    workshop.run()
    assert _read(workshop) == {"hello": 3}
