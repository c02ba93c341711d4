"""The command `tamis owner`, which shows the owners of a pipeline, and asks them to confirm their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli import output
from tamis.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption
from tamis.errors import ConfigError

if TYPE_CHECKING:
    from tamis.config.deliveries import EmlDelivery, SmtpDelivery
    from tamis.config.pipeline import PipelineConfig

app = typer.Typer(help="List owners, and ask them to confirm their addresses.", no_args_is_help=True)


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """List each address of each owner: whether it is confirmed, and of which queries it wants no e-mails."""
    from tamis.config.fields import address_of
    from tamis.config.pipeline import PipelineConfig
    from tamis.store import Store

    loaded, rows = PipelineConfig.load(config), []
    with Store.open(loaded.store_path) as store:
        for owner in loaded.people:
            for recipient in owner.to:
                address = address_of(recipient)
                at, unwanted = store.address_confirmed_at(address), sorted(store.unsubscribed_keys(address))
                rows.append((owner.name, address, owner.confirm, at, unwanted))
    if as_json:
        names = ("name", "address", "confirm", "confirmed_at", "unsubscribed")
        for row in rows:
            output.data_json(dict(zip(names, row, strict=True)))
        return
    shown = [
        (name, address, at or ("NO" if confirm else "not needed"), ", ".join(key or "all" for key in unwanted) or None)
        for name, address, confirm, at, unwanted in rows
    ]
    output.table(("NAME", "ADDRESS", "CONFIRMED", "UNSUBSCRIBED"), shown)


@app.command()
def confirm(
    name: Annotated[str, typer.Argument(help="The name of an owner.")],
    delivery: Annotated[
        str | None, typer.Option(help="The delivery that sends it; default: the first of type smtp, or else eml.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Send an e-mail with a link to each address of an owner that is not confirmed; a running pipeline answers it."""
    from tamis.config.fields import address_of
    from tamis.config.pipeline import PipelineConfig
    from tamis.notify.confirm import ask_for_confirmation
    from tamis.notify.unsubscribe import Links
    from tamis.store import Store

    loaded = PipelineConfig.load(config)
    owner = next((it for it in loaded.people if it.name == name), None)
    if owner is None:
        known = ", ".join(it.name for it in loaded.people) or "none"
        raise ConfigError(f"{loaded.path}: no [[owner]] is named '{name}'; there are: {known}")
    if loaded.unsubscribe is None:
        raise ConfigError(f"{loaded.path}: confirming needs [unsubscribe], which answers the links")
    sender, links = _sender(loaded, delivery), Links(loaded.unsubscribe.url, loaded.unsubscribe.secret())
    with Store.open(loaded.store_path) as store:
        wanted = [it for it in owner.to if store.address_confirmed_at(address_of(it)) is None]
    for recipient in wanted:
        ask_for_confirmation(sender, recipient, links)
        if as_json:
            output.data_json({"name": name, "address": address_of(recipient), "delivery": sender.name})
        output.success(f"{address_of(recipient)} is asked to confirm")
    if not wanted:
        output.note(f"no address of {name} is left to confirm")


def _sender(config: PipelineConfig, name: str | None) -> SmtpDelivery | EmlDelivery:
    from tamis.config.deliveries import EmlDelivery, SmtpDelivery

    mail = [it for it in config.deliveries if isinstance(it, SmtpDelivery | EmlDelivery)]
    found = [it for it in sorted(mail, key=lambda it: it.type, reverse=True) if name in (None, it.name)]
    if not found:
        known = ", ".join(it.name for it in mail) or "none"
        raise ConfigError(f"{config.path}: expected a [[delivery]] that sends e-mails; there are: {known}")
    return found[0]
