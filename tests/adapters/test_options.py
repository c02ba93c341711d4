from __future__ import annotations

from pathlib import Path

import pytest

from tamis.adapters.options import MailOptions
from tamis.adapters.sources.jsonl import JsonlOptions
from tamis.errors import AdapterError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no path"),
        ({"path": "x", "stop_word": "a"}, "unknown option 'stop_word'; did you mean 'stop_words'?"),
        ({"path": "x", "zzz": "a"}, "expected one of topic, stop_words"),
        ({"path": "x", "body_field": "a"}, "unknown option 'body_field'"),
        ({"path": "x", "max_messages": "0"}, "at least 1, not '0'"),
        ({"path": "x", "max_messages": "many"}, "not 'many'"),
        ({"path": "x", "settle_ms": "-1"}, "at least 0"),
    ],
)
def test_a_wrong_option_is_refused_with_what_was_expected(given: dict[str, str], said: str) -> None:
    with pytest.raises(AdapterError, match=".*") as error:
        MailOptions.of(given)
    assert said in str(error.value)


def test_names_count_without_regard_to_case_and_paths_are_absolute() -> None:
    options = JsonlOptions.of({"Path": "mail/", "MAX_MESSAGES": "5", "Body_Field": "b"})
    assert options == JsonlOptions(path=str(Path.cwd() / "mail"), max_messages=5, body_field="b")
    assert MailOptions.of({"path": "file:///mail"}).path == "/mail"
