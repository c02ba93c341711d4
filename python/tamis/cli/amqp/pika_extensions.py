"""Adds to pika what it lacks: floating-point fields in tables, and connections through Unix sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
from pika.adapters.base_connection import _StreamingProtocolShim
from pika.adapters.select_connection import IOLoop
from pika.adapters.utils.selector_ioloop_adapter import SelectorIOServicesAdapter


def _teach_floats(data: Any) -> None:
    """Teach pika floating-point fields of tables: pika 1.4 truncates them when it reads, and cannot write them."""
    encode, decode = data.encode_value, data.decode_value

    def encode_value(pieces: list[Any], value: Any) -> int:
        if not isinstance(value, float):
            return int(encode(pieces, value))
        pieces.append(struct.pack(">cd", b"d", value))
        return 9

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        form = _FLOATS.get(encoded[offset : offset + 1])
        if form is None:
            value, end = decode(encoded, offset)
            return value, end
        return form.unpack_from(encoded, offset + 1)[0], offset + 1 + form.size

    data.encode_value, data.decode_value = encode_value, decode_value


_FLOATS = {b"f": struct.Struct(">f"), b"d": struct.Struct(">d")}
_teach_floats(pika.data)


def connection_class(unix: Path | None) -> Any:
    """Return the class of connections: pika's own, or one that uses the Unix socket `unix`."""
    return pika.SelectConnection if unix is None else _unix_connection_class(unix)


def _unix_connection_class(path: Path) -> Any:
    class UnixConnection(pika.SelectConnection):  # type: ignore[misc] # pika has no types
        """Gives pika, which connects to hosts only, a socket that is connected already."""

        @classmethod
        def create_connection(
            cls,
            connection_configs: Any,
            on_done: Callable[[Any], None],
            custom_ioloop: Any = None,
            workflow: Any = None,
        ) -> Any:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.connect(str(path))
            except OSError:
                connected.close()
                raise
            connected.setblocking(False)
            nbio = SelectorIOServicesAdapter(custom_ioloop or IOLoop())

            def make() -> Any:
                return _StreamingProtocolShim(
                    cls(parameters=connection_configs[0], custom_ioloop=nbio, internal_connection_workflow=False)
                )

            def linked(result: Any) -> None:
                if isinstance(result, BaseException):
                    on_done(result)
                    return
                connection = result[1].conn
                connection.add_on_open_error_callback(lambda _, error: on_done(error), remove_default=True)
                connection.add_on_open_callback(on_done)

            return nbio.create_streaming_connection(make, connected, on_done=linked)

    return UnixConnection
