"""The files that a broker may have open are shared out between connections and streams."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tamis.broker.system import FILES_KEPT_FREE

PROGRAM = """
import resource, sys
from tamis.broker import system
limit, *asked = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 256), limit))
print(*system.allow_files(*asked), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("limit", "asked", "allowed"),
    [
        pytest.param(1_000, (300, 100), (300, 100), id="enough"),
        pytest.param(616, (300, 100), (174, 58), id="a quarter for streams"),
        pytest.param(616, (50, 400), (50, 182), id="what connections leave"),
        pytest.param(616, (300, 10), (222, 10), id="no more than asked"),
        pytest.param(616, (300, 100, 200), (32, 200), id="those that exist"),
        pytest.param(616, (300,), (232, 0), id="no streams"),
        pytest.param(300, (300, 100), (1, 0), id="hardly any"),
    ],
)
def test_connections_and_streams_share_the_files(limit: int, asked: tuple[int, ...], allowed: tuple[int, int]) -> None:
    command = [sys.executable, "-c", PROGRAM, str(limit), *map(str, asked)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    connections, streams, soft = map(int, said.split())
    assert (connections, streams) == allowed
    wanted = asked[0] + max(asked[1:], default=0) + FILES_KEPT_FREE
    assert soft == min(limit, wanted)
