"""Where a message goes, by the definitions of AMQP: every binding is looked at, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.program import BindingSpec, ExchangeSpec

Headers = dict[str, object]

QUERIES: dict[str, Callable[[str, Headers], bool]] = {
    "number > 4": lambda key, headers: headers["number"] > 4,
    "number <= 4 AND text = 'a'": lambda key, headers: headers["number"] <= 4 and headers["text"] == "a",
    "text IN ('b', 'c') OR topic = 'a.b'": lambda key, headers: headers["text"] in "bc" or key == "a.b",
    "topic LIKE 'a%' AND NOT number = 3": lambda key, headers: key.startswith("a") and headers["number"] != 3,
}
"""Queries of bindings, and what they mean."""


def topic_matches(pattern: list[str], key: list[str]) -> bool:
    """Return whether the words of a key match a topic pattern: `*` is one word, `#` any number of words."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(topic_matches(pattern[1:], key[count:]) for count in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and topic_matches(pattern[1:], key[1:])


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _headers_match(arguments: Headers, headers: Headers) -> bool:
    wanted = {name: value for name, value in arguments.items() if not name.startswith("x-")}
    found = [headers.get(name) == value for name, value in wanted.items()]
    return any(found) if arguments.get("x-match") == "any" else all(found)


def takes(kind: str, binding: BindingSpec, key: str, headers: Headers) -> bool:
    """Return whether a binding of an exchange of this type takes a message."""
    arguments = dict(binding.arguments)
    query = arguments.get("x-query")
    if query is not None and not QUERIES[str(query)](key, headers):
        return False
    if kind == "direct":
        return binding.key == key
    if kind == "topic":
        return topic_matches(_words(binding.key), _words(key))
    if kind == "headers":
        return _headers_match(arguments, headers)
    return True


@dataclass
class Topology:
    """The exchanges and bindings that exist now, and the names of the queues."""

    exchanges: dict[str, ExchangeSpec] = field(default_factory=dict)
    bindings: list[BindingSpec] = field(default_factory=list)

    def copy(self) -> Topology:
        """Return a copy that changes separately."""
        return Topology(dict(self.exchanges), list(self.bindings))

    def route(self, exchange: str, key: str, headers: Headers, queues: set[str]) -> set[str]:
        """Return the queues that a message goes to. Each exchange is passed once.

        Raises:
            KeyError: there is no such exchange.
        """
        if not exchange:
            return {key} & queues
        found: set[str] = set()
        passed, pending = {exchange}, [self.exchanges[exchange]]
        while pending:
            spec = pending.pop()
            taking = [it for it in self.bindings if it.source == spec.name and takes(spec.kind, it, key, headers)]
            found.update(it.target for it in taking if not it.to_exchange)
            onward = [it.target for it in taking if it.to_exchange]
            if not taking and spec.alternate is not None:
                if spec.alternate:
                    onward = [spec.alternate]
                else:
                    found |= {key} & queues
            for name in onward:
                if name in self.exchanges and name not in passed:
                    passed.add(name)
                    pending.append(self.exchanges[name])
        return found

    def remove_target(self, name: str, *, is_exchange: bool) -> None:
        """Remove the bindings from and to what was deleted."""
        self.bindings = [
            it
            for it in self.bindings
            if (it.target, it.to_exchange) != (name, is_exchange) and not (is_exchange and it.source == name)
        ]

    def restarted(self, durable_queues: set[str]) -> Topology:
        """Return what survives a restart."""
        exchanges = {name: spec for name, spec in self.exchanges.items() if spec.durable}
        bindings = [
            it
            for it in self.bindings
            if it.source in exchanges and it.target in (exchanges if it.to_exchange else durable_queues)
        ]
        return Topology(exchanges, bindings)
