"""Plans when the deliveries of one channel are sent to their owners, and records what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tamis.config.owners import OwnerConfig, find_owner
from tamis.notify.rhythm import Decision, decide, window_start
from tamis.store import Store
from tamis.store.records import Hold, Undecided

_PAGE = 500


class Planner:
    """Decides for each delivery of a channel, once and before its first try, when it is sent.

    Args:
        name: the delivery's name.
        owners: name -> settings; what belongs to nobody among them is sent at once.
        store: the outbox.
    """

    def __init__(self, name: str, owners: Mapping[str, OwnerConfig], store: Store) -> None:
        self._name, self._owners, self._store = name, owners, store
        self._sent: dict[tuple[str, str], tuple[datetime, int]] = {}  # owner, query -> window, sent alone in it

    def plan(self) -> None:
        """Decide what is undecided."""
        while page := self._store.undecided(self._name, _PAGE):
            self._store.hold([self._hold(one) for one in page])

    def _hold(self, one: Undecided) -> Hold:
        owner = find_owner(self._owners, one.owner)
        decision = Decision() if owner is None else self._decide(owner, one)
        if decision.until is None:
            return Hold(one.delivery_id)
        digest = f"{one.owner}@{decision.until:%Y-%m-%dT%H:%M:%S.%fZ}"
        return Hold(one.delivery_id, digest, decision.until, decision.step, decision.reason)

    def _decide(self, owner: OwnerConfig, one: Undecided) -> Decision:
        if owner.most is None:
            return decide(owner, one.matched_at, 0)
        start, key = window_start(owner, one.matched_at), (one.owner, one.query_key)
        window, sent = self._sent.get(key, (None, 0))
        if window != start:
            sent = self._store.sent_alone(self._name, one.owner, one.query_key, start)
        decision = decide(owner, one.matched_at, sent)
        self._sent[key] = (start, sent + (decision.until is None))
        return decision
