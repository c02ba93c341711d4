"""Decides what a user may do, for AMQP, HTTP and the command line, without clock or files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tamis.broker.addresses import MAILBOX_PREFIX
from tamis.broker.users.patterns import is_match
from tamis.broker.users.user import Limits, User, Users

Verb = Literal["configure", "write", "read"]
DEFAULT_EXCHANGE = "amq.default"
"""Name of the default exchange in permissions, as in RabbitMQ; its AMQP name is empty."""


@dataclass(frozen=True)
class Refusal:
    """Why a connection is refused: the AMQP reply code and the text for client and log."""

    code: int
    text: str


class Access:
    """The rules in force. An `Access` never changes; when the users change, another one takes its place.

    Args:
        users: all users, by name.
        vhosts: all virtual hosts.
        defaults: limits for users without their own.
        is_local_only: whether the broker listens on this machine only.
    """

    def __init__(self, users: Users, vhosts: tuple[str, ...], defaults: Limits, is_local_only: bool) -> None:
        self._users = users
        self._vhosts = frozenset(vhosts)
        self._defaults = defaults
        self._is_local_only = is_local_only

    def allowed(self, user: str, verb: Verb, vhost: str, resource: str, routing_key: str | None = None) -> bool:
        """Return whether `user` may `verb` the exchange or queue `resource` in `vhost`.

        Args:
            routing_key: if given, topic permissions are checked too: may `user` publish with this key (`verb` is
                "write"), or bind a queue with it ("read")? An exchange without topic permissions permits all keys.

        Unknown users may do nothing, and nothing is permitted in unknown virtual hosts. Cost: a microsecond.
        """
        record = self._users.get(user)
        permission = record.permissions.get(vhost) if record and vhost in self._vhosts else None
        if record is None or permission is None:
            return False
        if not is_match(getattr(permission, verb), resource or DEFAULT_EXCHANGE, user, vhost):
            return False
        return routing_key is None or _allows_topic(record, verb, vhost, resource, routing_key)

    def has_topic_rules(self, user: str, vhost: str) -> bool:
        """Return whether any topic permission restricts this user in this virtual host."""
        record = self._users.get(user)
        return bool(record and record.topic_permissions.get(vhost))

    def password_of(self, user: str) -> str | None:
        """Return the hash of `user`'s password; None if no password is right."""
        record = self._users.get(user)
        return record.password if record else None

    def may_log_in(self, user: str, is_local: bool) -> str:
        """Return why an authenticated user may not log in from there, for the log only; empty if it may."""
        record = self._users.get(user)
        if record is None:
            return f"there is no user '{user}'"
        if record.local_only and not is_local:
            return f"user '{user}' may log in from this machine only"
        if record.local_only and not self._is_local_only:
            return f"user '{user}' may log in only while the broker listens on this machine alone"
        return ""

    def may_open(self, user: str, vhost: str, open_count: int) -> Refusal | None:
        """Return why `user`, with `open_count` connections, may not open another one in `vhost`; None if it may."""
        if vhost not in self._vhosts:
            return Refusal(530, f"NOT_ALLOWED - vhost '{vhost}' not found")
        record = self._users.get(user)
        if record is None or vhost not in record.permissions:
            return Refusal(530, f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'")
        limit = self.limits(user).connections
        if limit is not None and open_count >= limit:
            return Refusal(530, f"NOT_ALLOWED - connection refused: user '{user}' has {open_count} of {limit} already")
        return None

    def may_identify(self, user: str, vhost: str, identity: str) -> Refusal | None:
        """Return why `user` may not have `identity`; None if it may.

        A user may have its own name, and the identities whose mailboxes it may configure."""
        if identity == user or self.allowed(user, "configure", vhost, MAILBOX_PREFIX + identity):
            return None
        text = f"ACCESS_REFUSED - identity '{identity}' in vhost '{vhost}' refused for user '{user}'"
        return Refusal(403, text)

    def limits(self, user: str) -> Limits:
        """Return the limits of `user`: its own where it has some, else the defaults."""
        own = self._users[user].limits if user in self._users else Limits()
        return Limits(
            connections=self._defaults.connections if own.connections is None else own.connections,
            queues=self._defaults.queues if own.queues is None else own.queues,
        )

    def has_role(self, user: str, role: str) -> bool:
        """Return whether `user` has `role`. Administrators have every role."""
        roles = self._users[user].roles if user in self._users else ()
        return role in roles or "administrator" in roles

    def changed_users(self, before: Access) -> frozenset[str]:
        """Return the users that are new, removed or different from `before`: what is cached of them no longer holds."""
        return frozenset(
            name for name in {*self._users, *before._users} if self._users.get(name) != before._users.get(name)
        )

    def users(self) -> Mapping[str, User]:
        """Return all users, by name."""
        return self._users


def _allows_topic(user: User, verb: Verb, vhost: str, exchange: str, routing_key: str) -> bool:
    permission = user.topic_permissions.get(vhost, {}).get(exchange)
    if permission is None or verb == "configure":
        return True
    return is_match(permission.write if verb == "write" else permission.read, routing_key, user.name, vhost)
