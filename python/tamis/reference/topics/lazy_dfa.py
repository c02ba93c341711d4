"""The lazy DFA: a non-deterministic automaton of all patterns, made deterministic on the fly, state by state.

The NFA is the trie of the patterns, in which ``#`` is a node that is reached without a word and stays at itself with
any word. Tails are not merged, because it matters which pattern matched. A DFA state is the set of NFA nodes that a
topic may have reached; the next state for a word is computed when it is first needed, and kept.

Cost: once built, one look-up for each word of the topic and no backtracking, however many ``#`` there are. The subset
construction costs the nodes of a state for each new word. "It occupies significantly more memory than the trie", up
to exponentially many states.
Cannot: handle changes. "There is a significant cost for adding new bindings, since the entire DFA has to be dropped
and rebuilt"; here this also holds for removing. The paper sets no bound on the states; here the DFA is also dropped
at ``states_max``.

Source: the RabbitMQ paper, "The DFA"; the construction on the fly is that of regular expression compilers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tamis.reference.topics.topic_matcher import TopicMatcher, Words
from tamis.reference.topics.trie import Node


@dataclass(eq=False)
class _State:
    """A state of the DFA: its NFA nodes (by id, and whether a ``#`` leads there), and the next state for each word."""

    nodes: dict[int, tuple[Node, bool]]
    numbers: frozenset[int]
    moves: dict[str | None, _State] = field(default_factory=dict)


class LazyDfa(TopicMatcher):
    """A DFA of patterns, built by the topics that are matched.

    >>> dfa = LazyDfa()
    >>> for pattern in ["a.b.c", "a.*.b.c", "a.#.c", "b.b.c"]:
    ...     dfa.add(pattern, pattern)
    >>> dfa.match("a.d.d.d.c"), dfa.state_count
    (['a.#.c'], 5)
    >>> dfa.match("a.x.y.z.c"), dfa.state_count  # words that no pattern has lead where "d" led
    (['a.#.c'], 5)
    """

    def __init__(self, states_max: int = 10_000) -> None:
        super().__init__()
        self._states_max = states_max
        self._nfa = Node()
        self._alphabet: dict[str, int] = {}  # words of the patterns, and how often each occurs
        self._states: dict[frozenset[int], _State] = {}

    @property
    def state_count(self) -> int:
        """The number of states that were built since the automaton was last dropped."""
        return len(self._states)

    def _insert(self, number: int, spelled: list[Words]) -> None:
        self._states.clear()
        for pattern in spelled:
            self._nfa.insert(pattern, number)
            for word in pattern:
                self._alphabet[word] = self._alphabet.get(word, 0) + 1

    def _delete(self, number: int, spelled: list[Words]) -> None:
        self._states.clear()
        for pattern in spelled:
            self._nfa.delete(pattern, number)
            for word in pattern:
                self._alphabet[word] -= 1
                if not self._alphabet[word]:
                    del self._alphabet[word]

    def _find(self, topic: Words) -> frozenset[int]:
        state = self._state([(self._nfa, False)])
        for word in topic:
            letter = word if word in self._alphabet else None  # all other words lead to the same state
            following = state.moves.get(letter)
            if following is None:
                following = state.moves[letter] = self._state(_step(state, word))
            state = following
        return state.numbers

    def _state(self, reached: Iterable[tuple[Node, bool]]) -> _State:
        """Return the state of the NFA nodes `reached`, with those that a ``#`` adds without a word."""
        nodes = {id(node): (node, is_hash) for node, is_hash in reached}
        pending = [node for node, _ in nodes.values()]
        while pending:
            after_hash = pending.pop().children.get("#")
            if after_hash is not None and id(after_hash) not in nodes:
                nodes[id(after_hash)] = (after_hash, True)
                pending.append(after_hash)
        name = frozenset(nodes)
        if name not in self._states:
            if len(self._states) >= self._states_max:
                self._states.clear()  # states still held lead on to others, but nobody asks them again
            numbers = frozenset(number for node, _ in nodes.values() for number in node.numbers)
            self._states[name] = _State(nodes, numbers)
        return self._states[name]


def _step(state: _State, word: str) -> Iterable[tuple[Node, bool]]:
    """Yield the nodes that `word` leads to; a ``#`` stays at its node."""
    for node, is_hash in state.nodes.values():
        if is_hash:
            yield node, True
        for choice in {word, "*"} - {"#"}:
            if (child := node.children.get(choice)) is not None:
                yield child, False
