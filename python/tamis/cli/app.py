"""The list of commands. Only the one that is asked for is imported and built; for `tamis --help` it is all of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

COMMANDS = {
    "match": ("tamis.cli.match", "match"),
    "explain": ("tamis.cli.explain", "explain"),
    "analyze": ("tamis.cli.analyze", "analyze"),
    "backtest": ("tamis.cli.backtest", "backtest"),
    "check": ("tamis.cli.check", "check"),
    "query": ("tamis.cli.query", "app"),
    "adapter": ("tamis.cli.adapter", "app"),
    "run": ("tamis.cli.pipeline", "run"),
    "publish": ("tamis.cli.publish", "publish"),
    "consume": ("tamis.cli.consume", "consume"),
    "tail": ("tamis.cli.tail", "tail"),
    "journal": ("tamis.cli.journal", "app"),
    "serve": ("tamis.cli.serve", "serve"),
    "users": ("tamis.cli.users", "app"),
    "demo": ("tamis.cli.demo", "demo"),
    "bench": ("tamis.cli.bench", "app"),
}
"""Name -> the module, and in it a function or an app with subcommands."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The app with the command that `arguments` begin with, or with all where they name none.

    Cost: about 5 ms a command that is built.
    """
    app = typer.Typer(
        name="tamis",
        help="Finds, for every message in a stream, all the standing queries it satisfies, and delivers it.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    asked = next((word for word in arguments if not word.startswith("-")), "")
    for name in [asked] if asked in COMMANDS else COMMANDS:
        module, attribute = COMMANDS[name]
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        import tamis

        typer.echo(f"tamis {tamis.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole of an unexpected error.")] = False,
) -> None:
    """Options before the command's name."""
