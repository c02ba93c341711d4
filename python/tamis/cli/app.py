"""The list of commands. The functions are thin: what they need is imported when they are called."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli import adapter, check, demo, explain, match, pipeline, query

app = typer.Typer(
    name="tamis",
    help="Finds, for every message in a stream, all the standing queries it satisfies, and delivers it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        import tamis

        typer.echo(f"tamis {tamis.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole of an unexpected error.")] = False,
) -> None:
    """Options before the command's name."""


app.command("match")(match.match)
app.command("explain")(explain.explain)
app.command("check")(check.check)
app.add_typer(query.app, name="query")
app.add_typer(adapter.app, name="adapter")
app.command("run")(pipeline.run)
app.command("demo")(demo.demo)
