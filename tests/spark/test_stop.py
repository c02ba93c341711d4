"""SIGTERM, to the process or its group, ends a service cleanly: without a traceback or a remaining process.

tests/cli/test_run.py ends one with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.processes import kill_group, kill_part

from .test_pipeline import write_lines

pytestmark = pytest.mark.spark

SERVICE = """
import sys
from tamis.spark import run_pipeline

def say(progress):
    print(progress.read, flush=True)

print(run_pipeline(sys.argv[1], progress=say).stopped_by)
"""

PIPELINE = """\
[[adapter]]
name = "lines"
type = "jsonl"
path = "in.jsonl"
"""


def start(folder: Path) -> subprocess.Popen[str]:
    write_lines(folder / "in.jsonl", range(10))
    toml = folder / "pipeline.toml"
    toml.write_text(PIPELINE)
    return subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(toml)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def members(session_id: int) -> list[str]:
    """Return the running processes of a session, without zombies."""
    listed = subprocess.run(
        ["ps", "-o", "stat=,args=", "--sid", str(session_id)], capture_output=True, text=True, check=False
    )
    return [line for line in listed.stdout.splitlines() if not line.startswith("Z")]


def assert_all_ended(session_id: int) -> None:
    """Check that no process of a session is left, soon after its leader has ended."""
    deadline = time.monotonic() + 5
    while (left := members(session_id)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


@pytest.mark.parametrize("to", ["process", "group"])
def test_sigterm_while_spark_works_ends_a_service_cleanly(to: str, tmp_path: Path) -> None:
    service = start(tmp_path)
    assert service.stdout is not None
    try:
        service.stdout.readline()  # of the first report, before any message is read
        if to == "process":
            service.send_signal(signal.SIGTERM)
        else:  # as a service manager, or a terminal, does it
            os.killpg(service.pid, signal.SIGTERM)
        output, errors = service.communicate(timeout=60)
    finally:
        kill_group(service)
    assert (service.returncode, errors) == (0, "")
    assert output.splitlines()[-1] == "SIGTERM"
    assert_all_ended(service.pid)


def test_a_killed_java_process_is_one_sentence(tmp_path: Path) -> None:
    service = start(tmp_path)
    assert service.stdout is not None
    try:
        service.stdout.readline()
        assert kill_part(service, "java")
        _, errors = service.communicate(timeout=60)
    finally:
        kill_group(service)
    assert service.returncode == 1
    assert "TamisError: Spark's Java process has ended, killed or short of memory; start the pipeline again" in errors
    assert_all_ended(service.pid)
