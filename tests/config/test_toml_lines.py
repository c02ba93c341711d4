"""Every value of a TOML file gets its line."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tamis.config.toml_lines import TomlLocation, line_numbers

TEXT = '''# a comment
[pipeline]
name = "mail" # [not a header]

[[adapter]]
name = "a"
words = [
  "x",  # [y]
  "z",
]
text = """
[[adapter]]
name = "inside a text"
"""
[adapter.options]
"odd key" = 1
a.b = {c = [1, {d = 2}]}

  [[ adapter ]] # another
name = 'b'
[[adapter.parts]]
[[adapter.parts]]
x = 1
'''


def test_every_kind_of_statement_has_its_line() -> None:
    expected: dict[TomlLocation, int] = {
        ("pipeline",): 2,
        ("pipeline", "name"): 3,
        ("adapter",): 5,
        ("adapter", 0): 5,
        ("adapter", 0, "name"): 6,
        ("adapter", 0, "words"): 7,
        ("adapter", 0, "words", 1): 7,
        ("adapter", 0, "text"): 11,
        ("adapter", 0, "options"): 15,
        ("adapter", 0, "options", "odd key"): 16,
        ("adapter", 0, "options", "a", "b", "c", 1, "d"): 17,
        ("adapter", 1): 19,
        ("adapter", 1, "name"): 20,
        ("adapter", 1, "parts", 1, "x"): 23,
    }
    found = line_numbers(TEXT)
    assert {place: found.get(place) for place in expected} == expected


KEYS = st.sampled_from(["a", "b", '"c d"', "e-f"])
VALUES = st.sampled_from(["1", '"x"', "[1, [2]]", "{x = 1}", '"""\n[t]\nk = 1\n"""', "[\n1,\n]", "1979-05-27"])
STATEMENTS = st.one_of(
    st.builds("{} = {}".format, KEYS, VALUES),
    st.builds("[{}]".format, KEYS),
    st.builds("[[{}]]".format, KEYS),
    st.builds("[{}.{}]".format, KEYS, KEYS),
    st.sampled_from(["", "# [comment]"]),
)


@given(st.lists(STATEMENTS, max_size=12))
def test_every_value_of_a_valid_file_has_a_line(statements: list[str]) -> None:
    text = "\n".join(statements)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = line_numbers(text)
    for place in _places(document, ()):
        assert 1 <= found[place] <= text.count("\n") + 1


def _places(value: Any, place: TomlLocation) -> list[TomlLocation]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [inner for key, item in items for inner in ((*place, key), *_places(item, (*place, key)))]
