"""Decodes bytes of uncertain character sets: never an error, never a surrogate, in linear time.

Source: RFC 2047 (encoded words), and the labels that browsers read as their supersets (WHATWG Encoding)."""

from __future__ import annotations

import binascii
import codecs
import re
from typing import Final

from tamis.adapters.mail.transfer import decode_base64

_SUPERSETS: Final = {  # senders' programs mean the superset of the label
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "ks_c_5601-1987": "cp949",
    "euc-kr": "cp949",
    "shift_jis": "cp932",
    "x-sjis": "cp932",
    "iso-8859-8-i": "iso-8859-8",
    "unicode-1-1-utf-7": "utf-7",
    "tis-620": "cp874",
}
# The first three are not character sets, and decoding punycode takes quadratic time.
_REFUSED: Final = frozenset({"unicode_escape", "raw_unicode_escape", "undefined", "punycode", "idna"})
_WESTERN: Final = frozenset({"ascii", "iso8859-1", "cp1252"})
_DAMAGED_SHARE_MAX: Final = 0.05

# No part can contain the character that ends it, so that the search is linear in the value.
_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_FOLD = re.compile(r"\r?\n(?=[ \t])|[\r\n]+")
_META_CHARSET = re.compile(rb"<meta[^<>]{0,500}?charset\s*=\s*[\"']?([\w.:-]{1,60})", re.IGNORECASE)


def decode_bytes(data: bytes, charset: str | None, *, html: bool = False) -> str:
    """Decode bytes as declared, else as UTF-8, else as windows-1252.

    A few damaged characters do not change the character set: if at most one in twenty of the bytes beyond ASCII cannot
    be decoded as declared, those become U+FFFD.

    Args:
        data: the bytes.
        charset: the declared character set, by any name; None if none was declared.
        html: if nothing was declared, look for the character set in the first ``<meta>``.
    """
    if html and not charset and (match := _META_CHARSET.search(data, 0, 4096)):
        charset = match.group(1).decode("ascii", "replace")
    declared = _codec(charset)
    if data.isascii() and declared in (None, "utf-8", *_WESTERN):
        return data.decode("ascii")
    for name in (declared, "utf-8"):
        if name not in (None, "ascii") and (text := _strict(data, name)) is not None:
            return text
    return _damaged(data, declared) or _western(data)


def decode_header(value: str) -> str:
    """Decode the value of a header (folded, one character per byte) to text on one line."""
    text = (_FOLD.sub("", value) if "\n" in value or "\r" in value else value).strip()
    if not text.isascii():
        text = decode_bytes(text.encode("latin-1"), None)
    return _decode_words(text) if "=?" in text else text


def _codec(charset: str | None) -> str | None:
    """Return Python's name of a character set; None if it is unknown."""
    label = (charset or "").strip().strip("\"'").lower()
    try:
        codec = codecs.lookup(_SUPERSETS.get(label, label))
    except (LookupError, ValueError, UnicodeError):
        return None
    refused = codec.name in _REFUSED or not codec._is_text_encoding
    return None if refused else _SUPERSETS.get(codec.name, codec.name)


def _strict(data: bytes, codec: str) -> str | None:
    if codec == "iso8859-1":
        return _western(data)
    try:
        text = data.decode(codec)
    except (UnicodeError, ValueError):
        return None
    return _without_surrogates(text)


def _damaged(data: bytes, codec: str | None) -> str | None:
    """Decode as declared with U+FFFD for what cannot be read; None if that is too much."""
    if codec is None or codec in _WESTERN:
        return None
    try:
        text = data.decode(codec, "replace")
    except (UnicodeError, ValueError):
        return None
    beyond_ascii = len(data) - len(re.sub(rb"[\x80-\xff]+", b"", data))
    few = text.count("\N{REPLACEMENT CHARACTER}") <= beyond_ascii * _DAMAGED_SHARE_MAX
    return _without_surrogates(text) if few else None


def _western(data: bytes) -> str:
    """Decode windows-1252, which senders mean by Latin 1; its five gaps are Latin 1's control characters."""
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _without_surrogates(text: str) -> str:
    """Replace surrogates: UTF-7 and UTF-16 can encode half a character, which is not text."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_surrogate(text) else text


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _decode_words(text: str) -> str:
    """Decode RFC 2047's encoded words; white space between two is dropped, and a character may span both."""
    done: list[str] = []
    pending, pending_charset, end = b"", "", 0
    for word in _ENCODED_WORD.finditer(text):
        charset = word.group(1).partition("*")[0].lower()  # RFC 2231 adds the language after a star
        between = text[end : word.start()]
        if pending_charset and (between.strip() or charset != pending_charset):
            done.append(decode_bytes(pending, pending_charset))
            pending = b""
        if not (pending_charset and not between.strip()):
            done.append(between)
        pending, pending_charset, end = pending + _word_bytes(word), charset, word.end()
    if pending_charset:
        done.append(decode_bytes(pending, pending_charset))
    return _FOLD.sub(" ", "".join([*done, text[end:]]))


def _word_bytes(word: re.Match[str]) -> bytes:
    encoded = word.group(3).encode("utf-8", "replace")
    if word.group(2) in "qQ":
        return binascii.a2b_qp(encoded, header=True)
    return decode_base64(encoded)
