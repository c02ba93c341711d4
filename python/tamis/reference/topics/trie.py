"""The trie: the words of all patterns in one tree, which the words of a topic walk from the root.

At each node the walk continues with the topic's word, with ``*``, and with ``#`` and every tail of the remaining topic.
Patterns that begin alike share their nodes.

Cost: the words of a pattern to add or remove it; for a message, the branches that it walks, whatever the number of
patterns. "Good size complexity; adding a new binding is cheap; and it is the easiest to implement."
Cannot: bound the walk. It backtracks, so that a pattern with many ``#`` (``#.a.#.a.#.z``) costs time exponential in
their number. The core compares patterns greedily instead, so that only the last ``#`` is ever tried again.

Source: the RabbitMQ paper, "The trie"."""

from __future__ import annotations

from dataclasses import dataclass, field

from tamis.reference.topics.topic_matcher import TopicMatcher, Words


@dataclass(eq=False)
class Node:
    """A node of the trie: the child for each word, and the subscriptions whose patterns end here."""

    children: dict[str, Node] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)

    def insert(self, pattern: Words, number: int) -> None:
        """Create the path of `pattern` below this node and put `number` at its end."""
        node = self
        for word in pattern:
            node = node.children.setdefault(word, Node())
        node.numbers.add(number)

    def delete(self, pattern: Words, number: int) -> None:
        """Undo `insert`, and remove nodes that have become useless."""
        path = [self]
        for word in pattern:
            path.append(path[-1].children[word])
        path[-1].numbers.discard(number)
        for parent, word, node in reversed(list(zip(path, pattern, path[1:], strict=False))):
            if not node.children and not node.numbers:
                del parent.children[word]


class Trie(TopicMatcher):
    """A trie of patterns.

    The paper's four patterns and its message, which goes through ``#`` with "d.d.d.c", "d.d.c", "d.c", "c" and "":

    >>> trie = Trie()
    >>> for pattern in ["a.b.c", "a.*.b.c", "a.#.c", "b.b.c"]:
    ...     trie.add(pattern, pattern)
    >>> trie.match("a.d.d.d.c")
    ['a.#.c']
    """

    def __init__(self) -> None:
        super().__init__()
        self._root = Node()

    def _insert(self, number: int, spelled: list[Words]) -> None:
        for pattern in spelled:
            self._root.insert(pattern, number)

    def _delete(self, number: int, spelled: list[Words]) -> None:
        for pattern in spelled:
            self._root.delete(pattern, number)

    def _find(self, topic: Words) -> set[int]:
        matched: set[int] = set()
        self._walk(self._root, topic, matched)
        return matched

    def _walk(self, node: Node, topic: Words, matched: set[int]) -> None:
        if (after_hash := node.children.get("#")) is not None:
            for taken in range(len(topic) + 1):
                self._walk(after_hash, topic[taken:], matched)
        if not topic:
            matched |= node.numbers
            return
        for word in {topic[0], "*"} - {"#"}:
            if (child := node.children.get(word)) is not None:
                self._walk(child, topic[1:], matched)
