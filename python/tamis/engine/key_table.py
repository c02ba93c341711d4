"""Maps ids of subscriptions to their keys: matches read it without a lock, changes write it.

A match returns ids of the one state that it saw, and looks up their keys afterwards, when the engine may have changed
again. Two rules make sure that it finds all of them: a key is added before its id can be matched, and a removed key
stays until all matches that began before its removal have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Generic

from tamis import _core
from tamis.engine.keys import K, decode_key
from tamis.errors import SnapshotError


class Removal(Generic[K]):
    """A removed key, linked through `next` to all keys that were removed after it.

    The newest removal is empty and waits for its key. A match holds the removal that was the newest when it began.
    Nothing else holds the older ones, so they are freed when the last match that may need them ends."""

    __slots__ = ("key", "next", "subscription_id")

    subscription_id: int
    key: K
    next: Removal[K] | None

    def __init__(self) -> None:
        self.next = None


class KeyTable(Generic[K]):
    """Key -> id and id -> key. Reading takes no lock; a change needs the engine's lock."""

    def __init__(self, core: _core.Engine, *, is_empty: bool) -> None:
        self._core = core
        self._ids: dict[K, int] | None = {} if is_empty else None  # None: still in the mapped snapshot
        self.by_id: _core.KeyArray[K] = _core.KeyArray()
        self.newest_removal: Removal[K] = Removal()

    def ids(self) -> dict[K, int]:
        """Return key -> id, read from the mapped snapshot on first use; do not change it.

        Raises:
            SnapshotError: the snapshot is damaged.
        """
        if self._ids is None:
            ids = self._core.ids()
            missing = self.by_id.missing(ids)
            self.by_id.update(missing, self._read(missing))
            self._ids = {self.by_id[subscription_id]: subscription_id for subscription_id in ids}
        return self._ids

    def expect(self, keys: list[K]) -> None:
        """Record the keys of the ids that the core will give next."""
        first = self._core.next_id()
        self.by_id.update(list(range(first, first + len(keys))), keys)

    def add(self, subscription_ids: list[int], keys: list[K]) -> None:
        """Record the keys of ids that the core has given."""
        # Once more, because a finalizer may have added a key since `expect`.
        self.by_id.update(subscription_ids, keys)
        if self._ids is not None:
            self._ids.update(zip(keys, subscription_ids, strict=True))

    def remove(self, subscription_id: int) -> None:
        """Forget the key of an id, once the core has removed it."""
        key, newest = self.by_id[subscription_id], Removal[K]()
        removal = self.newest_removal
        removal.subscription_id, removal.key = subscription_id, key
        removal.next = newest  # after its key, since others follow it without a lock
        self.newest_removal = newest
        if self._ids is not None:
            del self._ids[key]
        del self.by_id[subscription_id]

    def keys_of(self, subscription_ids: Iterable[int], since: Removal[K] | None = None) -> list[K]:
        """Return the keys of ids, in the order given.

        Args:
            subscription_ids: the ids of subscriptions that exist, or existed when `since` was the newest removal.
            since: the newest removal before the ids were matched; without it, removed keys are not known.

        Raises:
            KeyError: an id that no subscription has, without `since`.
            SnapshotError: the same, with `since`: the snapshot is damaged.
        """
        wanted = list(subscription_ids)
        keys = self.by_id.all_of(wanted)
        if keys is None and self._ids is None:
            self._read_ahead(wanted)
            keys = self.by_id.all_of(wanted)
        return list(map(self.key_of(since), wanted)) if keys is None else keys

    def key_of(self, since: Removal[K] | None = None) -> Callable[[int], K]:
        """Return a function that returns the key of an id, as `keys_of` does for many."""
        removed = _Removed(since)
        return lambda subscription_id: self._key(subscription_id, removed)

    def lost(self, key: K, subscription_id: int) -> KeyError | SnapshotError:
        """Return the error for a key whose subscription the core does not have: it was just removed, or never there."""
        return damaged(subscription_id) if self.ids().get(key) == subscription_id else KeyError(key)

    def _read(self, subscription_ids: list[int]) -> list[K]:
        """Return keys that stand in the mapped snapshot.

        Raises:
            SnapshotError: the snapshot is damaged, or has no such id.
        """
        keys: list[K] = []
        for subscription_id, encoded in zip(subscription_ids, self._core.key_bytes(subscription_ids), strict=True):
            if encoded is None:
                raise damaged(subscription_id)
            keys.append(decode_key(encoded))
        return keys

    def _read_ahead(self, subscription_ids: list[int]) -> None:
        """Keep the keys of ids of the mapped snapshot that were not asked for before, so that each is read once."""
        missing = self.by_id.missing(subscription_ids)
        encoded = zip(missing, self._core.key_bytes(missing), strict=True)
        read = {subscription_id: decode_key(key) for subscription_id, key in encoded if key is not None}
        self.by_id.update(list(read), list(read.values()))
        if self._ids is not None:  # another thread has changed the engine meanwhile, and may have removed some
            for subscription_id, key in read.items():
                if self._ids.get(key) != subscription_id:
                    with suppress(KeyError):
                        del self.by_id[subscription_id]

    def _key(self, subscription_id: int, removed: _Removed[K]) -> K:
        if self._ids is None:
            self._read_ahead([subscription_id])
        try:
            return self.by_id[subscription_id]
        except KeyError:
            return removed.key(subscription_id)


def damaged(subscription_id: int) -> SnapshotError:
    """Return the error of a snapshot in which an id stands that no subscription has."""
    return SnapshotError(f"the snapshot is damaged: there is no subscription with the id {subscription_id}")


class _Removed(Generic[K]):
    """The removals from one of them on, read only as far as needed."""

    def __init__(self, since: Removal[K] | None) -> None:
        self._next = since
        self._is_matched = since is not None  # the core gave the ids, so each of them has or had a key
        self._keys: dict[int, K] = {}

    def key(self, subscription_id: int) -> K:
        while self._next and self._next.next:
            self._keys[self._next.subscription_id] = self._next.key
            self._next = self._next.next
        if self._is_matched and subscription_id not in self._keys:
            raise damaged(subscription_id)
        return self._keys[subscription_id]
