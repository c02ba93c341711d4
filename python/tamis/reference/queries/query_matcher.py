"""The common part of the algorithms for Boolean queries: their interface, and a message while it is matched.

The core evaluates every predicate, one at a time, so that the algorithms differ from brute force only in what they
look at, and never in what it means. Each evaluation hands the message over again, which takes microseconds, so these
classes count work (``evaluated``) instead of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING

from tamis.message import Body, Properties
from tamis.query import Query
from tamis.reference.numbering import Numbering
from tamis.reference.values import Point, point, reached

if TYPE_CHECKING:
    from tamis._core import _Tree as Tree

Hierarchies = Mapping[str, Mapping[str, str | None]]


class Message:
    """One message, and the queries that were evaluated for it."""

    def __init__(self, properties: Properties | None, topic: str | None, body: Body, hierarchies: Hierarchies) -> None:
        self._parts = properties, topic, body
        self._hierarchies = dict(hierarchies)
        self._points: dict[str, set[Point]] = {}
        self.evaluated: list[Query] = []

    def truth(self, query: Query) -> bool | None:
        """Evaluate `query`."""
        self.evaluated.append(query)
        return query.evaluate(*self._parts, hierarchies=self._hierarchies)

    def points(self, name: str) -> set[Point]:
        """Return the points of a property's values, without values that equal nothing; computed once."""
        points = self._points.get(name)
        if points is None:
            values = {point(value) for value in reached(self._parts[0], name) or ()}
            points = self._points[name] = {value for value in values if value is not None}
        return points


class QueryMatcher(ABC):
    """Standing queries. Each algorithm defines where a query is put and how a message finds it.

    Attributes:
        evaluated: what was evaluated for the last message, in order: predicates, or whole queries kept aside.
    """

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._queries: dict[int, Query] = {}
        self._hierarchies: dict[str, Mapping[str, str | None]] = {}
        self.evaluated: list[Query] = []

    def add(self, key: Hashable, query: Query) -> None:
        """Add a subscription; a key that exists gets the new query and keeps its position."""
        tree = query.tree()
        number = self._numbering.give(key)
        if number in self._queries:
            self._delete(number)
        self._queries[number] = query
        self._insert(number, tree)

    def remove(self, key: Hashable) -> None:
        """Remove a subscription; KeyError if there is none."""
        number = self._numbering.take(key)
        self._delete(number)
        del self._queries[number]

    def hierarchy(self, attribute: str, parents: Mapping[str, str | None]) -> None:
        """Replace the tree of an attribute's values."""
        self._hierarchies[attribute] = parents

    def match(
        self, properties: Properties | None = None, topic: str | None = None, body: Body = None
    ) -> list[Hashable]:
        """Return the keys of all queries that are true, in the order in which they were added."""
        message = Message(properties, topic, body, self._hierarchies)
        self.evaluated = message.evaluated
        return self._numbering.keys(self._find(message))

    @abstractmethod
    def _insert(self, number: int, tree: Tree) -> None:
        """Put a query, `_queries[number]`, where messages will find it."""

    @abstractmethod
    def _delete(self, number: int) -> None:
        """Undo `_insert`."""

    @abstractmethod
    def _find(self, message: Message) -> Iterable[int]:
        """Return the numbers of the queries that are true of `message`, each once."""


def truth(tree: Tree, of_predicate: Callable[[Query], bool | None]) -> bool | None:
    """Return the truth of `tree` from that of its predicates; it stops as soon as the result is decided.

    >>> from tamis import selector
    >>> truth(selector("a = 1 OR NOT b = 2").tree(), lambda predicate: None)
    """
    match tree:
        case ("and", children):
            return _fold((truth(child, of_predicate) for child in children), deciding=False)
        case ("or", children):
            return _fold((truth(child, of_predicate) for child in children), deciding=True)
        case ("not", child):
            inner = truth(child, of_predicate)
            return None if inner is None else not inner
        case _:
            return of_predicate(predicate_of(tree))


def _fold(truths: Iterable[bool | None], *, deciding: bool) -> bool | None:
    """Kleene OR if `deciding` is True, else AND: the deciding value wins, then unknown."""
    result: bool | None = not deciding
    for value in truths:
        if value is deciding:
            return deciding
        if value is None:
            result = None
    return result


def predicate_of(leaf: Tree) -> Query:
    """Return the predicate of a leaf."""
    predicate = leaf[-1]
    assert isinstance(predicate, Query)  # noqa: S101 - a leaf ends with its query
    return predicate


def predicates(tree: Tree) -> list[Query]:
    """Return every predicate of `tree`, from left to right."""
    match tree:
        case (("and" | "or"), children):
            return [predicate for child in children for predicate in predicates(child)]
        case ("not", child):
            return predicates(child)
        case _:
            return [predicate_of(tree)]
