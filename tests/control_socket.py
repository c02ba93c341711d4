"""Asks a running broker over its control socket."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any


def ask(data: Path, op: str, **fields: object) -> Any:
    """Return the answer of the broker with the folder `data` to a request, which it must not refuse."""
    with closing(socket.socket(socket.AF_UNIX)) as control:
        control.settimeout(30)
        control.connect(str(data / "control.sock"))
        control.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
        answer = json.loads(control.makefile("rb").readline())
    assert answer["ok"], answer
    return answer["result"]
