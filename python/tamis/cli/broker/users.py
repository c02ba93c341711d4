"""The command `tamis users`, which manages the broker's users and permissions.

A running broker uses a change within a second."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption
from tamis.errors import AccessError

if TYPE_CHECKING:
    from tamis.broker.users.user import User
    from tamis.broker.users.users_file import UsersFile

app = typer.Typer(help="List, add and remove the broker's users, and set their permissions.", no_args_is_help=True)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="The broker's data directory; default: that of ./tamis.toml, or tamis-data."),
]
NameArgument = Annotated[str, typer.Argument(help="The user's name.")]


@app.command("list")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the users and their permissions. Hashes of passwords are not shown.

    A line with an exchange has the routing keys with which the user may write to it and read from it.
    """
    users = _file(data).read()
    if as_json:
        for user in users.values():
            output.data_json(_shown(user))
        return
    header = ("NAME", "ROLES", "FROM", "PASSWORD", "VHOST", "EXCHANGE", "CONFIGURE", "WRITE", "READ")
    output.table(header, [row for user in users.values() for row in _rows(user)])


@app.command()
def add(
    name: NameArgument,
    role: Annotated[list[str] | None, typer.Option(help="administrator, monitoring or management.")] = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="The user may log in by certificate only.")
    ] = False,
    max_connections: Annotated[int | None, typer.Option(help="Maximum number of connections.")] = None,
    max_queues: Annotated[int | None, typer.Option(help="Maximum number of queues.")] = None,
    data: DataOption = None,
) -> None:
    """Add a user, whose password is asked for or read from stdin. A new user has no permissions."""
    from tamis.broker.users.user import Limits, User

    file = _file(data)
    if name in file.read():
        raise AccessError(f"there is a user '{name}' already; `tamis users password {name}` changes its password")
    password = None if no_password else _asked_password(name)
    limits = Limits(connections=max_connections, queues=max_queues)
    user = User(name, password, tuple(role or ()), limits=limits)

    def edit(users: dict[str, User]) -> None:
        users.setdefault(name, user)

    file.change(edit)
    output.success(f"added user {name}")
    where = [] if data is None else ["--data", str(data)]
    output.hint(
        shlex.join(["tamis", "users", "permit", name, "--configure", "", "--write", ".*", "--read", ".*", *where])
    )


@app.command()
def remove(name: NameArgument, data: DataOption = None) -> None:
    """Remove a user. Its connections are closed; its queues stay."""

    def edit(users: dict[str, User]) -> None:
        del users[name]

    _change(data, name, edit)
    output.success(f"removed user {name}")


@app.command()
def password(name: NameArgument, data: DataOption = None) -> None:
    """Change the password of a user; it is asked for or read from stdin."""
    _known(_file(data), name)
    hashed = _asked_password(name)

    def edit(users: dict[str, User]) -> None:
        users[name] = replace(users[name], password=hashed)

    _change(data, name, edit)
    output.success(f"changed the password of {name}")


@app.command()
def permit(
    name: NameArgument,
    vhost: Annotated[str, typer.Option(help="The virtual host.")] = "/",
    configure: Annotated[
        str | None, typer.Option(help="Names that it may declare and delete: a regular expression.")
    ] = None,
    write: Annotated[str | None, typer.Option(help="Names that it may publish to.")] = None,
    read: Annotated[str | None, typer.Option(help="Names that it may consume from.")] = None,
    topic_exchange: Annotated[
        str | None, typer.Option(help="Restrict the routing keys of this exchange instead, by --write and --read.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the permissions, or the restriction.")] = False,
    data: DataOption = None,
) -> None:
    """Set which names a user may configure, write to and read from: regular expressions that match the whole name.

    Options that are not given stay unchanged; at first nothing is permitted. ``{username}`` and ``{vhost}`` stand for
    these names.
    """
    from tamis.broker.users.user import Permission, TopicPermission

    given = {verb: it for verb, it in (("configure", configure), ("write", write), ("read", read)) if it is not None}
    if not given and not clear:
        raise AccessError("nothing to change: give --configure, --write or --read, or --clear")
    if topic_exchange is not None and configure is not None:
        raise AccessError("--topic-exchange takes --write and --read: routing keys are not configured")

    def edit(users: dict[str, User]) -> None:
        user = users[name]
        if topic_exchange is None:
            now = user.permissions.get(vhost, Permission())
            users[name] = user.permitted(vhost, None if clear else replace(now, **given))
        else:
            topics = user.topic_permissions.get(vhost, {}).get(topic_exchange, TopicPermission())
            users[name] = user.permitted_topics(vhost, topic_exchange, None if clear else replace(topics, **given))

    _change(data, name, edit)
    output.success(f"changed the permissions of {name} in {vhost}")


def _file(data: Path | None) -> UsersFile:
    from tamis.broker.config import BrokerConfig
    from tamis.broker.users.users_file import UsersFile

    return UsersFile(BrokerConfig.load(None).data if data is None else data)


def _known(file: UsersFile, name: str) -> None:
    users = file.read()
    if name not in users:
        from tamis.name_hints import did_you_mean

        raise AccessError(f"there is no user '{name}'{did_you_mean(name, sorted(users))}")


def _change(data: Path | None, name: str, edit: Callable[[dict[str, User]], None]) -> None:
    """Let `edit` change the users, if `name` is one of them."""
    file = _file(data)
    _known(file, name)
    file.change(edit)


def _asked_password(name: str) -> str:
    """Return the hash of a password that is typed twice, or is the first line of stdin."""
    from tamis.broker.login import passwords

    if not sys.stdin.isatty():
        typed = sys.stdin.readline().rstrip("\r\n")
    else:
        typed = getpass.getpass(f"password for {name}: ")
        if getpass.getpass("again: ") != typed:
            raise AccessError("the two passwords differ; nothing was changed")
    if not typed:
        raise AccessError("a password needs at least one character; --no-password adds a user without one")
    return passwords.hash_password(typed.encode("utf-8", "surrogateescape"))


def _rows(user: User) -> list[tuple[object, ...]]:
    """Return a row per virtual host of the user, and one per restricted exchange; without any, one of dashes."""
    comes_from = "this machine" if user.local_only else "anywhere"
    about = (user.name, user.roles or None, comes_from, "yes" if user.password is not None else "no")
    rows: list[tuple[object, ...]] = [
        (*about, vhost, None, may.configure, may.write, may.read) for vhost, may in user.permissions.items()
    ]
    rows += [
        (*about, vhost, exchange, None, keys.write, keys.read)
        for vhost, exchanges in user.topic_permissions.items()
        for exchange, keys in exchanges.items()
    ]
    return rows or [(*about, None, None, None, None, None)]


def _shown(user: User) -> dict[str, object]:
    """Return a user for JSON, without the hash."""
    from tamis.broker.users.users_json import user_to_json

    fields = user_to_json(user)
    return {"name": user.name, **fields, "password": user.password is not None}
