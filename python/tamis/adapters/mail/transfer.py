"""Decodes MIME's content transfer encodings as far as possible: never an error, in linear time.

Source: RFC 2045, section 6; uuencode as POSIX has it."""

from __future__ import annotations

import binascii
import re

_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]+")
_PADDED = re.compile(rb"([^=]+)(=*)")
_BASE64_WORD = re.compile(rb"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2,3}=+)?")
_UNLIKE_BASE64 = re.compile(rb"^[ \t]*+(?:[^\sA-Za-z0-9+/=]++[ \t\r]*+$|\S++[ \t]++\S.*+$)", re.MULTILINE)
_UU_NAMES = ("x-uuencode", "uuencode", "x-uue", "uue")
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
        return decode_base64(_without_footer(content))
    if name in _UU_NAMES:
        return decode_uu(content)
    return content


def is_encoded(encoding: str) -> bool:
    """Return whether `decode_transfer` changes content of this encoding."""
    return encoding.strip().lower() in ("quoted-printable", "base64", *_UU_NAMES)


def decode_base64(content: bytes) -> bytes:
    """Decode base64 that may be cut anywhere, have other characters between, or consist of several padded pieces.

    What follows padding counts only if it is whole, since it is rather other text than more base64.
    """
    pieces = _PADDED.findall(_NOT_BASE64.sub(b"", content))
    return b"".join(
        _base64_piece(letters)
        for index, (letters, padding) in enumerate(pieces)
        if index == 0 or padding or len(letters) % 4 == 0
    )


def decode_uu(content: bytes) -> bytes:
    """Decode the lines between ``begin`` and ``end``; lines that cannot be decoded are left out."""
    begin = _UU_BEGIN.search(content)
    if not begin:
        return content
    return b"".join(map(_uu_line, content[begin.end() :].partition(b"\nend")[0].splitlines()))


def _without_footer(content: bytes) -> bytes:
    """Return base64 without the text that mailing lists append: from the first line of signs, or of several words."""
    for line in _UNLIKE_BASE64.finditer(content):
        words = line.group().split()
        is_plain = len(words) == 1 or not all(map(_BASE64_WORD.fullmatch, words))
        if is_plain:
            before = content[: line.start()]
            return before if before.strip() else content
    return content


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
