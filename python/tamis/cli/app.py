"""Lists the commands, and imports and builds the requested one; `tamis --help` needs all of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

COMMANDS = {
    "match": ("tamis.cli.queries.match", "match"),
    "explain": ("tamis.cli.queries.explain", "explain"),
    "analyze": ("tamis.cli.queries.analyze", "analyze"),
    "backtest": ("tamis.cli.queries.backtest", "backtest"),
    "check": ("tamis.cli.queries.check", "check"),
    "shard": ("tamis.cli.queries.shard", "shard"),
    "apply": ("tamis.cli.queries.apply", "apply"),
    "query": ("tamis.cli.queries.query", "app"),
    "hierarchy": ("tamis.cli.queries.hierarchy", "app"),
    "adapter": ("tamis.cli.pipeline.adapter", "app"),
    "run": ("tamis.cli.pipeline.run", "run"),
    "report": ("tamis.cli.pipeline.report", "report"),
    "outbox": ("tamis.cli.pipeline.outbox", "app"),
    "deliveries": ("tamis.cli.pipeline.deliveries", "app"),
    "dead": ("tamis.cli.pipeline.dead", "app"),
    "owner": ("tamis.cli.pipeline.owner", "app"),
    "unsubscribed": ("tamis.cli.pipeline.unsubscribed", "app"),
    "trace": ("tamis.cli.pipeline.trace", "trace"),
    "publish": ("tamis.cli.amqp.publish", "publish"),
    "consume": ("tamis.cli.amqp.consume", "consume"),
    "tail": ("tamis.cli.amqp.tail", "tail"),
    "journal": ("tamis.cli.broker.journal", "app"),
    "stream": ("tamis.cli.broker.kinds", "stream"),
    "mailbox": ("tamis.cli.broker.kinds", "mailbox"),
    "service": ("tamis.cli.broker.kinds", "service"),
    "serve": ("tamis.cli.broker.serve", "serve"),
    "users": ("tamis.cli.broker.users", "app"),
    "demo": ("tamis.cli.pipeline.demo", "demo"),
    "bench": ("tamis.cli.bench.command", "app"),
}
"""Name -> module, and in it a function or an app with subcommands."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """Return the app with the command that `arguments` name, or with all commands if they name none.

    Cost: about 5 ms per command that is built.
    """
    app = typer.Typer(
        name="tamis",
        help="Finds, for every message in a stream, all the standing queries it satisfies, and delivers it.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    requested = next((word for word in arguments if not word.startswith("-")), "")
    for name in [requested] if requested in COMMANDS else COMMANDS:
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
) -> None:
    """Define the options before the name of the command."""
