"""The commands `tamis stream`, `tamis mailbox` and `tamis service`, which look at those of a running broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.broker.addresses import MAILBOX_PREFIX, SERVICE_PREFIX
from tamis.cli import output
from tamis.cli.amqp.tail import tail
from tamis.cli.broker.control_link import ask, rows
from tamis.cli.exit_codes import NOTHING, OK
from tamis.cli.options import DEFAULT_URL, JsonOption, UrlOption

if TYPE_CHECKING:
    from tamis.client import ReceivedMessage
    from tamis.client.message import Body

stream = typer.Typer(help="List a broker's streams, and follow them.", no_args_is_help=True)
mailbox = typer.Typer(help="List a broker's mailboxes, and write to them and read them.", no_args_is_help=True)
service = typer.Typer(help="List a broker's services, and request something of them.", no_args_is_help=True)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="The broker's data directory; default: that of ./tamis.toml, or tamis-data."),
]
Column = tuple[str, str]
"""A heading, and the name in the row."""
QUEUE: Sequence[Column] = (("WAITING", "ready"), ("BYTES", "ready_bytes"), ("READERS", "consumers"))


@stream.command("list")
def list_streams(data: DataOption = None, as_json: JsonOption = False) -> int:
    """List the streams: the messages that they keep, their readers, and how far behind the slowest of them is.

    Exit code: 0 when there is one, 1 when there is none, 2 on an error.
    """
    lags: dict[tuple[str, str], int] = {}
    for reader in rows(data, "consumers"):
        if reader["lag"] is not None:
            of = (reader["vhost"], reader["queue"])
            lags[of] = max(lags.get(of, 0), reader["lag"])
    streams = _queues(data, lambda row: row["type"] == "stream")
    found = ({**row, "lag": lags.get((row["vhost"], row["name"]), 0)} for row in streams)
    columns = (
        ("MESSAGES", "ready"),
        ("BYTES", "ready_bytes"),
        ("READERS", "consumers"),
        ("LAG", "lag"),
        ("LOG", "log"),
    )
    return _show(found, "", columns, as_json)


@stream.command("info")
def stream_info(
    name: Annotated[str, typer.Argument(help="The stream.")], data: DataOption = None, as_json: JsonOption = False
) -> int:
    """Show a stream and its readers: what each has not acknowledged, how much it may have (CREDIT), and its lag.

    Of each named reader it shows the number that it reads next, and how many messages are from there to the end.

    Exit code: 0 when it is there, 1 when it is not, 2 on an error.
    """
    found = list(_queues(data, lambda row: row["type"] == "stream" and row["name"] == name))
    readers = [row for row in rows(data, "consumers") if row["queue"] == name]
    if as_json:
        for row in found:
            output.data_json({**row, "readers": readers})
        return OK if found else NOTHING
    for row in found:
        for key in ("name", "ready", "published", "log", "arguments"):
            output.data(f"{key}: {row[key]}")
        header = ("READER", "CONNECTION", "UNACKNOWLEDGED", "CREDIT", "LAG", "READS")
        fields = ("tag", "connection", "unacknowledged", "prefetch_count", "lag")
        of = [[*(it[field] for field in fields), "live" if it["live"] else "the log"] for it in readers]
        output.table(header, of, numbers=(2, 3, 4))
        if named := row["named_readers"]:
            names = [[it["name"], it["next"], it["lag"], "yes" if it["is_reading"] else "no"] for it in named]
            output.data("")
            output.table(("NAMED READER", "NEXT", "LAG", "READS NOW"), names, numbers=(1, 2))
    return OK if found else NOTHING


@stream.command("forget")
def forget_reader(
    name: Annotated[str, typer.Argument(help="The stream.")],
    reader: Annotated[str, typer.Argument(help="The named reader; nobody may read under that name.")],
    vhost: Annotated[str, typer.Option(help="The stream's virtual host.")] = "/",
    data: DataOption = None,
) -> int:
    """Forget the offset of a named reader.

    Exit code: 0 when it was forgotten, 1 when there was none, 2 on an error.
    """
    found = ask(data, {"op": "forget_reader", "vhost": vhost, "stream": name, "reader": reader})
    return OK if found else NOTHING


stream.command("tail")(tail)


@mailbox.command("list")
def list_mailboxes(data: DataOption = None, as_json: JsonOption = False) -> int:
    """List the mailboxes: how many messages wait in each, and whether their owner reads.

    Exit code: 0 when there is one, 1 when there is none, 2 on an error.
    """
    return _show(_queues(data, lambda row: row["name"].startswith(MAILBOX_PREFIX)), MAILBOX_PREFIX, QUEUE, as_json)


@mailbox.command("send")
def send(
    address: Annotated[str, typer.Argument(help="Whose mailbox.")],
    body: Annotated[list[str], typer.Argument(help="The message; several arguments are the parts of one body.")],
    identity: Annotated[str | None, typer.Option("--as", help="Your identity, which the receiver sees.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds to wait for room; default: no limit.", min=0)] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Send a message; it is stored when the command ends. While the mailbox is full, it waits."""
    from tamis.client import blocking

    with blocking.connect(url, identity=identity) as client:
        client.mailbox(address).send(_body(body), timeout_s=timeout)


@mailbox.command("read")
def read(
    identity: Annotated[str, typer.Argument(help="Whose mailbox; it must not be connected.")],
    count: Annotated[int, typer.Option(help="How many messages to wait for.", min=1)] = 1,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Take messages from a mailbox, and print them: one JSON object per line.

    It has the sender, which the broker has checked, the body, its parts if there are several, and the headers.
    """
    from tamis.client import blocking

    with blocking.connect(url, identity=identity) as client:
        messages = client.mailbox().messages(credit=1)
        for number, message in enumerate(messages, 1):
            output.data_json(_shown(message))
            client.ack(message)
            if number == count:
                return


@service.command("list")
def list_services(data: DataOption = None, as_json: JsonOption = False) -> int:
    """List the services: how many requests wait in each, and how many workers it has.

    Exit code: 0 when there is one, 1 when there is none, 2 on an error.
    """
    columns = (("WAITING", "ready"), ("AT WORK", "unacknowledged"), ("WORKERS", "consumers"))
    return _show(_queues(data, lambda row: row["name"].startswith(SERVICE_PREFIX)), SERVICE_PREFIX, columns, as_json)


@service.command("request")
def request(
    name: Annotated[str, typer.Argument(help="The service.")],
    body: Annotated[list[str], typer.Argument(help="The request; several arguments are the parts of one body.")],
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the reply.", min=0)] = 60.0,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Request something of a service, and print the last reply."""
    from tamis.client import blocking

    with blocking.connect(url) as client:
        reply = client.service(name).request(_body(body), timeout_s=timeout)
        output.data(reply.body.decode("utf-8", "replace"))


def _body(parts: Sequence[str]) -> Body:
    encoded = [part.encode() for part in parts]
    return encoded if len(encoded) > 1 else encoded[0]


def _shown(message: ReceivedMessage) -> dict[str, Any]:
    """Return a message for people; its headers are apart, for their sender chooses the names."""
    parts = [part.decode("utf-8", "replace") for part in message.parts]
    body = message.body.decode("utf-8", "replace")
    several = {"parts": parts} if len(parts) > 1 else {}
    return {"sender": message.sender, "body": body, **several, "headers": dict(message.headers)}


def _queues(data: Path | None, is_wanted: Callable[[dict[str, Any]], bool]) -> Iterator[dict[str, Any]]:
    return (row for row in rows(data, "queues") if is_wanted(row))


def _show(found: Iterator[dict[str, Any]], prefix: str, columns: Sequence[Column], as_json: bool) -> int:
    """Print queues by their names without `prefix`; return the exit code."""
    shown = [
        {"name": row["name"].removeprefix(prefix), "vhost": row["vhost"], **_values(row, columns)} for row in found
    ]
    if as_json:
        for row in shown:
            output.data_json(row)
    elif shown:
        header = ("NAME", "VHOST", *(heading for heading, _ in columns))
        numbers = tuple(range(2, 2 + sum(key != "log" for _, key in columns)))
        output.table(header, [list(row.values()) for row in shown], numbers=numbers)
    return OK if shown else NOTHING


def _values(row: dict[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    return {key: row[key] for _, key in columns}
