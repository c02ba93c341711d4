//! The routes that messages took of late, so that one to the same exchange with the same key need not be routed again.
//!
//! A route is looked up by the user and by exchange and key as they stand on the wire: one look-up instead of one for the
//! exchange, for each permission and for the key. It is kept only when the key alone decided, and holds while the topology
//! and the permissions stay as they were.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::broker::ids::PrincipalSlot;
use crate::broker::slab::SlotId;
use crate::broker::topology::QueueId;

/// The number of places at first, and at most.
const PLACES_MIN: usize = 16;
const PLACES_MAX: usize = 1 << 14;
/// The memory of the broker that there is for each place.
const BYTES_A_PLACE: u64 = 32 * 1024;
/// The maximum number of queues of a remembered route. A larger one costs little to find, compared with its queues.
const QUEUES_MAX: usize = 64;

/// What a route is looked up by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteKey<'a> {
    /// The sender, in its vhost.
    pub principal: PrincipalSlot,
    /// Exchange and key, as on the wire.
    pub route: &'a [u8],
    /// The versions of the topology and of the permissions: other ones make other routes.
    pub versions: (u64, u64),
}

/// A route that is remembered.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    principal: u32,
    /// The hash of another route that would have had this place, and would take it at the next time.
    rival: u32,
    versions: (u64, u64),
    route: Vec<u8>,
    pub queues: Vec<QueueId>,
    /// Whether it leads to addresses.
    pub is_addressed: bool,
}

impl Memo {
    #[inline]
    fn is_of(&self, key: &RouteKey<'_>) -> bool {
        *self.route == *key.route && self.principal == key.principal.index() as u32 && self.versions == key.versions
    }

    fn heap_bytes(&self) -> usize {
        self.route.capacity() + self.queues.capacity() * size_of::<QueueId>()
    }
}

/// A table in which each route has one place. A route that is used keeps it; another one takes it when it is offered twice in
/// succession, so that keys that never recur cost little.
#[derive(Debug)]
pub(crate) struct RouteMemos {
    memos: Vec<Memo>,
    /// The place of the route that was asked for last.
    last: usize,
    filled: usize,
    places_max: usize,
    /// The memory of routes and lists of queues.
    heap_bytes: usize,
    hasher: FixedState,
}

impl RouteMemos {
    /// An empty table, as large as this memory allows.
    pub fn new(memory_bytes_max: u64, seed: u64) -> Self {
        let wanted = (memory_bytes_max / BYTES_A_PLACE).clamp(PLACES_MIN as u64, PLACES_MAX as u64);
        Self {
            memos: Vec::new(),
            last: 0,
            filled: 0,
            places_max: 1 << wanted.ilog2(),
            heap_bytes: 0,
            hasher: FixedState::with_seed(seed),
        }
    }

    #[inline]
    fn hash(&self, key: &RouteKey<'_>) -> u64 {
        self.hasher.hash_one((key.principal.index(), key.route))
    }

    /// The route of these, if it is remembered: often that of the message before.
    #[inline]
    pub fn find(&mut self, key: &RouteKey<'_>) -> Option<&Memo> {
        let is_at = |place: usize| self.memos.get(place).is_some_and(|memo| memo.is_of(key));
        if !is_at(self.last) {
            let place = self.hash(key) as usize & self.memos.len().wrapping_sub(1);
            if !is_at(place) {
                return None;
            }
            self.last = place;
        }
        let memo = &mut self.memos[self.last];
        memo.rival = 0;
        Some(memo)
    }

    /// Remember the route of these, which was not found.
    pub fn offer(&mut self, key: &RouteKey<'_>, queues: &[QueueId], is_addressed: bool) {
        if queues.len() > QUEUES_MAX {
            return;
        }
        self.grow();
        let hash = self.hash(key);
        let place = hash as usize & (self.memos.len() - 1);
        let memo = &mut self.memos[place];
        let is_taken = !memo.route.is_empty() && memo.versions == key.versions;
        let rival = (hash >> 32) as u32 | 1;
        if is_taken && memo.rival != rival {
            memo.rival = rival;
            return;
        }
        self.filled += usize::from(memo.route.is_empty());
        self.heap_bytes -= memo.heap_bytes();
        memo.principal = key.principal.index() as u32;
        memo.rival = 0;
        memo.versions = key.versions;
        memo.route.clear();
        memo.route.extend_from_slice(key.route);
        memo.queues.clear();
        memo.queues.extend_from_slice(queues);
        memo.is_addressed = is_addressed;
        self.heap_bytes += memo.heap_bytes();
    }

    /// Begin a larger table when this one is half full. What is used is offered again.
    fn grow(&mut self) {
        let places = self.memos.len();
        if places == 0 || (2 * self.filled > places && places < self.places_max) {
            let places = (4 * places).clamp(PLACES_MIN, self.places_max);
            self.memos = std::iter::repeat_with(Memo::default).take(places).collect();
            (self.filled, self.heap_bytes) = (0, 0);
        }
    }

    /// The memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.memos.capacity() * size_of::<Memo>() + self.heap_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, fewer};

    fn key(route: &[u8], versions: (u64, u64)) -> RouteKey<'_> {
        RouteKey { principal: PrincipalSlot::from_index(0), route, versions }
    }

    fn queues(number: u32) -> Vec<QueueId> {
        (0..number % 5).map(|index| QueueId::from_index(number + index)).collect()
    }

    #[test]
    fn a_route_holds_for_its_sender_and_while_nothing_changes() {
        let mut memos = RouteMemos::new(1 << 29, 7);
        let known = key(b"\x01a\x01b", (1, 1));
        assert!(memos.find(&known).is_none());
        memos.offer(&known, &queues(3), true);
        let found = memos.find(&known).expect("offered");
        assert_eq!((&found.queues, found.is_addressed), (&queues(3), true));
        for other in [
            key(b"\x01a\x01c", (1, 1)),
            key(b"\x01a\x01b", (2, 1)),
            key(b"\x01a\x01b", (1, 2)),
            RouteKey { principal: PrincipalSlot::from_index(1), ..known },
        ] {
            assert!(memos.find(&other).is_none(), "{other:?}");
        }
        memos.offer(&key(b"\x01a\x01d", (1, 1)), &[QueueId::from_index(1); QUEUES_MAX + 1], false);
        assert!(memos.find(&key(b"\x01a\x01d", (1, 1))).is_none(), "it is large");
    }

    #[test]
    fn it_agrees_with_a_function_and_stays_within_its_memory() {
        let mut random = Random(3);
        let mut memos = RouteMemos::new(8 << 20, 7);
        let (mut version, mut found) = (0, 0);
        for _ in 0..fewer(200_000) {
            version += u64::from(random.below(20_000) == 0);
            // Some keys recur, others do not.
            let keys = if random.below(2) == 0 { 50 } else { 1 << 20 };
            let number = random.below(keys) as u32;
            let route = number.to_be_bytes();
            let key = key(&route, (version, 0));
            match memos.find(&key) {
                Some(memo) => {
                    assert_eq!((&memo.queues, memo.is_addressed), (&queues(number), number.is_multiple_of(3)));
                    found += 1;
                }
                None => memos.offer(&key, &queues(number), number.is_multiple_of(3)),
            }
        }
        assert!(found > fewer(200_000) * 4 / 10, "{found} were found");
        assert_eq!(memos.heap_bytes, memos.memos.iter().map(Memo::heap_bytes).sum::<usize>());
        assert_eq!(memos.filled, memos.memos.iter().filter(|memo| !memo.route.is_empty()).count());
        assert!(memos.memory_bytes() < 256 * (size_of::<Memo>() + 64), "{} bytes", memos.memory_bytes());
    }
}
