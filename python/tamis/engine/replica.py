"""Records the changes of an engine, and applies them to engines that were opened from its snapshot.

These then match as it does and give the same ids, without reading a new snapshot. A change names what goes by id: to
apply it takes a few microseconds per query, however many others there are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tamis.engine.engine import Engine
from tamis.engine.keys import K, decode_key, encode_key
from tamis.errors import SnapshotError
from tamis.query.hierarchy import Parents
from tamis.query.spec import compile_query


class Addition(NamedTuple):
    """A query that is added: its key, which is text, a number, bytes or a tuple of them; its text; its language."""

    key: Any
    text: str
    language: str = "selector"


@dataclass(frozen=True)
class EngineChange:
    """One change of an engine.

    Attributes:
        first_id: the id of the first addition; the others follow.
        removed: the ids that go before.
        added: what comes.
        hierarchies: attribute -> value -> its parent, of those that are replaced.
    """

    first_id: int
    removed: Sequence[int]
    added: Sequence[Addition]
    hierarchies: Mapping[str, Parents]

    def encode(self) -> bytes:
        """Return the change as bytes, which `decode` reads."""
        fields = {
            "first_id": self.first_id,
            "removed": list(self.removed),
            "added": [(encode_key(it.key).hex(), it.text, it.language) for it in self.added],
            "hierarchies": {attribute: dict(parents) for attribute, parents in self.hierarchies.items()},
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the change that `encode` wrote."""
        fields = json.loads(data)
        added = [Addition(decode_key(bytes.fromhex(key)), text, language) for key, text, language in fields["added"]]
        return cls(**fields | {"added": added})


def change_engine(
    engine: Engine[K], removed: Collection[K], added: Iterable[Addition], hierarchies: Mapping[str, Parents]
) -> EngineChange:
    """Change an engine, and return the change for its replicas.

    Args:
        engine: the original.
        removed: keys that it has.
        added: with keys that it does not have, or that are removed.
        hierarchies: attribute -> value -> its parent, or None for a root.

    Raises:
        KeyError: the engine has no such key.
        ConfigError, QueryError: a query cannot be compiled; nothing was changed.
    """
    with engine._lock:
        change = EngineChange(engine._core.next_id(), engine.ids(removed), list(added), dict(hierarchies))
        apply_change(engine, change)
    return change


def apply_change(engine: Engine[Any], change: EngineChange) -> None:
    """Change an engine as its original was changed.

    Raises:
        SnapshotError: it was not in the state in which the original was before.
        ConfigError, QueryError: a query cannot be compiled here; nothing was changed.
    """
    queries = [compile_query(it.text, it.language) for it in change.added]
    with engine._lock:
        core, keys = engine._core, engine._keys
        if (next_id := core.next_id()) != change.first_id:
            raise SnapshotError(f"a change begins with the id {change.first_id}, and the next one here is {next_id}")
        keys.keys_of(change.removed)  # read while the core has them
        for subscription_id in change.removed:
            core.remove(subscription_id)
            keys.remove(subscription_id)
        new = [it.key for it in change.added]
        keys.expect(new)
        keys.add(core.change(queries, []), new)
        for attribute, parents in change.hierarchies.items():
            engine.hierarchy(attribute, parents)
