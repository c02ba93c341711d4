from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis.cli import run
from tests.cli.conftest import Tamis
from tests.spark.test_stop import assert_all_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """\
[pipeline]
name = "events"

[queries]
file = "queries.txt"
deliveries = ["log"]

[[adapter]]
name = "inbox"
type = "jsonl"
path = "events"
topic = "events"
body_field = "body"

[[delivery]]
name = "log"
type = "jsonl"
path = "log.jsonl"
"""


@pytest.fixture
def pipeline(files: Path) -> Path:
    (files / "pipeline.toml").write_text(PIPELINE)
    (files / "events").mkdir()
    (files / "events" / "1.jsonl").write_text((files / "messages.jsonl").read_text())
    return files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "pipeline.toml: the configuration cannot be read: No such file"),
        ("[pipelin]\n", "pipeline.toml, line 1: unknown key 'pipelin'; did you mean 'pipeline'?"),
        ('[queries]\nfile = "nowhere.txt"\n', "nowhere.txt"),
        ('[queries]\nfile = "bad.txt"\n', "bad.txt, line 1"),
    ],
)
def test_a_mistake_is_one_message_before_spark_starts(tamis: Tamis, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bad.txt").write_text("one: price >> 3\n")
    if text is not None:
        (tmp_path / "pipeline.toml").write_text(text)
    done = tamis("run", "--once")
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stdout == ""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tamis", "run", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        start_new_session=True,
    )


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_service_matches_what_comes_takes_new_queries_and_ends_on_ctrl_c(tamis: Tamis, pipeline: Path) -> None:
    with start(pipeline, "--json") as process:
        assert process.stdout is not None

        def wait_for(name: str, least: int) -> None:
            for line in process.stdout:
                event = json.loads(line)
                if event.get(name, 0) >= least:
                    return
            raise AssertionError(f"ended before {name} reached {least}")

        wait_for("read", 3)
        assert tamis("query", "add", "cheap", "price < 1").returncode == 0
        (pipeline / "events" / "2.jsonl").write_text('{"price": 0.5}\n')
        wait_for("read", 4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert_all_ended(process.pid)
    summary = json.loads(out.splitlines()[-1])
    assert (summary["event"], summary["read"], summary["matched"], summary["stopped_by"]) == ("summary", 4, 3, "SIGINT")
    assert summary["by_query"] == {"james": 1, "expensive": 1, "frost": 1, "cheap": 1}


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_once_ends_by_itself_with_a_summary(
    pipeline: Path, lasting_spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["run", str(pipeline / "pipeline.toml"), "--once"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert out == ""
    assert "done: 3 read = 2 matched + 1 not matched + 0 dead letters" in err
    assert "3 new notifications, 3 deliveries made" in err
    assert len((pipeline / "log.jsonl").read_text().splitlines()) == 3
