"""The page of the commands is what the commands say."""

from __future__ import annotations

from tamis.cli.app import COMMANDS
from tools.commands import DOCUMENT, page


def test_the_page_of_the_commands_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == page(), "run `make commands`"


def test_every_command_has_a_chapter() -> None:
    chapters = [line.split() for line in page().splitlines() if line.startswith("## ")]
    assert {words[2] for words in chapters} == set(COMMANDS)
