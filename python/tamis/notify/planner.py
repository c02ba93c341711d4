"""Plans when the deliveries of one channel are sent to their owners, and records what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tamis.config.owners import OwnerConfig, find_owner
from tamis.notify.rhythm import Decision, SentAlone, decide, window_start
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
        # Owner, and query or None for all -> window, sent alone in it.
        self._sent: dict[tuple[str, str | None], tuple[datetime, int]] = {}

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
        start = window_start(owner, one.matched_at)
        limits = {one.query_key: owner.most, None: owner.most_in_all}
        sent = {of: self._sent_since(start, one.owner, of) for of, most in limits.items() if most is not None}
        decision = decide(owner, one.matched_at, SentAlone(sent.get(one.query_key, 0), sent.get(None, 0)))
        if decision.until is None:
            self._sent |= {(one.owner, of): (start, count + 1) for of, count in sent.items()}
        return decision

    def _sent_since(self, start: datetime, owner: str, query_key: str | None) -> int:
        """Return how many were sent alone in the window that began at `start`."""
        window, sent = self._sent.get((owner, query_key), (None, 0))
        return sent if window == start else self._store.sent_alone(self._name, owner, query_key, start)
