"""Users, their permissions and limits: one JSON file of the data directory, mode 0600.

The file is replaced as a whole and atomically, so that a reader sees the old or the new one; who changes it holds a
lock beside it. A running broker notices a change by `UsersFile.stamp`.

    {"version": 1, "users": {"ann": {
        "password": "$argon2id$...", "roles": ["administrator"], "local_only": false,
        "permissions": {"/": {"configure": "ann\\\\..*", "write": ".*", "read": ".*"}},
        "topic_permissions": {"/": {"amq.topic": {"write": "{username}\\\\..*", "read": ".*"}}},
        "limits": {"connections": 100, "queues": 100}}}}
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tamis.broker import passwords
from tamis.broker.patterns import check_pattern
from tamis.errors import AccessError, QueryError

FILE_NAME = "users.json"
ADMIN_PASSWORD_FILE_NAME = "admin-password"  # noqa: S105 - where it is, not what it is
SIZE_BYTES_MAX = 16 * 1024 * 1024
"""The largest file that is read: some 50,000 users."""
NAME_BYTES_MAX = 255
ROLES = ("administrator", "monitoring", "management")
"""What a user may do beyond messages, over HTTP: everything, look at everything, look at what is its own."""
ADMIN, GUEST = "admin", "guest"
_VERSION = 1


@dataclass(frozen=True)
class Permission:
    """Which names a user may configure, write to and read from: anchored regular expressions, "" for none."""

    configure: str = ""
    write: str = ""
    read: str = ""


@dataclass(frozen=True)
class TopicPermission:
    """Which routing keys of a topic exchange a user may publish with and bind queues by."""

    write: str = ""
    read: str = ""


ALL = Permission(".*", ".*", ".*")


@dataclass(frozen=True)
class Limits:
    """How much a user may have at once; None: as much as anybody (``[limits]`` of tamis.toml)."""

    connections: int | None = None
    queues: int | None = None


@dataclass(frozen=True)
class User:
    """A user. Values never change; a change makes another.

    Attributes:
        password: an argon2 hash; None: no password will do, a certificate may.
        roles: of ROLES.
        local_only: may log in from this machine only, and only while the broker listens nowhere else.
        permissions: virtual host -> what; a virtual host that is absent may not even be entered.
        topic_permissions: virtual host -> exchange -> routing keys; what is absent is not restricted.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    roles: tuple[str, ...] = ()
    local_only: bool = False
    permissions: Mapping[str, Permission] = field(default_factory=lambda: MappingProxyType({}))
    topic_permissions: Mapping[str, Mapping[str, TopicPermission]] = field(default_factory=lambda: MappingProxyType({}))
    limits: Limits = Limits()

    def permitted(self, vhost: str, permission: Permission | None) -> User:
        """This user with `permission` in `vhost`, or with none there."""
        return replace(self, permissions=_with(self.permissions, vhost, permission))

    def permitted_topics(self, vhost: str, exchange: str, permission: TopicPermission | None) -> User:
        """This user with `permission` on routing keys of an exchange, or with no restriction there."""
        exchanges = _with(self.topic_permissions.get(vhost, {}), exchange, permission)
        return replace(self, topic_permissions=_with(self.topic_permissions, vhost, exchanges or None))


Users = Mapping[str, User]


class UsersFile:
    """The file. Reading needs no lock; every change is read, checked, written and synced under one."""

    def __init__(self, data_folder: Path) -> None:
        self.path = data_folder / FILE_NAME
        self._admin_password_path = data_folder / ADMIN_PASSWORD_FILE_NAME

    def stamp(self) -> tuple[int, int, int]:
        """Differs after every change. Cost: one call of the system."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return (0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def read(self) -> Users:
        """All users, by name.

        Raises:
            AccessError: it is absent, too large, no JSON, or says something that it cannot say.
        """
        try:
            if self.path.stat().st_size > SIZE_BYTES_MAX:
                raise AccessError(f"{self.path}: expected a file of at most {SIZE_BYTES_MAX} bytes")
            document = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise AccessError(
                f"{self.path}: no users yet; `tamis serve` makes them when it starts for the first time"
            ) from error
        except (ValueError, RecursionError) as error:
            raise AccessError(f"{self.path}: expected JSON in UTF-8: {error}") from error
        try:
            return _users(document)
        except AccessError as error:
            raise AccessError(f"{self.path}: {error}") from error

    def change(self, edit: Callable[[dict[str, User]], None]) -> Users:
        """Let `edit` change the users, and put them on disk; they are on disk when this returns.

        Raises:
            AccessError: as `read`, or `edit` has refused, or has made something that cannot be; nothing is changed.
        """
        with self._locked():
            users = dict(self.read())
            edit(users)
            self._write(users)
            return MappingProxyType(users)

    def make_first(self, vhosts: tuple[str, ...] = ("/",)) -> bool:
        """On the first start, make `admin` with a password of its own in a file, and `guest`. Whether it was the first.

        `guest` has the password that every AMQP client tries, and may come from this machine only.
        """
        with self._locked():
            if self.path.exists():
                return False
            secret = passwords.generated()
            with ThreadPoolExecutor(2) as threads:  # at once: the first start shall be quick too
                admins, guests = threads.map(passwords.hash_password, (secret.encode(), b"guest"))
            everything = MappingProxyType(dict.fromkeys(vhosts, ALL))
            admin = User(ADMIN, admins, ("administrator",), permissions=everything)
            guest = User(GUEST, guests, local_only=True, permissions=everything)
            _replace(self._admin_password_path, f"{secret}\n")
            self._write({ADMIN: admin, GUEST: guest})
            return True

    @property
    def admin_password_path(self) -> Path:
        """Where the first administrator's password was written."""
        return self._admin_password_path

    def _write(self, users: Users) -> None:
        document = {"version": _VERSION, "users": {name: to_plain(user) for name, user in users.items()}}
        _users(document)  # what cannot be read back is not written
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        if len(text.encode()) > SIZE_BYTES_MAX:
            raise AccessError(f"the users would take more than {SIZE_BYTES_MAX} bytes")
        _replace(self.path, text)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def check_user_name(name: str) -> str:
    """`name` when it can be a user's.

    Raises:
        AccessError: it is empty, too long, or has characters that cannot be seen.
    """
    if not 0 < len(name.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX or not name.isprintable():
        raise AccessError(f"a user's name: expected 1 to {NAME_BYTES_MAX} bytes of text that can be seen, not {name!r}")
    return name


def _replace(path: Path, text: str) -> None:
    """Put `text` there with mode 0600, as a whole or not at all, and on disk when this returns."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _with(mapping: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any]:
    """`mapping` with `key` set to `value`, or without it when that is None."""
    rest = {other: kept for other, kept in mapping.items() if other != key}
    return MappingProxyType(rest if value is None else rest | {key: value})


# ---- between users and JSON ----


def to_plain(user: User) -> dict[str, Any]:
    """A user as it stands in the file, without its name."""
    return {
        "password": user.password,
        "roles": list(user.roles),
        "local_only": user.local_only,
        "permissions": {vhost: asdict(permission) for vhost, permission in user.permissions.items()},
        "topic_permissions": {
            vhost: {exchange: asdict(permission) for exchange, permission in exchanges.items()}
            for vhost, exchanges in user.topic_permissions.items()
        },
        "limits": asdict(user.limits),
    }


def _users(document: Any) -> Users:
    found = _table(document, "the file", ("version", "users"))
    if found.get("version") != _VERSION:
        raise AccessError(f"expected version {_VERSION}, not {found.get('version')!r}: it is of a newer tamis")
    users = _table(found.get("users"), "users")
    return MappingProxyType({name: _user(name, entry) for name, entry in users.items()})


def _user(name: str, document: Any) -> User:
    where = f"user '{name}'"
    check_user_name(name)
    keys = ("password", "roles", "local_only", "permissions", "topic_permissions", "limits")
    entry = _table(document, where, keys)
    password, roles, local_only = entry.get("password"), entry.get("roles", []), entry.get("local_only", False)
    if password is not None and not (isinstance(password, str) and passwords.is_hash(password)):
        raise AccessError(f"{where}: password: expected an argon2 hash or null")
    if not isinstance(roles, list) or not set(map(str, roles)) <= set(ROLES):
        raise AccessError(f"{where}: roles: expected some of {', '.join(ROLES)}, not {roles!r}")
    if not isinstance(local_only, bool):
        raise AccessError(f"{where}: local_only: expected true or false, not {local_only!r}")
    permissions = _table(entry.get("permissions", {}), f"{where}: permissions")
    topics = _table(entry.get("topic_permissions", {}), f"{where}: topic_permissions")
    return User(
        name=name,
        password=password,
        roles=tuple(roles),
        local_only=local_only,
        permissions=MappingProxyType(
            {
                vhost: Permission(**_patterns(it, f"{where} in '{vhost}'", ("configure", "write", "read")))
                for vhost, it in permissions.items()
            }
        ),
        topic_permissions=MappingProxyType(
            {vhost: _topics(it, f"{where} in '{vhost}'") for vhost, it in topics.items()}
        ),
        limits=_limits(entry.get("limits", {}), f"{where}: limits"),
    )


def _topics(document: Any, where: str) -> Mapping[str, TopicPermission]:
    exchanges = _table(document, where)
    return MappingProxyType(
        {
            name: TopicPermission(**_patterns(it, f"{where} on '{name}'", ("write", "read")))
            for name, it in exchanges.items()
        }
    )


def _patterns(document: Any, where: str, keys: tuple[str, ...]) -> dict[str, str]:
    entry = _table(document, where, keys)
    for verb, pattern in entry.items():
        if not isinstance(pattern, str):
            raise AccessError(f"{where}: {verb}: expected a regular expression as text, not {pattern!r}")
        try:
            check_pattern(pattern)
        except QueryError as error:
            raise AccessError(f"{where}: {verb}: {error.summary}") from error
    return entry


def _limits(document: Any, where: str) -> Limits:
    entry = _table(document, where, ("connections", "queues"))
    for name, limit in entry.items():
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise AccessError(f"{where}: {name}: expected a whole number from 0 or null, not {limit!r}")
    return Limits(**entry)


def _table(document: Any, where: str, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise AccessError(f"{where}: expected a table, not {str(document)[:60]!r}")
    if keys is not None and (unknown := set(document) - set(keys)):
        raise AccessError(f"{where}: unknown key '{min(unknown)}'; known: {', '.join(keys)}")
    return document
