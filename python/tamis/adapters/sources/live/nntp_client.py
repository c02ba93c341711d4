"""Speaks NNTP as a reader: one connection, blocking, with a bound on the time and the size of every answer.

Source: RFC 3977 (NNTP), RFC 4642 (STARTTLS), RFC 4643 (AUTHINFO)."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

LINE_BYTES_MAX: Final = 4_096
READ_BYTES: Final = 64 << 10
PIPELINED: Final = 20
NUMBERS_MAX: Final = 100_000
_GREETINGS: Final = (200, 201)
_NO_SUCH_ARTICLE: Final = (420, 423, 430)
_NO_LIST: Final = (500, 501, 502, 503)


class NntpError(Exception):
    """The server refused, or said what RFC 3977 does not allow; the connection cannot be used further."""


@dataclass(frozen=True, slots=True)
class Group:
    """The answer of a server about a newsgroup.

    Attributes:
        count: about how many articles it has.
        low: the lowest number that it still has.
        high: the highest number.
    """

    count: int
    low: int
    high: int


class Article(NamedTuple):
    """An article.

    Attributes:
        message_id: its Message-ID, as the server says it; empty if it does not.
        content: its bytes; of one that is too large the beginning.
        size_bytes: its size.
    """

    message_id: str
    content: bytes
    size_bytes: int


class NntpClient:
    """A connection to a news server.

    Args:
        host: the server.
        port: its port.
        context: the settings of TLS; None: no TLS.
        starttls: whether TLS begins with a command instead of the first byte.
        timeout_s: the time limit for each whole answer.

    Raises:
        NntpError: the server does not let us in.
        OSError: there is no connection.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None, starttls: bool, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._buffer = bytearray()
        self._socket: socket.socket = socket.create_connection((host, port), timeout_s)
        try:
            if context is not None and not starttls:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            self._until = time.monotonic() + timeout_s
            self._expect(*self._status(), _GREETINGS)
            if context is not None and starttls:
                self._ask("STARTTLS", (382,))
                if self._buffer:  # RFC 4642: what came before TLS must not count
                    raise NntpError("the server said something between STARTTLS and TLS")
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """End the connection."""
        try:
            self._socket.sendall(b"QUIT\r\n")
        except OSError:
            pass
        finally:
            self._socket.close()

    def log_in(self, user: str, password: str) -> None:
        """Log in.

        Raises:
            NntpError: the server refuses.
        """
        code, _ = self._ask(f"AUTHINFO USER {user}", (281, 381))
        if code == 381:
            self._ask(f"AUTHINFO PASS {password}", (281,), shown="AUTHINFO PASS")

    def be_reader(self) -> None:
        """Tell a server that also takes articles that we want to read (RFC 3977, section 5.3)."""
        self._ask("MODE READER", (*_GREETINGS, 500, 501, 502))

    def group(self, name: str) -> Group:
        """Select a newsgroup.

        Raises:
            NntpError: there is no such group.
        """
        _, text = self._ask(f"GROUP {name}", (211,))
        try:
            count, low, high = map(int, text.split()[:3])
        except ValueError as error:
            raise NntpError(f"GROUP {name}: expected three numbers, not '{text}'") from error
        return Group(count, low, high)

    def numbers(self, name: str, first: int, last: int) -> list[int]:
        """Return the numbers of the articles of a group in ``first <= number <= last``, ascending.

        A server that cannot list them makes us ask for each.
        """
        code, _ = self._ask(f"LISTGROUP {name} {first}-{last}", (211, *_NO_LIST))
        if code != 211:
            return list(range(first, min(last, first + NUMBERS_MAX - 1) + 1))
        found = {int(line) for line in self._lines() if line.strip().isdigit()}
        return sorted(number for number in found if first <= number <= last)

    def articles(self, numbers: list[int], kept_bytes: int, size_bytes_max: int) -> Iterator[Article]:
        """Yield the articles of the selected group with these numbers, without those that are gone.

        Args:
            numbers: ascending; several are asked for at once.
            kept_bytes: how much of one that is too large is kept.
            size_bytes_max: the maximum size of one.
        """
        for at in range(0, len(numbers), PIPELINED):
            some = numbers[at : at + PIPELINED]
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall("".join(f"ARTICLE {number}\r\n" for number in some).encode())
            for _ in some:
                self._until = time.monotonic() + self._timeout_s
                code, text = self._status()
                if code in _NO_SUCH_ARTICLE:
                    continue
                self._expect(code, text, (220,))
                words = text.split()
                named = words[1] if len(words) > 1 and words[1] not in ("<0>", "0") else ""
                content, size_bytes = self._block(kept_bytes, size_bytes_max)
                yield Article(named, content, size_bytes)

    def _ask(self, command: str, expected: tuple[int, ...], *, shown: str | None = None) -> tuple[int, str]:
        if not command.isprintable():
            raise NntpError(f"{shown or ascii(command)}: a command must be one line")
        self._until = time.monotonic() + self._timeout_s
        self._socket.settimeout(self._timeout_s)
        self._socket.sendall(f"{command}\r\n".encode())
        return self._expect(*self._status(), expected, shown or command)

    def _expect(self, code: int, text: str, expected: tuple[int, ...], command: str = "") -> tuple[int, str]:
        if code not in expected:
            raise NntpError(f"{command}: {code} {text}".removeprefix(": "))
        return code, text

    def _status(self) -> tuple[int, str]:
        """Return the code and the text of the first line of an answer."""
        line = self._line(LINE_BYTES_MAX).decode("utf-8", "replace").rstrip("\r\n")
        if not line[:3].isdigit():
            raise NntpError(f"expected a code of three digits, not '{line[:100]}'")
        return int(line[:3]), line[4:]

    def _lines(self) -> Iterator[bytes]:
        while (line := self._line(LINE_BYTES_MAX)).rstrip(b"\r\n") != b".":
            yield line

    def _block(self, kept_bytes: int, size_bytes_max: int) -> tuple[bytes, int]:
        """Return the bytes of an article without the dots that the protocol adds, and their number."""
        content, size_bytes, begins = bytearray(), 0, True
        while True:
            line = self._line(READ_BYTES, cut=True)
            if begins and line.rstrip(b"\r\n") == b"." and line.endswith(b"\n"):
                break
            if begins and line.startswith(b".."):
                line = line[1:]
            begins = line.endswith(b"\n")
            size_bytes += len(line)
            if size_bytes <= size_bytes_max or len(content) < kept_bytes:
                content += line
        return bytes(content if size_bytes <= size_bytes_max else content[:kept_bytes]), size_bytes

    def _line(self, size_bytes_max: int, *, cut: bool = False) -> bytes:
        """Return the next line with its end; of a longer one an error, or with `cut` a part."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0 and len(self._buffer) < size_bytes_max:
            searched = len(self._buffer)
            self._receive()
        if end < 0 and not cut:
            raise NntpError(f"a line of more than {size_bytes_max:,} bytes")
        size_bytes = min(end + 1, size_bytes_max) if end >= 0 else size_bytes_max
        line = bytes(self._buffer[:size_bytes])
        del self._buffer[:size_bytes]
        return line

    def _receive(self) -> None:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no whole answer within {self._timeout_s:g} s")
        self._socket.settimeout(left_s)
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the server ended the connection")
        self._buffer += data
