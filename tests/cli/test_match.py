from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Tamis


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("files")
def test_matches_come_as_json_lines_with_line_number_keys_and_message(tamis: Tamis) -> None:
    done = tamis("match", "queries.txt", "messages.jsonl")
    assert done.returncode == 0
    assert lines(done.stdout) == [
        {"line": 1, "keys": ["james", "expensive"], "message": {"author": "James", "source": "CNN", "price": 120}},
        {"line": 2, "keys": ["frost"], "message": {"author": "Jane", "body": "Cover the garlic: frost tonight."}},
    ]
    assert done.stderr.startswith("2 of 3 messages matched 3 of 3 queries")


@pytest.mark.usefixtures("files")
def test_stdin_is_read_when_no_file_is_named_and_for_a_dash(tamis: Tamis) -> None:
    for arguments in (["match", "queries.txt"], ["match", "queries.txt", "-"]):
        done = tamis(*arguments, stdin='{"price": 101}\n{"price": 99}\n')
        assert done.returncode == 0
        assert [found["line"] for found in lines(done.stdout)] == [1]


@pytest.mark.usefixtures("files")
def test_the_exit_code_is_that_of_grep(tamis: Tamis) -> None:
    assert tamis("match", "queries.txt", stdin='{"price": 101}').returncode == 0
    assert tamis("match", "queries.txt", stdin='{"price": 99}').returncode == 1
    assert tamis("match", "queries.txt", stdin="").returncode == 1
    assert tamis("match", "queries.txt", stdin='{"price": 101}\nno json\n').returncode == 2
    assert tamis("match", "nowhere.txt", stdin="{}").returncode == 2
    assert tamis("match", "queries.txt", "nowhere.jsonl").returncode == 2


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "bad",
    ["no json", "[1, 2]", "null", '{"price": 99999999999999999999}', '{"a":' * 2000 + "1" + "}" * 2000, "[" * 100_000],
    ids=["text", "list", "null", "beyond 64 bits", "too deep", "brackets"],
)
def test_a_bad_line_is_named_and_the_others_are_matched(tamis: Tamis, bad: str) -> None:
    done = tamis("match", "queries.txt", stdin=f'{bad}\n{{"price": 101}}\n')
    assert done.returncode == 2
    assert [found["line"] for found in lines(done.stdout)] == [2]
    assert "error: stdin, line 1: not a message: " in done.stderr
    assert "1 could not be read" in done.stderr


@pytest.mark.usefixtures("files")
def test_only_the_first_bad_lines_are_explained(tamis: Tamis) -> None:
    done = tamis("match", "queries.txt", stdin="x\n" * 500)
    assert done.stderr.count("error:") == 10
    assert "500 could not be read" in done.stderr


@pytest.mark.usefixtures("files")
def test_the_topic_and_the_text_come_from_fields_or_from_an_option(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "topics.toml").write_text('[[query]]\nkey = "t"\nlanguage = "topic"\ntext = "news.*"\n')
    message = '{"topic": "news.world", "channel": "news.sport"}'
    assert tamis("match", "topics.toml", stdin=message).returncode == 0
    assert tamis("match", "topics.toml", "--topic-field", "channel", stdin=message).returncode == 0
    assert tamis("match", "topics.toml", "--topic-field", "none", stdin=message).returncode == 1
    assert tamis("match", "topics.toml", "--topic", "news.x", stdin="{}").returncode == 0
    frost = '{"text": "garlic and frost"}'
    assert tamis("match", "queries.txt", stdin=frost).returncode == 1
    assert tamis("match", "queries.txt", "--body-field", "text", stdin=frost).returncode == 0


@pytest.mark.usefixtures("files")
def test_count_prints_a_number_and_json_every_query(tamis: Tamis) -> None:
    assert tamis("match", "queries.txt", "messages.jsonl", "--count").stdout == "2\n"
    done = tamis("match", "queries.txt", "messages.jsonl", "--count", "--json")
    assert json.loads(done.stdout) == {
        "read": 3,
        "matched": 2,
        "bad": 0,
        "keys": {"james": 1, "expensive": 1, "frost": 1},
    }
    assert json.loads(done.stderr)["queries"] == 3


@pytest.mark.usefixtures("files")
def test_limit_stops_early(tamis: Tamis) -> None:
    done = tamis("match", "queries.txt", "messages.jsonl", "--limit", "1")
    assert [found["line"] for found in lines(done.stdout)] == [1]
    assert "1 of 1 message " in done.stderr


def test_every_query_with_an_error_is_named_with_a_caret(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("one: price >> 3\ntwo: a = 1\nthree: (b = 2\n")
    done = tamis("match", "bad.txt", stdin="{}")
    assert done.returncode == 2
    assert "bad.txt, line 1, query 'one': expected" in done.stderr
    assert "bad.txt, line 3, query 'three': expected" in done.stderr
    assert "  price >> 3\n         ^" in done.stderr
    assert "two" not in done.stderr


@pytest.mark.usefixtures("files")
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    script = """yes '{"price": 200}' | "$0" -m tamis match queries.txt | head -1; exit ${PIPESTATUS[1]}"""
    done = subprocess.run(
        ["bash", "-c", script, sys.executable], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 141
    assert [found["keys"] for found in lines(done.stdout)] == [["expensive"]]
    assert done.stderr == ""


@pytest.mark.usefixtures("files")
def test_a_full_disk_under_stdout_is_one_message(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tamis", "match", "queries.txt", "messages.jsonl"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: No space left on device")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.usefixtures("files")
def test_it_starts_without_loading_what_takes_long_to_load(tmp_path: Path) -> None:
    program = (
        "import sys; from tamis.cli import run; code = run(sys.argv[1:])\n"
        "heavy = {'rich', 'pyspark', 'sqlalchemy', 'pyarrow', 'pandas', 'alembic'} & set(sys.modules)\n"
        "print(code, sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "match", "queries.txt", "messages.jsonl"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "0 []"


@pytest.mark.usefixtures("files")
def test_data_is_utf_8_and_valid_json_whatever_the_terminal_speaks(tamis: Tamis) -> None:
    done = tamis(
        "match", "queries.txt", stdin='{"price": 101, "a": "\u20ac\\u20ac"}', PYTHONIOENCODING="latin-1:strict"
    )
    assert done.returncode == 0
    assert lines(done.stdout)[0]["message"] == {"price": 101, "a": "\u20ac\u20ac"}


@pytest.mark.usefixtures("files")
def test_colours_are_for_terminals(tamis: Tamis) -> None:
    assert "\x1b[" not in tamis("match", "nowhere.txt", NO_COLOR="").stderr


def test_no_arguments_is_help_and_a_typo_is_answered_with_the_nearest_command(tamis: Tamis) -> None:
    done = tamis("mtch")
    assert done.returncode == 2
    assert "Did you mean 'match'?" in done.stderr
    done = tamis()
    assert done.returncode == 2
    assert "Commands" in done.stdout + done.stderr
    assert tamis("--version").stdout.startswith("tamis ")
    assert tamis("match", "--help").returncode == 0


def test_a_line_that_was_printed_is_matched_and_explained_by_its_time(tamis: Tamis, tmp_path: Path) -> None:
    query = "timestamp > TIMESTAMP '2026-01-01T00:00:00Z' AND day >= DATE '2026-01-31'"
    (tmp_path / "times.txt").write_text(f"recent: {query}\n")
    line = '{"topic": "orders.eu", "timestamp": "2026-01-31T13:00:00+01:00", "day": "2026-01-31"}'
    done = tamis("match", "times.txt", stdin=line)
    assert (done.returncode, lines(done.stdout)[0]["keys"]) == (0, ["recent"])
    again = tamis("match", "times.txt", stdin=json.dumps(lines(done.stdout)[0]["message"]))
    assert again.stdout == done.stdout
    assert "recent: yes" in tamis("explain", "times.txt", "--key", "recent", "--message", line).stdout


def test_the_parts_of_a_line_are_properties_too_in_double_quotes(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "record.txt").write_text("part: TOPIC('a.*')\nkey: \"topic\" = 'a.b'\nbody: \"body\" LIKE '%x%'\n")
    done = tamis("match", "record.txt", stdin='{"topic": "a.b", "body": "an x"}')
    assert lines(done.stdout)[0]["keys"] == ["part", "key", "body"]


def test_a_query_that_can_hardly_be_meant_is_warned_about(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_text("odd: price > '5'\n")
    done = tamis("match", "odd.txt", stdin='{"price": 6}')
    assert done.returncode == 1
    assert done.stderr.startswith("warning: '5' in quotes is a text")
