"""Encodes keys of subscriptions as bytes for snapshots: str, int, bytes, and tuples of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeVar

from tamis.errors import SnapshotError, short

if TYPE_CHECKING:
    import typing_extensions

    # The default makes `Engine()` an `Engine[Any]` for type checkers; at run time it would need Python 3.13.
    K = typing_extensions.TypeVar("K", bound=Hashable, default=Any)
else:
    K = TypeVar("K", bound=Hashable)
"""The type of an engine's keys."""

_DEPTH_MAX = 32


def unhashable(key: object, error: TypeError) -> TypeError:
    """Return the error for a key that no dict takes."""
    return TypeError(f"key {short(key)}: {error}; expected a key that can be hashed, as in a dict")


def encode_key(key: Hashable) -> bytes:
    """Encode `key` as a tag and its content; ``decode_key`` restores it with its type.

    Raises:
        TypeError: the key is not str, int, bytes or a tuple of them; the text names it.
    """
    return _encode(key, key, 0)


def _encode(part: Hashable, key: Hashable, depth: int) -> bytes:
    if isinstance(part, bool):
        return b"T" if part else b"F"
    if isinstance(part, str):
        return b"s" + part.encode("utf-8", "surrogatepass")
    if isinstance(part, int):
        return b"i" + format(part, "x").encode()  # decimal text is slow, and bounded, for huge integers
    if isinstance(part, bytes):
        return b"b" + part
    if isinstance(part, tuple) and depth < _DEPTH_MAX:
        items = [_encode(item, key, depth + 1) for item in part]
        return b"t" + b"".join(len(item).to_bytes(4, "little") + item for item in items)
    raise TypeError(f"key {key!r}: a snapshot keeps keys that are str, int, bytes or tuples of them")


def decode_key(encoded: bytes) -> Any:
    """Decode a key that `encode_key` encoded.

    Raises:
        SnapshotError: `encode_key` did not write these bytes.
    """
    try:
        return _decode(encoded, 0)
    except (ValueError, IndexError) as error:
        raise SnapshotError(f"the snapshot is damaged: a key cannot be read ({error})") from error


def _decode(encoded: bytes, depth: int) -> Hashable:
    tag, content = encoded[:1], encoded[1:]
    if tag in (b"T", b"F"):
        return tag == b"T"
    if tag == b"s":
        return content.decode("utf-8", "surrogatepass")
    if tag == b"i":
        return int(content, 16)
    if tag == b"b":
        return content
    if tag != b"t" or depth > _DEPTH_MAX:
        raise ValueError(f"unknown tag {tag!r}")
    items = []
    while content:
        size_bytes = int.from_bytes(content[:4], "little")
        if len(content) < 4 + size_bytes:
            raise ValueError("a tuple ends early")
        items.append(_decode(content[4 : 4 + size_bytes], depth + 1))
        content = content[4 + size_bytes :]
    return tuple(items)
