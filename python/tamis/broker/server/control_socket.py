"""The control socket: answers one line of JSON with another."""

from __future__ import annotations

import asyncio

from tamis.broker.control import REQUEST_BYTES_MAX, Control


def control_protocol(control: Control) -> asyncio.BaseProtocol:
    """Return the protocol of one connection to the control socket."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=REQUEST_BYTES_MAX, loop=loop)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(control.answer(line))
                await writer.drain()
        except (ValueError, ConnectionError):
            pass  # the line is too long, or the client has left
        except asyncio.CancelledError:
            pass  # the broker has stopped; no task waits for this one
        finally:
            writer.close()

    return asyncio.StreamReaderProtocol(reader, answer, loop=loop)
