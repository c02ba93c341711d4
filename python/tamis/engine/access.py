"""Finds the access keys of a query: conditions of which one must hold, or the query is not true.

It reads the query's tree. An AND needs what any of its operands needs, an OR what all of them need together. NOT is
pushed down to the predicates, and a negated predicate needs nothing."""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from tamis._core import Query

_ON_TOPIC: Final = re.compile(r"(topic = |TOPIC\()'((?:[^']|'')*)'")
_INT_MIN: Final = -(2**63)
_SIGN: Final = 1 << 63
_ORDER_BYTES_MAX: Final = 128

Kind: TypeAlias = Literal["boolean", "number", "text", "topic"]


class AccessKey(NamedTuple):
    """A condition that a query may need.

    Attributes:
        name: the selector text of a property's name; "topic" for a predicate on the topic.
        kind: the kind of the value.
        value: what the property equals; of a predicate on the topic, the text with which all topics begin that it
            matches.
        text: the value as selector text; or the predicate on the topic.
        mark: a number of 32 bits, the same for equal keys, by which they are counted.
    """

    name: str
    kind: Kind
    value: Any
    text: str
    mark: int

    @property
    def order(self) -> bytes:
        """Bytes that sort as the values of a property, of at most about `_ORDER_BYTES_MAX`."""
        is_text = isinstance(self.value, str)
        value = self.value.encode("utf-8", "surrogatepass") if is_text else _order_of_number(self.value)
        return f"{self.name}\0{self.kind}\0".encode() + value[:_ORDER_BYTES_MAX]


class AnyOf(NamedTuple):
    """One of these is needed."""

    needs: list[Need]


class AllOf(NamedTuple):
    """All of these are needed, so that any of them will do."""

    needs: list[Need]


Need: TypeAlias = AccessKey | AnyOf | AllOf
"""What must hold for a query to be true."""


def need_of(query: Query) -> Need | None:
    """Return what the query needs; None if it has no access key. Cost: about 5 µs per predicate."""
    return _need(query.tree(), is_negated=False)


def keys_of(need: Need | None) -> Iterator[AccessKey]:
    """Yield every access key in a need."""
    if isinstance(need, AccessKey):
        yield need
    elif need is not None:
        for inner in need.needs:
            yield from keys_of(inner)


def rarest(need: Need, count_of: Callable[[AccessKey], int]) -> list[AccessKey]:
    """Return the access keys that the fewest queries have, of which one must hold.

    Args:
        need: of the query.
        count_of: returns how many queries have a key.
    """
    return _rarest(need, count_of)[1]


def quoted(name: str) -> str:
    """Return the selector text of a property's name, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def _rarest(need: Need, count_of: Callable[[AccessKey], int]) -> tuple[int, list[AccessKey]]:
    if isinstance(need, AccessKey):
        return count_of(need), [need]
    found = [_rarest(inner, count_of) for inner in need.needs]
    if isinstance(need, AllOf):
        return min(found, key=lambda it: it[0])
    return sum(count for count, _ in found), [key for _, keys in found for key in keys]


def _need(tree: Any, *, is_negated: bool) -> Need | None:
    match tree:
        case ("not", inner):
            return _need(inner, is_negated=not is_negated)
        case ("and" | "or" as kind, operands):
            needs = [_need(operand, is_negated=is_negated) for operand in operands]
            known = [need for need in needs if need is not None]
            if (kind == "and") != is_negated:
                return AllOf(known) if known else None
            return AnyOf(known) if len(known) == len(needs) else None
        case ("=", name, values, _) if not is_negated:
            return _of_values(name, values)
        case ("predicate", predicate) if not is_negated:
            return _of_topic(str(predicate))
    return None


def _of_values(name: str, values: Iterable[Any]) -> Need | None:
    """Return the keys of ``name IN (values)``; None if one has no literal, such as NaN."""
    found = [_of_value(quoted(name), value) for value in values]
    keys: list[Need] = [key for key in found if key is not None]
    return AnyOf(keys) if keys and len(keys) == len(found) else None


def _of_value(name: str, value: Any) -> AccessKey | None:
    if isinstance(value, bool):
        return _key(name, "boolean", value, "TRUE" if value else "FALSE")
    if isinstance(value, str):
        return _key(name, "text", value, "'" + value.replace("'", "''") + "'")
    if isinstance(value, int | float) and math.isfinite(value) and value != _INT_MIN:  # which has no literal
        return _key(name, "number", value, repr(value))
    return None


def _key(name: str, kind: Kind, value: Any, text: str) -> AccessKey:
    return AccessKey(name, kind, value, text, zlib.crc32(f"{name} {text}".encode("utf-8", "surrogatepass")))


def _of_topic(predicate: str) -> AccessKey | None:
    """Return the key of a test of the topic for a text, or for a pattern that begins with a word."""
    found = _ON_TOPIC.match(predicate)
    if found is None:
        return None
    begin = found[2].replace("''", "'")
    if found[1] != "topic = ":
        words = begin.split(".")
        known = list(takewhile(lambda word: "*" not in word and "#" not in word, words))
        if not known:
            return None
        begin = ".".join(known)
    return _key("topic", "topic", begin, predicate)


def _order_of_number(value: float) -> bytes:
    """Return eight bytes that sort as numbers do; two large integers that give the same float have the same."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))
    return struct.pack(">Q", bits ^ (2**64 - 1) if bits & _SIGN else bits | _SIGN)
