"""The papers' algorithms in plain Python: the oracle, the baseline and the explanation.

Every engine here has ``add(key, query)``, ``remove(key)`` and ``match(properties, topic, body)``, which gives keys in
the order in which they were added."""

from __future__ import annotations

from tamis.reference.brute_force import BruteForce

__all__ = ["BruteForce"]
