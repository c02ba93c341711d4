"""What a user may do: one function for AMQP, HTTP and the command line. Pure: no clock, no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tamis.broker.patterns import is_match
from tamis.broker.users import Limits, User, Users

Verb = Literal["configure", "write", "read"]
DEFAULT_EXCHANGE = "amq.default"
"""What the exchange with the empty name is called in permissions, as in RabbitMQ."""


@dataclass(frozen=True)
class Refusal:
    """Why somebody may not come in: what the client is told, with which code, and what the log says."""

    code: int
    text: str


class Access:
    """The rules in force. A change of the users makes another `Access`; this one never changes.

    Args:
        users: all of them.
        vhosts: the virtual hosts that there are.
        defaults: limits of users that have none of their own.
        is_local_only: whether the broker listens on this machine only.
    """

    def __init__(self, users: Users, vhosts: tuple[str, ...], defaults: Limits, is_local_only: bool) -> None:
        self._users = users
        self._vhosts = frozenset(vhosts)
        self._defaults = defaults
        self._is_local_only = is_local_only

    def allowed(self, user: str, verb: Verb, vhost: str, resource: str, routing_key: str | None = None) -> bool:
        """Whether `user` may `verb` the exchange or queue `resource` in `vhost`.

        Args:
            routing_key: asks for topic permissions too: may `user` publish with this key (`verb` is "write"), or
                bind a queue by it ("read")? Exchanges without topic permissions take any key.

        A user or virtual host that is not there may nothing. Cost: a microsecond.
        """
        found = self._users.get(user)
        permission = found.permissions.get(vhost) if found and vhost in self._vhosts else None
        if found is None or permission is None:
            return False
        if not is_match(getattr(permission, verb), resource or DEFAULT_EXCHANGE, user, vhost):
            return False
        return routing_key is None or _allows_topic(found, verb, vhost, resource, routing_key)

    def has_topic_rules(self, user: str, vhost: str) -> bool:
        """Whether `allowed` looks at routing keys at all, for this user in this virtual host."""
        found = self._users.get(user)
        return bool(found and found.topic_permissions.get(vhost))

    def password_of(self, user: str) -> str | None:
        """The hash that `user`'s password is compared with; None where none will do."""
        found = self._users.get(user)
        return found.password if found else None

    def may_log_in(self, user: str, is_local: bool) -> str:
        """Why `user`, who has proved to be it, may not come from there; empty when it may. Said to the log only."""
        found = self._users.get(user)
        if found is None:
            return f"there is no user '{user}'"
        if found.local_only and not is_local:
            return f"user '{user}' may log in from this machine only"
        if found.local_only and not self._is_local_only:
            return f"user '{user}' may log in only while the broker listens on this machine alone"
        return ""

    def may_open(self, user: str, vhost: str, open_count: int) -> Refusal | None:
        """Why `user` may not open another connection in `vhost`, when it has `open_count` already; None: it may."""
        if vhost not in self._vhosts:
            return Refusal(530, f"NOT_ALLOWED - vhost '{vhost}' not found")
        found = self._users.get(user)
        if found is None or vhost not in found.permissions:
            return Refusal(530, f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'")
        limit = self.limits(user).connections
        if limit is not None and open_count >= limit:
            return Refusal(530, f"NOT_ALLOWED - connection refused: user '{user}' has {open_count} of {limit} already")
        return None

    def limits(self, user: str) -> Limits:
        """How much `user` may have at once, its own limits before everybody's."""
        own = self._users[user].limits if user in self._users else Limits()
        return Limits(
            connections=self._defaults.connections if own.connections is None else own.connections,
            queues=self._defaults.queues if own.queues is None else own.queues,
        )

    def has_role(self, user: str, role: str) -> bool:
        """Whether `user` has `role`, or is an administrator, who has all."""
        roles = self._users[user].roles if user in self._users else ()
        return role in roles or "administrator" in roles

    def changed_users(self, before: Access) -> frozenset[str]:
        """Who is not what it was: gone, new, or with other rights. What is remembered of them no longer holds."""
        return frozenset(
            name for name in {*self._users, *before._users} if self._users.get(name) != before._users.get(name)
        )

    def users(self) -> Mapping[str, User]:
        """All users, by name."""
        return self._users


def _allows_topic(user: User, verb: Verb, vhost: str, exchange: str, routing_key: str) -> bool:
    permission = user.topic_permissions.get(vhost, {}).get(exchange)
    if permission is None or verb == "configure":
        return True
    return is_match(permission.write if verb == "write" else permission.read, routing_key, user.name, vhost)
