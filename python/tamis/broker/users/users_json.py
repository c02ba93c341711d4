"""Users to JSON and back; what is read is checked.

{"version": 1, "users": {"ann": {
    "password": "$argon2id$...", "roles": ["administrator"], "local_only": false,
    "permissions": {"/": {"configure": "ann\\\\..*", "write": ".*", "read": ".*"}},
    "topic_permissions": {"/": {"amq.topic": {"write": "{username}\\\\..*", "read": ".*"}}},
    "limits": {"connections": 100, "queues": 100}}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from tamis.broker.login import passwords
from tamis.broker.users.patterns import check_pattern
from tamis.broker.users.user import ROLES, Limits, Permission, TopicPermission, User, Users, check_user_name
from tamis.errors import AccessError, QueryError

_VERSION = 1


def users_to_json(users: Users) -> dict[str, Any]:
    """Return the whole document."""
    return {"version": _VERSION, "users": {name: user_to_json(user) for name, user in users.items()}}


def users_from_json(document: Any) -> Users:
    """Return the users of a document, by name.

    Raises:
        AccessError: something in it is not valid.
    """
    content = _table(document, "the file", ("version", "users"))
    if content.get("version") != _VERSION:
        raise AccessError(f"expected version {_VERSION}, not {content.get('version')!r}: a newer tamis has written it")
    users = _table(content.get("users"), "users")
    return MappingProxyType({name: _user(name, fields) for name, fields in users.items()})


def user_to_json(user: User) -> dict[str, Any]:
    """Return a user as the document has it, without the name."""
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


def _user(name: str, document: Any) -> User:
    where = f"user '{name}'"
    check_user_name(name)
    keys = ("password", "roles", "local_only", "permissions", "topic_permissions", "limits")
    fields = _table(document, where, keys)
    password, roles, local_only = fields.get("password"), fields.get("roles", []), fields.get("local_only", False)
    if password is not None and not (isinstance(password, str) and passwords.is_hash(password)):
        raise AccessError(f"{where}: password: expected an argon2 hash or null")
    if not isinstance(roles, list) or not set(map(str, roles)) <= set(ROLES):
        raise AccessError(f"{where}: roles: expected some of {', '.join(ROLES)}, not {roles!r}")
    if not isinstance(local_only, bool):
        raise AccessError(f"{where}: local_only: expected true or false, not {local_only!r}")
    permissions = _table(fields.get("permissions", {}), f"{where}: permissions")
    topics = _table(fields.get("topic_permissions", {}), f"{where}: topic_permissions")
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
        limits=_limits(fields.get("limits", {}), f"{where}: limits"),
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
    fields = _table(document, where, keys)
    for verb, pattern in fields.items():
        if not isinstance(pattern, str):
            raise AccessError(f"{where}: {verb}: expected a regular expression as text, not {pattern!r}")
        try:
            check_pattern(pattern)
        except QueryError as error:
            raise AccessError(f"{where}: {verb}: {error.summary}") from error
    return fields


def _limits(document: Any, where: str) -> Limits:
    fields = _table(document, where, ("connections", "queues"))
    for name, limit in fields.items():
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise AccessError(f"{where}: {name}: expected a whole number from 0 or null, not {limit!r}")
    return Limits(**fields)


def _table(document: Any, where: str, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise AccessError(f"{where}: expected a table, not {str(document)[:60]!r}")
    if keys is not None and (unknown := set(document) - set(keys)):
        raise AccessError(f"{where}: unknown key '{min(unknown)}'; known: {', '.join(keys)}")
    return document
