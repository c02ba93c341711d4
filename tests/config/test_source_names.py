"""A name in a query that no adapter of the pipeline gives is told, with the name that was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.config.pipeline import PipelineConfig
from tamis.config.source_names import name_warnings
from tamis.query import QuerySpec


def _told(folder: Path, text: str, *types: str) -> list[str]:
    adapters = "".join(f'[[adapter]]\nname = "a{at}"\ntype = "{type_}"\npath = "x"\n' for at, type_ in enumerate(types))
    (folder / "pipeline.toml").write_text(adapters)
    return list(name_warnings(PipelineConfig.load(folder / "pipeline.toml"), QuerySpec("q", text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bdy LIKE '%frost%'", "no adapter gives a property 'bdy'; did you mean body?"),
        ("Author = 'James' AND subject LIKE 'Re:%'", "no adapter gives a property 'Author'; did you mean author?"),
        ("price > 10", "no adapter gives a property 'price'; mail has author, date, header, "),
    ],
)
def test_mail_has_only_its_own_names(tmp_path: Path, text: str, expected: str) -> None:
    (told,) = _told(tmp_path, text, "mbox", "eml")
    assert told.startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        "author = 'x' AND date IS NOT NULL AND CONTAINS(body, 'frost') AND TOPIC('mail.#')",
        "\"header.X-Mailer\" = 'x' OR list IS NULL",
        "ANYCASE(body) = 'x'",
        "price >> 3",
    ],
)
def test_what_mail_has_and_what_cannot_be_read_is_not_told(tmp_path: Path, text: str) -> None:
    assert _told(tmp_path, text, "mbox") == []


def test_json_lines_may_have_any_name_but_one_that_is_nearly_a_part(tmp_path: Path) -> None:
    assert _told(tmp_path, "price > 10 AND Author = 'x'", "mbox", "jsonl") == []
    assert _told(tmp_path, "bdy = 'x'", "jsonl") == ["no adapter gives a property 'bdy'; did you mean body?"]
    assert _told(tmp_path, "price > 10") == []
