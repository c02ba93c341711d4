"""Files of queries are read from lines and TOML, and mistakes in them are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

import tamis
from tamis.errors import ConfigError
from tamis.query import LANGUAGES, compile_query, load_queries


def test_lines_are_key_and_selector(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("# ours\n\nbig: price > 100\nfrost : NEAR(body, 'garlic', 'frost', 5)\n")
    specs = load_queries(file)
    assert [(spec.key, spec.line) for spec in specs] == [("big", 3), ("frost", 4)]
    assert specs[0].compile() == tamis.selector("price > 100")


def test_toml_has_language_owner_tags_and_deliveries(tmp_path: Path) -> None:
    file = tmp_path / "queries.toml"
    file.write_text(
        '[[query]]\nkey = "a"\ntext = "forex.*"\nlanguage = "topic:openamq"\nowner = "ann"\ntags = ["x"]\n'
        'deliveries = ["mail"]\n[[query]]\nkey = "b"\ntext = "a = 1"\n'
    )
    first, second = load_queries(file)
    assert (first.owner, first.tags, first.deliveries, first.line) == ("ann", ("x",), ("mail",), 3)
    assert first.compile() == tamis.topic("forex.*", dialect="openamq")
    assert second.line == 10


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("cbm", "Body LIKE %garlic%", tamis.selector("Body LIKE %garlic%", dialect="cbm")),
        ("boolean", "a == b", tamis.boolean("a == b")),
        ("topic", "a.#", tamis.topic("a.#")),
        ("prefix", "forex.", tamis.prefix("forex.")),
        ("prefix", "subject:Re", tamis.prefix("Re", on="subject")),
        ("regex", "body:(?i)x", tamis.regex("(?i)x", on="body")),
        ("text", "exact phrase", tamis.text("exact phrase")),
        ("near", "a b", tamis.near("a", "b", 5)),
        ("near", "a b 3", tamis.near("a", "b", 3)),
        ("fields", "currency=USD, urgent", tamis.fields({"currency": "USD", "urgent": tamis.ANY})),
        ("fields", "any: n=5, b=true", tamis.fields({"n": 5, "b": True}, require="any")),
        ("fields", "q='5'", tamis.fields({"q": "5"})),
    ],
)
def test_every_language_has_a_text(language: str, text: str, expected: tamis.Query) -> None:
    assert language in LANGUAGES
    assert compile_query(text, language) == expected


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("q.txt", "no colon here\n", "line 1: expected `key: selector text`"),
        ("q.txt", "a: x = 1\na: x = 2\n", "line 2: the key 'a' is already on line 1"),
        ("q.toml", '[[query]]\nkey = "a"\ntxt = "x"\n', "line 3: unknown name 'txt'; did you mean 'text'?"),
        ("q.toml", '[[querys]]\nkey = "a"\n', "unknown name 'querys'; did you mean 'query'?"),
        (
            "q.toml",
            '[[query]]\nkey = "a"\ntext = "x"\nlanguage = "booleen"\n',
            "line 4: unknown language 'booleen'; did you mean 'boolean'?",
        ),
        ("q.toml", '[[query]]\nkey = 1\ntext = "x"\n', "line 2: expected text for 'key'"),
        ("q.toml", '[[query]]\nkey = "a"\ntext = "x"\ntags = "x"\n', "line 4: expected a list of texts for 'tags'"),
        (
            "q.toml",
            '[[query]]\nkey = "a"\ntext = "x"\n[[query]]\ntext = "y"\nkey = "a"\n',
            "line 6: the key 'a' is already on line 2",
        ),
        (
            "q.toml",
            '[[hierarchy]]\nattribute = "g"\nparents = {a = "b"}\n',
            "line 3: 'a': its parent 'b' is not a value",
        ),
        ("q.toml", '[[hierarchy]]\nattribute = "g"\n', "line 1: expected either 'parents' or 'file'"),
        ("q.toml", "[[hierarchy]]\nattribute = 5\nparents = {}\n", "line 2: expected 'attribute'"),
        (
            "q.toml",
            '[[hierarchy]]\nattribute = "g"\nparent = {}\n',
            "line 3: unknown name 'parent'; did you mean 'parents'?",
        ),
        (
            "q.toml",
            '[[hierarchy]]\nattribute = "g"\nfile = "nowhere.json"\n',
            "line 3: ",
        ),
        ("q.toml", "[[query]\n", "line 1"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, name: str, content: str, words: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_queries(tmp_path / name)
    assert words in str(caught.value)
    assert name in str(caught.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_queries(tmp_path / "missing.txt")
    (tmp_path / "binary.txt").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_queries(tmp_path / "binary.txt")
