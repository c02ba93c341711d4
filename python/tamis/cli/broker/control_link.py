"""Asks a running broker through the control socket of its data directory, which only its owner may use."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tamis.errors import AccessError

ANSWER_S = 10.0
"""Maximum time for an answer."""


def rows(data: Path | None, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one of the broker's lists, such as ``queues``.

    Args:
        data: the data directory; None: that of ./tamis.toml, or tamis-data.
        kind: the name of the list.

    Raises:
        AccessError: no broker runs there, or its socket is another user's.
    """
    offset = 0
    while True:
        page = ask(data, {"op": kind, "offset": offset})
        yield from page["rows"]
        offset += len(page["rows"])
        if not page["rows"] or offset >= page["total_count"]:
            return


def ask(data: Path | None, request: dict[str, Any]) -> Any:
    """Return the broker's answer to a request.

    Args:
        data: the data directory; None: that of ./tamis.toml, or tamis-data.
        request: its operation as ``op``, and further keys.

    Raises:
        AccessError: no broker runs there, its socket is another user's, or it refuses the request.
    """
    from tamis.broker.config import BrokerConfig
    from tamis.broker.data_folder import CONTROL_SOCKET_NAME

    path = (BrokerConfig.load(None).data if data is None else data) / CONTROL_SOCKET_NAME
    try:
        with closing(socket.socket(socket.AF_UNIX)) as control:
            control.settimeout(ANSWER_S)
            control.connect(str(path))
            control.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(control.makefile("rb").readline())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AccessError(f"{path}: no running broker answers there: {reason}; give its --data") from error
    if not answer["ok"]:
        raise AccessError(f"{path}: {answer['error']}")
    return answer["result"]
