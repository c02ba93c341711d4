"""Lets pamqp, with which aio-pika writes, keep all digits of floating-point headers: by itself it keeps seven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pamqp import encode

_encode_value: Callable[[Any], bytes] = encode.encode_table_value


def _encode(value: Any) -> bytes:
    return b"d" + encode.double(value) if isinstance(value, float) else _encode_value(value)


def teach() -> None:
    """Let floats in headers be written with 64 bits in this process. Calling it again changes nothing."""
    encode.encode_table_value = _encode
