"""Decodes MIME's content transfer encodings as far as possible: never an error, in linear time.

Source: RFC 2045, section 6; uuencode as POSIX has it."""

from __future__ import annotations

import binascii
import re

_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]+")
_UU_BEGIN = re.compile(rb"^begin [0-7]{3,4} .*$", re.MULTILINE)


def decode_transfer(content: bytes, encoding: str) -> bytes:
    """Decode the content; an unknown encoding counts as none.

    Args:
        content: the encoded bytes.
        encoding: the value of Content-Transfer-Encoding.
    """
    name = encoding.strip().lower()
    if name == "quoted-printable":
        return binascii.a2b_qp(content)
    if name == "base64":
        return decode_base64(content)
    if name in ("x-uuencode", "uuencode", "x-uue", "uue"):
        return decode_uu(content)
    return content


def decode_base64(content: bytes) -> bytes:
    """Decode base64 that may be cut anywhere, have other characters between, or consist of several padded pieces."""
    return b"".join(_base64_piece(piece) for piece in _NOT_BASE64.sub(b"", content).split(b"=") if piece)


def decode_uu(content: bytes) -> bytes:
    """Decode the lines between ``begin`` and ``end``; lines that cannot be decoded are left out."""
    begin = _UU_BEGIN.search(content)
    if not begin:
        return content
    return b"".join(map(_uu_line, content[begin.end() :].partition(b"\nend")[0].splitlines()))


def _base64_piece(letters: bytes) -> bytes:
    if len(letters) % 4 == 1:
        letters = letters[:-1]  # six bits are not a byte
    return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))


def _uu_line(line: bytes) -> bytes:
    if not line:
        return b""
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:
        pass
    try:  # some encoders write more than the count in the first character says
        return binascii.a2b_uu(line[: ((line[0] - 32) & 63) * 4 // 3 + 2])
    except binascii.Error:
        return b""
