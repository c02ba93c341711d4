"""The papers' algorithms in plain Python: the oracle, the baseline and the explanation.

There are three kinds. Those for queries have ``add(key, query)`` and ``match(properties, topic, body)``; those for
topics have ``add(key, pattern, dialect)`` and ``match(topic)``; the one for fields has ``add(key, criteria,
require=...)`` and ``match(properties)``. All have ``remove(key)``, and ``match`` returns keys in the order of adding.
None may be changed from several threads."""

from __future__ import annotations

from tamis.reference.inverted_fields import InvertedFields
from tamis.reference.queries.bdd import Bdd
from tamis.reference.queries.be_tree import BeTree
from tamis.reference.queries.brute_force import BruteForce
from tamis.reference.queries.cacheable_units import CacheableUnits
from tamis.reference.queries.grouped import Grouped, GroupedInThreads
from tamis.reference.queries.k_index import KIndex
from tamis.reference.topics.inverted_topics import InvertedTopics
from tamis.reference.topics.lazy_dfa import LazyDfa
from tamis.reference.topics.trie import Trie
from tamis.reference.topics.word_cache import WordCache
from tamis.reference.topics.word_index import WordIndex

__all__ = [
    "Bdd",
    "BeTree",
    "BruteForce",
    "CacheableUnits",
    "Grouped",
    "GroupedInThreads",
    "InvertedFields",
    "InvertedTopics",
    "KIndex",
    "LazyDfa",
    "Trie",
    "WordCache",
    "WordIndex",
]
