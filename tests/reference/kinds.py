"""Lists the reference algorithms of each kind, by the names of their classes."""

from __future__ import annotations

from collections.abc import Callable

from tamis import reference
from tamis.reference.queries.query_matcher import QueryMatcher
from tamis.reference.topics.topic_matcher import TopicMatcher

TOPIC_MATCHERS: dict[str, Callable[[], TopicMatcher]] = {
    "InvertedTopics": reference.InvertedTopics,
    "InvertedTopics, 3 names": lambda: reference.InvertedTopics(names_max=3),
    "WordCache": reference.WordCache,
    "WordCache, 3 topics": lambda: reference.WordCache(topics_max=3),
    "WordIndex": reference.WordIndex,
    "Trie": reference.Trie,
    "LazyDfa": reference.LazyDfa,
    "LazyDfa, 3 states": lambda: reference.LazyDfa(states_max=3),
}
QUERY_MATCHERS: dict[str, Callable[[], QueryMatcher]] = {
    "CacheableUnits": reference.CacheableUnits,
    "KIndex": reference.KIndex,
    "KIndex, 2 conjunctions": lambda: reference.KIndex(conjunctions_max=2),
    "BeTree": reference.BeTree,
    "BeTree, 2 conjunctions": lambda: reference.BeTree(conjunctions_max=2),
    "Bdd": reference.Bdd,
    "Bdd, 3 terms and 3 steps": lambda: reference.Bdd(terms_max=3, steps_max=3),
    "Grouped": reference.Grouped,
    "Grouped, a and price": lambda: reference.Grouped(identifiers=["a", "price"]),
    "GroupedInThreads": lambda: reference.GroupedInThreads(identifiers=["c.d"], threads=2),
}
"""Small bounds beside the usual ones, so that tests reach the bound too."""
