"""Reads one document after another in a process of its own, which is all that a damaged file can stop.

The parent writes two frames for each document: a JSON object with its name, and its bytes. The answer is a frame with a
JSON object: ``title``, ``author`` and ``text``, or ``error``. A frame is four bytes with its length, and that much."""

from __future__ import annotations

import importlib
import json
import os
import select
import struct
import subprocess
import sys
import time
from typing import IO, Any, Final

MEMORY_BYTES_MAX: Final = 4 << 30
TEXT_CHARACTERS_MAX: Final = 32 << 20
MIME_TYPES: Final = {
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".rtf": "application/rtf",
}
"""The documents that are read, by the end of their name."""

_LENGTH: Final = struct.Struct("<I")
_START_S: Final = 30.0


class OfficeReader:
    """Reads documents in a process of its own, which is started when it is needed.

    Args:
        timeout_s: maximum time for one document; after that the process is ended.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, name: str, raw: bytes) -> dict[str, Any]:
        """Return the ``title``, ``author`` and ``text`` of a document, or the ``error``.

        Args:
            name: the name of the file; its suffix says what it is.
            raw: its bytes.
        """
        if os.path.splitext(name)[1].lower() not in MIME_TYPES:  # noqa: PTH122
            return {"error": f"the name does not say what it is: expected one that ends in {', '.join(MIME_TYPES)}"}
        try:
            process = self._process or self._start()
            return self._ask(process, name, raw)
        except TimeoutError:
            reason = f"reading it takes more than {self._timeout_s:g} s (timeout_s)"
        except (OSError, EOFError, ValueError):
            reason = "reading it ended the process that reads documents"
        self.close()
        return {"error": f"the document cannot be read: {reason}"}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", __name__]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment
        )
        os.set_blocking(process.stdin.fileno(), False)  # type: ignore[union-attr]
        _take(process, time.monotonic() + _START_S)  # the process's first frame: it has started
        return process

    def _ask(self, process: subprocess.Popen[bytes], name: str, raw: bytes) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout_s
        head = json.dumps({"name": name}).encode()
        frame = memoryview(_LENGTH.pack(len(head)) + head + _LENGTH.pack(len(raw)) + raw)
        while frame:
            _wait(None, process.stdin, deadline)
            frame = frame[os.write(process.stdin.fileno(), frame[: 1 << 16]) :]  # type: ignore[union-attr]
        answer: dict[str, Any] = json.loads(_take(process, deadline))
        return answer


def _wait(readable: IO[bytes] | None, writable: IO[bytes] | None, deadline: float) -> None:
    left = deadline - time.monotonic()
    ready = select.select([readable] if readable else [], [writable] if writable else [], [], max(0.0, left))
    if left <= 0 or not (ready[0] or ready[1]):
        raise TimeoutError


def _take(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return the next frame of the process."""
    output, wanted, taken = process.stdout, _LENGTH.size, bytearray()
    while len(taken) < wanted:
        _wait(output, None, deadline)
        part = os.read(output.fileno(), 1 << 20)  # type: ignore[union-attr]
        if not part:
            raise EOFError
        taken += part
        if wanted == _LENGTH.size and len(taken) >= wanted:
            wanted += _LENGTH.unpack_from(taken)[0]
    return bytes(taken[_LENGTH.size :])


def _serve() -> None:
    """Answer each frame, until there are no more."""
    _limit_memory()
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints is not an answer
    _give(answers, {})
    while len(length := requests.read(_LENGTH.size)) == _LENGTH.size:
        head = json.loads(requests.read(*_LENGTH.unpack(length)))
        raw = requests.read(*_LENGTH.unpack(requests.read(_LENGTH.size)))
        _give(answers, _extract(head["name"], raw))


def _give(answers: IO[bytes], answer: dict[str, Any]) -> None:
    frame = json.dumps(answer).encode()
    answers.write(_LENGTH.pack(len(frame)) + frame)
    answers.flush()


def _extract(name: str, raw: bytes) -> dict[str, Any]:
    kreuzberg: Any = importlib.import_module("kreuzberg")  # its types lack options that it has
    config = kreuzberg.ExtractionConfig(use_cache=False, disable_ocr=True)
    mime_type = MIME_TYPES[os.path.splitext(name)[1].lower()]  # noqa: PTH122
    try:
        result = kreuzberg.extract_bytes_sync(raw, mime_type, config)
    except Exception as error:  # noqa: BLE001 - a library of many formats fails in many ways
        return {"error": f"the document cannot be read: {str(error)[:300]}"}
    if len(result.content) > TEXT_CHARACTERS_MAX:
        found = f"{len(result.content):,} characters"
        return {"error": f"the document has {found} of text; at most {TEXT_CHARACTERS_MAX:,} are read"}
    known = result.metadata
    core = known.get("core_properties") or {}
    authors = known.get("authors") or [core.get("creator")]
    title = known.get("title") or core.get("title")
    return {"title": title, "author": ", ".join(one for one in authors if one) or None, "text": result.content}


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


if __name__ == "__main__":
    _serve()
