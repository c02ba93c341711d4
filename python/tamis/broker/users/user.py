"""A user of the broker, an immutable value: password, roles, permissions and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tamis.errors import AccessError

NAME_BYTES_MAX = 255
ROLES = ("administrator", "monitoring", "management")
"""The rights of a user over HTTP: do everything, see everything, or nothing (`management`, a role of RabbitMQ)."""


@dataclass(frozen=True)
class Permission:
    """The names that a user may configure, write to and read from: anchored regular expressions; "" permits none."""

    configure: str = ""
    write: str = ""
    read: str = ""


@dataclass(frozen=True)
class TopicPermission:
    """The routing keys of a topic exchange that a user may publish with and bind queues with."""

    write: str = ""
    read: str = ""


ALL = Permission(".*", ".*", ".*")


@dataclass(frozen=True)
class Limits:
    """Maximum numbers per user; None: the default in ``[limits]`` of tamis.toml."""

    connections: int | None = None
    queues: int | None = None


@dataclass(frozen=True)
class User:
    """A user.

    Attributes:
        password: an argon2 hash; None: no password is accepted, but a certificate may be.
        roles: some of ROLES.
        local_only: may log in from this machine only, and only while the broker listens on no other.
        permissions: virtual host -> names; the user may not enter virtual hosts that are absent.
        topic_permissions: virtual host -> exchange -> routing keys; exchanges that are absent are not restricted.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    roles: tuple[str, ...] = ()
    local_only: bool = False
    permissions: Mapping[str, Permission] = field(default_factory=lambda: MappingProxyType({}))
    topic_permissions: Mapping[str, Mapping[str, TopicPermission]] = field(default_factory=lambda: MappingProxyType({}))
    limits: Limits = Limits()

    def permitted(self, vhost: str, permission: Permission | None) -> User:
        """Return this user with `permission` in `vhost`; None takes away the permission there."""
        return replace(self, permissions=_with(self.permissions, vhost, permission))

    def permitted_topics(self, vhost: str, exchange: str, permission: TopicPermission | None) -> User:
        """Return this user with `permission` on routing keys of an exchange; None lifts the restriction there."""
        exchanges = _with(self.topic_permissions.get(vhost, {}), exchange, permission)
        return replace(self, topic_permissions=_with(self.topic_permissions, vhost, exchanges or None))


Users = Mapping[str, User]


def check_user_name(name: str) -> str:
    """Return `name` if it can be the name of a user.

    Raises:
        AccessError: it is empty or too long, or has characters that cannot be printed.
    """
    if not 0 < len(name.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX or not name.isprintable():
        raise AccessError(f"a user's name: expected 1 to {NAME_BYTES_MAX} bytes of printable text, not {name!r}")
    return name


def _with(mapping: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any]:
    """Return `mapping` with `key` set to `value`, or without `key` if the value is None."""
    others = {other: kept for other, kept in mapping.items() if other != key}
    return MappingProxyType(others if value is None else others | {key: value})
