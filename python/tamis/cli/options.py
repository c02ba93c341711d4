"""Options that several commands share, and their defaults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.store_place import Place, place_of

if TYPE_CHECKING:
    from tamis.store import Store

DEFAULT_CONFIG = Path("pipeline.toml")
DEFAULT_STORE = Path("tamis.sqlite")
STORE_VARIABLE = "TAMIS_STORE"
DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
URL_VARIABLE = "TAMIS_AMQP_URL"

StoreOption = Annotated[
    Path | None,  # or a ServerUrl: typer takes no unions, and asks the parser alone
    typer.Option(
        "--store",
        metavar="PATH",
        parser=place_of,
        help="The store: a path or postgresql:// URL; default: $TAMIS_STORE, that of ./pipeline.toml, or tamis.sqlite.",
    ),
]
ConfigOption = Annotated[Path, typer.Option("--config", help="The pipeline's configuration.")]
UrlOption = Annotated[
    str,
    typer.Option(envvar=URL_VARIABLE, help="The broker: amqp://user:password@host:port/vhost, or amqps:// for TLS."),
]
UnixOption = Annotated[
    Path | None, typer.Option(metavar="PATH", help="The broker's Unix socket, instead of the URL's host and port.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, for machines.")]
QueriesArgument = Annotated[
    Path, typer.Argument(help="A file of queries (lines of `key: selector`, or TOML), a store, or a snapshot.")
]
_MESSAGES = "JSON lines, an mbox, an .eml file, a folder of mail, a Maildir, a stream's directory, or a store"
MessagesArgument = Annotated[str, typer.Argument(help=f"{_MESSAGES}; `-` is stdin.")]
MessagesOption = Annotated[
    str | None, typer.Option(help=f"Messages, to find queries that match none of them: {_MESSAGES}; `-` is stdin.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="The format, if not recognised: jsonl, mbox, eml, maildir, journal (a stream), store, mixed.",
    ),
]
HierarchyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--hierarchy",
        metavar="ATTRIBUTE=FILE",
        help="A hierarchy for UNDER (JSON or TOML), instead of that in the file or store; may be repeated.",
    ),
]
TopicOption = Annotated[str | None, typer.Option(help="The topic of every message.")]
TopicFieldOption = Annotated[str, typer.Option(help="The field with the topic.")]
BodyFieldOption = Annotated[str, typer.Option(help="The field with the text.")]


def store_path(given: Place | None) -> Place:
    """Return where the store is: as given, else $TAMIS_STORE, else that of ./pipeline.toml, else ./tamis.sqlite.

    Raises:
        ConfigError: ./pipeline.toml exists and cannot be read.
    """
    if given is not None:
        return given
    if named := os.environ.get(STORE_VARIABLE):
        return place_of(named)
    if DEFAULT_CONFIG.is_file():
        from tamis.config.pipeline import PipelineConfig

        return PipelineConfig.load(DEFAULT_CONFIG).store_path
    return DEFAULT_STORE


def open_store(given: Place | None, *, create: bool) -> Store:
    """Open the store at `store_path`.

    Raises:
        StoreError: the file is missing and `create` is false, has a newer version, or is no store.
    """
    from tamis.store import Store

    return Store.open(store_path(given), create=create)
