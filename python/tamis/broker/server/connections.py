"""Every client's connection from the first byte to the last: admission, handshake, data plane, closing."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial

from tamis.broker.config import BrokerConfig
from tamis.broker.log import Log
from tamis.broker.login.handshake import Agreed, Handshake, Offer, Open
from tamis.broker.rules import Rules
from tamis.broker.server.connection import ClientConnection
from tamis.broker.server.data_plane import DataPlane, now_us
from tamis.broker.server.logins import Logins
from tamis.broker.server.users_watch import NAMES_MAX, UsersChange
from tamis.broker.users.access import Refusal

LINGER_S = 5.0
"""Maximum time that a client has to take its last bytes and to close its socket; then the socket is aborted."""
TELL_AT = 0.9
"""Share of the handshake's time after which the client is told that it is over; at the end the socket is aborted."""
SPECIFIED_QOS_CLIENTS = frozenset(("py-amqp",))
"""Products whose basic.qos without `global` applies to the channel, as the specification says. kombu, and Celery with
it, expects that of every broker that is not RabbitMQ: it widens the prefetch of an existing consumer, so that delayed
tasks do not hold up others."""


class Connections:
    """The sockets of all clients.

    Args:
        config: limits, and whether the network may be read by others.
        plane: gets the connections whose handshake is done.
        rules: decide who may connect.
        log: gets connections that are refused.
        when_empty: called when the last connection has closed after `stop`.
    """

    def __init__(
        self, config: BrokerConfig, plane: DataPlane, rules: Rules, log: Log, when_empty: Callable[[], None]
    ) -> None:
        limits = config.limits
        self.plane = plane
        self.logins = Logins(rules, log)
        self.is_insecure = config.insecure
        self.is_stopping = False
        self.sockets_count = 0
        self.sockets_max = limits.connections
        self._rules = rules
        self._log = log
        self._when_empty = when_empty
        self._offer = Offer(limits.channels, limits.frame_bytes, limits.heartbeat_s)
        self._handshake_s = limits.handshake_s
        self._takes_over = config.mailboxes.second_client == "take_over"
        self._identified: dict[tuple[str, str], ClientConnection] = {}
        self._open_by_user: Counter[str] = Counter()
        self._handshaking: OrderedDict[ClientConnection, None] = OrderedDict()

    # ---- the life of a connection ----

    def add(self, connection: ClientConnection) -> None:
        """Begin the handshake of a client that has connected.

        Where there are too many sockets, the one whose handshake has lasted longest makes room; without such a one, the
        new socket is refused.
        """
        self.sockets_count += 1
        refused = self._one_too_many(connection)
        if refused is not None:
            self._log.warning("connection refused", peer=refused.peer.name, reason="too many connections")
            self._handshaking.pop(refused, None)
            refused.transport.abort()
        if refused is connection:
            return
        connection.handshake = Handshake(connection.peer, self._offer)
        self._handshaking[connection] = None
        now_s = _now_s()
        connection.end_s = now_s + self._handshake_s
        connection.call_at(now_s + TELL_AT * self._handshake_s, partial(self._tell_slow, connection))

    def _one_too_many(self, connection: ClientConnection) -> ClientConnection | None:
        """Return the connection that is to go, if one is."""
        if self.is_stopping:
            return connection
        return next(iter(self._handshaking), connection) if self.sockets_count > self.sockets_max else None

    def _tell_slow(self, connection: ClientConnection) -> None:
        """Refuse a handshake that takes too long."""
        connection.call_at(connection.end_s, connection.transport.abort)
        if connection.handshake is not None:
            connection.handshake.refuse(320, "CONNECTION_FORCED - the handshake took too long")
            connection.continue_handshake(None)

    def admit(self, handshake: Handshake, question: Open) -> None:
        """Answer whether the user may enter the virtual host."""
        user = handshake.agreed.user if handshake.agreed else ""
        refusal = self._rules.access.may_open(user, question.vhost, self._open_by_user[user])
        if refusal is None and question.identity:
            refusal = self._refuse_identity(user, question)
        if refusal is None:
            handshake.admit()
        else:
            handshake.refuse(refusal.code, refusal.text)

    def _refuse_identity(self, user: str, question: Open) -> Refusal | None:
        """Return why a client may not have the identity that it asks for; let it take over if so configured."""
        if refusal := self._rules.access.may_identify(user, question.vhost, question.identity):
            return refusal
        other = self._identified.get((question.vhost, question.identity))
        if other is None:
            return None
        if not self._takes_over:
            text = (
                f"identity '{question.identity}' in vhost '{question.vhost}' is in use by a client at {other.peer.name}"
            )
            return Refusal(405, f"RESOURCE_LOCKED - {text}")
        self.plane.close(other.number, f"another client has taken over the identity '{question.identity}'")
        asyncio.get_running_loop().call_soon(self.plane.flush)
        return None

    def open(self, connection: ClientConnection, handshake: Handshake) -> None:
        """Give a connection to the data plane: its handshake is done."""
        agreed = handshake.agreed
        if agreed is None:
            return
        connection.handshake = None
        connection.cancel_timer()
        self._handshaking.pop(connection, None)
        connection.user, connection.vhost = sys.intern(agreed.user), sys.intern(agreed.vhost)
        connection.number = self._connect(agreed, connection.peer.name)
        connection.identity = agreed.identity
        if agreed.identity:
            self._identified[agreed.vhost, agreed.identity] = connection
        self.plane.clients[connection.number] = connection
        self._open_by_user[connection.user] += 1
        self._log.debug("connection opened", peer=connection.peer.name, user=agreed.user, **agreed.client)
        if agreed.remaining:
            self.plane.receive(connection.number, agreed.remaining)
        self.plane.flush()

    def _connect(self, agreed: Agreed, peer: str) -> int:
        return self.plane.broker.connect(
            user=agreed.user,
            vhost=agreed.vhost,
            frame_max=agreed.frame_bytes_max,
            channel_max=agreed.channel_max,
            heartbeat_s=agreed.heartbeat_s,
            peer=peer,
            client_name=agreed.client.get("connection_name", agreed.client.get("product", "")),
            knows_blocked="connection.blocked" in agreed.capabilities,
            knows_cancel="consumer_cancel_notify" in agreed.capabilities,
            qos_is_for_channel=agreed.client.get("product") in SPECIFIED_QOS_CLIENTS,
            now_us=now_us(),
            identity=agreed.identity,
        )

    def refused(self, connection: ClientConnection, reason: str) -> None:
        """Note that a handshake has failed."""
        connection.call_at(min(connection.end_s, _now_s() + LINGER_S), connection.transport.abort)
        self._log.warning("handshake failed", peer=connection.peer.name, reason=reason)

    def end(self, connection: ClientConnection) -> None:
        """Close the socket of a connection that the data plane has ended, soon, whatever the client does."""
        self.forget(connection)
        connection.hang_up()
        connection.call_at(_now_s() + LINGER_S, connection.transport.abort)

    def remove(self, connection: ClientConnection) -> None:
        """Forget a connection whose socket is closed."""
        self.sockets_count -= 1
        connection.handshake = None
        self._handshaking.pop(connection, None)
        number = self.forget(connection)
        if number >= 0:
            self.plane.broker.disconnect(number, now_us())
            self.plane.flush()

    def forget(self, connection: ClientConnection) -> int:
        """Take a connection off the list of open ones; return the number that it had."""
        number, connection.number = connection.number, -1
        key = (connection.vhost, connection.identity)
        if self._identified.get(key) is connection:
            del self._identified[key]
        if self.plane.clients.pop(number, None) is not None:
            self._open_by_user[connection.user] -= 1
            if not self._open_by_user[connection.user]:
                del self._open_by_user[connection.user]
            self._tell_when_empty()
        return number

    # ---- all connections at once ----

    def change_access(self, change: UsersChange) -> None:
        """Put other users into force, and close connections that are no longer permitted."""
        access = self._rules.access = change.access
        for user in change.users if len(change.users) <= NAMES_MAX else [None]:
            self.plane.broker.forget_permissions(user)
        for connection in list(self.plane.clients.values()):
            if connection.user in change.users and access.may_open(connection.user, connection.vhost, -1) is not None:
                self.plane.close(connection.number, "the user is gone, or may not be here any longer")
        self.plane.flush()

    def stop(self) -> None:
        """Take no further connections, and ask the clients to close theirs."""
        self.is_stopping = True
        for connection in list(self._handshaking):
            connection.transport.abort()
        self.plane.broker.stop("the broker is stopping", now_us())
        self.plane.flush()
        self._tell_when_empty()

    def abort_all(self) -> None:
        """Cut every open connection."""
        for connection in list(self.plane.clients.values()):
            connection.transport.abort()

    def _tell_when_empty(self) -> None:
        if self.is_stopping and not self.plane.clients:
            self._when_empty()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
