"""Where the store, the configuration and the broker are, when nobody says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tamis.store import Store

DEFAULT_CONFIG = Path("pipeline.toml")
DEFAULT_STORE = Path("tamis.sqlite")
STORE_VARIABLE = "TAMIS_STORE"
DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
URL_VARIABLE = "TAMIS_AMQP_URL"

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="The store; default: $TAMIS_STORE, else that of ./pipeline.toml, else tamis.sqlite."),
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


def store_path(given: Path | None) -> Path:
    """The store's file: as given, else $TAMIS_STORE, else that of ./pipeline.toml, else ./tamis.sqlite.

    Raises:
        ConfigError: ./pipeline.toml is there and cannot be read.
    """
    if given is not None:
        return given
    if named := os.environ.get(STORE_VARIABLE):
        return Path(named)
    if DEFAULT_CONFIG.is_file():
        from tamis.config.pipeline import PipelineConfig

        return PipelineConfig.load(DEFAULT_CONFIG).store_path
    return DEFAULT_STORE


def open_store(given: Path | None, *, create: bool) -> Store:
    """The store at `store_path`.

    Raises:
        StoreError: it is absent and `create` is false, of a newer version, or no store.
    """
    from tamis.store import Store

    return Store.open(store_path(given), create=create)
