//! The unacknowledged deliveries of a channel, by their delivery tags.

use std::collections::VecDeque;

use crate::broker::clock::Micros;
use crate::broker::ids::{ConsumerSlot, Handle};
use crate::broker::queues::entries::QueueEntry;
use crate::broker::topology::QueueId;

/// A delivery that waits for its acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub tag: u64,
    pub entry: QueueEntry,
    pub queue: Handle<QueueId>,
    /// The consumer; `None` when the message was fetched by basic.get.
    pub consumer: Option<Handle<ConsumerSlot>>,
    /// When it was delivered.
    pub delivered: CoarseTime,
}

/// A time in steps of about an eighth of a second, in 32 bits: it fits beside the other fields, and lasts for 17 years.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoarseTime(u32);

impl CoarseTime {
    const STEP_BITS: u32 = 17;

    /// The last step that began by then.
    #[inline]
    pub fn at(now: Micros) -> Self {
        Self((now >> Self::STEP_BITS) as u32)
    }

    /// The microseconds that have passed since the end of the step, so never more than have passed.
    pub fn age(self, now: Micros) -> Micros {
        Micros::from(Self::at(now).0.wrapping_sub(self.0).saturating_sub(1)) << Self::STEP_BITS
    }
}

/// Maximum number of deliveries of a chunk.
const CHUNK_DELIVERIES: usize = 128;
/// The room for deliveries that a channel keeps when none waits.
const KEPT_DELIVERIES: usize = 32;
/// Maximum number of chunks that are kept for the channels that need them next: half a mebibyte.
const FREE_CHUNKS_MAX: usize = 64;
/// The memory of a delivery that waits for its acknowledgement, holes between them included.
const DELIVERY_BYTES: usize = 72;

type Deliveries = VecDeque<(u64, Option<Delivery>)>;

/// The deliveries of all channels: how many wait, and free chunks for more, so that a burst allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct DeliveryRoom {
    waiting: usize,
    free: Vec<Deliveries>,
}

impl DeliveryRoom {
    /// The number of deliveries that wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The memory of all deliveries, and of free chunks.
    pub fn size_bytes(&self) -> u64 {
        let free = self.free.len() * CHUNK_DELIVERIES * size_of::<(u64, Option<Delivery>)>();
        (self.waiting * DELIVERY_BYTES + free) as u64
    }

    /// Room for the deliveries of a chunk. The only one of a channel begins small, unless one is free.
    fn take(&mut self, is_only: bool) -> Deliveries {
        let new = || VecDeque::with_capacity(if is_only { 0 } else { CHUNK_DELIVERIES });
        self.free.pop().unwrap_or_else(new)
    }

    fn give_back(&mut self, mut deliveries: Deliveries) {
        if deliveries.capacity() >= CHUNK_DELIVERIES && self.free.len() < FREE_CHUNKS_MAX {
            deliveries.clear();
            self.free.push(deliveries);
        }
    }
}

/// A part of the deliveries. One that was settled out of order leaves a hole, removed when all deliveries before it are,
/// or when there are too many holes.
#[derive(Debug, Clone, Default)]
struct DeliveryChunk {
    deliveries: Deliveries,
    waiting: usize,
}

impl DeliveryChunk {
    /// Whether the next delivery needs another chunk: a small one is not copied to a larger one.
    #[inline]
    fn is_full(&self) -> bool {
        let is_small = self.deliveries.capacity() <= KEPT_DELIVERIES;
        self.deliveries.len() >= if is_small { KEPT_DELIVERIES } else { CHUNK_DELIVERIES }
    }

    /// Put a delivery back between the others.
    ///
    /// # Errors
    /// The chunk is full. The index at which the delivery belongs.
    fn restore(&mut self, delivery: Delivery) -> Result<(), usize> {
        if self.is_full() {
            self.deliveries.retain(|(_, delivery)| delivery.is_some());
        }
        match self.deliveries.binary_search_by_key(&delivery.tag, |(tag, _)| *tag) {
            Ok(hole) => self.deliveries[hole].1 = Some(delivery),
            Err(index) if self.is_full() => return Err(index),
            Err(index) => self.deliveries.insert(index, (delivery.tag, Some(delivery))),
        }
        self.waiting += 1;
        Ok(())
    }

    /// Put a delivery back before all others.
    fn prepend(&mut self, delivery: Delivery) {
        self.waiting += 1;
        self.deliveries.push_front((delivery.tag, Some(delivery)));
    }

    /// Move the younger half of a chunk without holes to a new one.
    fn split(&mut self) -> Self {
        let deliveries = self.deliveries.split_off(self.deliveries.len() / 2);
        self.waiting = self.deliveries.len();
        Self { waiting: deliveries.len(), deliveries }
    }

    fn first_tag(&self) -> u64 {
        self.deliveries.front().map_or(u64::MAX, |(tag, _)| *tag)
    }

    /// The index of a tag: nearly always that of the oldest delivery.
    #[inline]
    fn index_of(&self, tag: u64) -> Option<usize> {
        match self.deliveries.front() {
            Some((front, _)) if *front == tag => Some(0),
            _ => self.deliveries.binary_search_by_key(&tag, |(tag, _)| *tag).ok(),
        }
    }

    /// Remove the holes at the front, and all when there are too many: memory is bounded by what waits.
    #[inline]
    fn drop_settled(&mut self) {
        while let Some((_, None)) = self.deliveries.front() {
            self.deliveries.pop_front();
        }
        if self.deliveries.len() > 2 * self.waiting + 4 {
            self.deliveries.retain(|(_, delivery)| delivery.is_some());
            self.deliveries.shrink_to(2 * self.waiting + 4);
        }
    }
}

/// Deliveries by ascending tag, in chunks, so that nothing is copied when there are many. The oldest are settled without a
/// search, others after two binary searches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unacknowledged {
    /// None of them is without a delivery that waits, except when it is the only one.
    chunks: VecDeque<DeliveryChunk>,
    waiting: usize,
}

impl Unacknowledged {
    /// Add a delivery; its tag is greater than all earlier ones.
    #[inline(always)]
    pub fn push(&mut self, delivery: Delivery, room: &mut DeliveryRoom) {
        self.waiting += 1;
        room.waiting += 1;
        if self.chunks.back().is_none_or(DeliveryChunk::is_full) {
            let deliveries = room.take(self.chunks.is_empty());
            self.chunks.push_back(DeliveryChunk { deliveries, waiting: 0 });
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        debug_assert!(chunk.deliveries.back().is_none_or(|(tag, _)| *tag < delivery.tag));
        chunk.waiting += 1;
        chunk.deliveries.push_back((delivery.tag, Some(delivery)));
    }

    /// Remove the delivery with this tag, if it waits.
    #[inline]
    pub fn settle(&mut self, tag: u64, room: &mut DeliveryRoom) -> Option<Delivery> {
        let (number, index) = self.find(tag)?;
        let chunk = &mut self.chunks[number];
        let delivery = chunk.deliveries[index].1.take()?;
        chunk.waiting -= 1;
        self.waiting -= 1;
        room.waiting -= 1;
        self.drop_settled(number, room);
        Some(delivery)
    }

    /// Remove the oldest delivery, if its tag is at most `tag`.
    #[inline(always)]
    pub fn settle_oldest(&mut self, tag: u64, room: &mut DeliveryRoom) -> Option<Delivery> {
        let chunk = self.chunks.front_mut()?;
        let (oldest, _) = chunk.deliveries.front()?;
        if *oldest > tag {
            return None;
        }
        let (_, delivery) = chunk.deliveries.pop_front()?;
        chunk.waiting -= 1;
        self.waiting -= 1;
        room.waiting -= 1;
        self.drop_settled(0, room);
        delivery
    }

    /// Add a delivery again that was settled here before. Cost: two binary searches, and a part of a chunk is moved.
    pub fn restore(&mut self, delivery: Delivery, room: &mut DeliveryRoom) {
        let behind = self.chunks.partition_point(|chunk| chunk.first_tag() <= delivery.tag);
        let number = behind.saturating_sub(1);
        let Some(chunk) = self.chunks.get_mut(number) else { return self.push(delivery, room) };
        if let Err(index) = chunk.restore(delivery) {
            if index > 0 && index < chunk.deliveries.len() {
                let younger = chunk.split();
                self.chunks.insert(number + 1, younger);
                return self.restore(delivery, room);
            }
            // Deliveries come back in the order of their tags, or against it: then chunks are filled from one end.
            let place = number + usize::from(index > 0);
            match self.chunks.get_mut(place).filter(|next| index > 0 && !next.is_full()) {
                Some(next) => next.prepend(delivery),
                None => {
                    let mut new = DeliveryChunk { deliveries: room.take(false), waiting: 0 };
                    new.prepend(delivery);
                    self.chunks.insert(place, new);
                }
            }
        }
        self.waiting += 1;
        room.waiting += 1;
    }

    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Every delivery that waits with this tag or a greater one.
    pub fn iter_from(&self, tag: u64) -> impl Iterator<Item = &Delivery> {
        let first = self.chunks.partition_point(|chunk| chunk.first_tag() <= tag).saturating_sub(1);
        let found = self.chunks.range(first..).flat_map(|chunk| &chunk.deliveries);
        found.filter(move |(of, _)| *of >= tag).filter_map(|(_, delivery)| delivery.as_ref())
    }

    /// Every delivery that waits.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Delivery> {
        self.chunks.iter().flat_map(|chunk| &chunk.deliveries).filter_map(|(_, delivery)| delivery.as_ref())
    }

    /// The number of a tag's chunk, and its index there.
    #[inline]
    fn find(&self, tag: u64) -> Option<(usize, usize)> {
        let number = match self.chunks.len() {
            1 => 0,
            _ => self.chunks.partition_point(|chunk| chunk.first_tag() <= tag).checked_sub(1)?,
        };
        Some((number, self.chunks.get(number)?.index_of(tag)?))
    }

    /// Remove holes of a chunk in which a delivery was settled, and the chunk with the last delivery.
    #[inline]
    fn drop_settled(&mut self, number: usize, room: &mut DeliveryRoom) {
        let is_only = self.chunks.len() == 1;
        let chunk = &mut self.chunks[number];
        chunk.drop_settled();
        if chunk.waiting == 0
            && (!is_only || chunk.deliveries.capacity() > KEPT_DELIVERIES)
            && let Some(chunk) = self.chunks.remove(number)
        {
            room.give_back(chunk.deliveries);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::broker::clock::NEVER;
    use crate::broker::ids::{MessageId, Serial};
    use crate::broker::slab::SlotId;
    use crate::testing::{Random, fewer};

    fn delivery(tag: u64) -> Delivery {
        let entry = QueueEntry::new(tag, MessageId::NONE, NEVER);
        let queue = Handle { id: QueueId::from_index(0), serial: Serial(0) };
        Delivery { tag, entry, queue, consumer: None, delivered: CoarseTime::default() }
    }

    fn tags(unacknowledged: &Unacknowledged) -> Vec<u64> {
        unacknowledged.iter().map(|delivery| delivery.tag).collect()
    }

    #[test]
    fn a_delivery_is_never_thought_older_than_it_is() {
        let mut random = Random(5);
        for _ in 0..fewer(10_000) {
            let delivered = random.below(1 << 40) as Micros;
            let age = random.below(1 << 30) as Micros;
            let found = CoarseTime::at(delivered).age(delivered + age);
            assert!(found <= age && found + (2 << CoarseTime::STEP_BITS) > age, "{age} is not about {found}");
        }
        assert_eq!(size_of::<(u64, Option<Delivery>)>(), 64);
    }

    #[test]
    fn a_tag_is_settled_once() {
        let (mut unacknowledged, mut room) = (Unacknowledged::default(), DeliveryRoom::default());
        (1..=5).for_each(|tag| unacknowledged.push(delivery(tag), &mut room));
        assert_eq!(unacknowledged.settle(3, &mut room).map(|delivery| delivery.tag), Some(3));
        assert!(unacknowledged.settle(3, &mut room).is_none() && unacknowledged.settle(6, &mut room).is_none());
        assert_eq!((tags(&unacknowledged), unacknowledged.len()), (vec![1, 2, 4, 5], 4));
    }

    #[test]
    fn all_through_a_tag_are_settled_oldest_first() {
        let (mut unacknowledged, mut room) = (Unacknowledged::default(), DeliveryRoom::default());
        (1..=5).for_each(|tag| unacknowledged.push(delivery(tag), &mut room));
        unacknowledged.settle(2, &mut room);
        let mut settled = Vec::new();
        while let Some(delivery) = unacknowledged.settle_oldest(4, &mut room) {
            settled.push(delivery.tag);
        }
        assert_eq!((settled, tags(&unacknowledged)), (vec![1, 3, 4], vec![5]));
    }

    #[test]
    fn what_is_restored_waits_in_its_place_again() {
        let (mut unacknowledged, mut room) = (Unacknowledged::default(), DeliveryRoom::default());
        (1..=5).for_each(|tag| unacknowledged.push(delivery(tag), &mut room));
        let settled = [4, 1, 2].map(|tag| unacknowledged.settle(tag, &mut room).expect("waits"));
        settled.into_iter().for_each(|delivery| unacknowledged.restore(delivery, &mut room));
        assert_eq!((tags(&unacknowledged), unacknowledged.len()), (vec![1, 2, 3, 4, 5], 5));
        assert_eq!(unacknowledged.settle(4, &mut room).map(|delivery| delivery.tag), Some(4));
        assert_eq!(unacknowledged.settle_oldest(5, &mut room).map(|delivery| delivery.tag), Some(1));
    }

    #[test]
    fn many_are_restored_in_any_order_without_taking_much_room() {
        const COUNT: u64 = fewer(10_000) as u64;
        let shuffled = |mut tags: Vec<u64>| {
            let mut random = Random(7);
            (1..tags.len()).for_each(|index| tags.swap(index, random.below(index + 1)));
            tags
        };
        let orders: [fn(Vec<u64>) -> Vec<u64>; 2] = [|tags| tags, |tags| tags.into_iter().rev().collect()];
        let orders = orders.iter().map(|order| order((1..=COUNT).collect()));
        for order in orders.chain([shuffled((1..=COUNT).collect())]) {
            let (mut unacknowledged, mut room) = (Unacknowledged::default(), DeliveryRoom::default());
            // Older ones and younger ones wait all the time.
            (1..=3 * COUNT).for_each(|tag| unacknowledged.push(delivery(tag), &mut room));
            let settled: Vec<Delivery> =
                order.iter().filter_map(|tag| unacknowledged.settle(COUNT + tag, &mut room)).collect();
            settled.into_iter().for_each(|delivery| unacknowledged.restore(delivery, &mut room));
            assert!(tags(&unacknowledged).into_iter().eq(1..=3 * COUNT));
            assert_eq!((unacknowledged.len(), room.waiting()), (3 * COUNT as usize, 3 * COUNT as usize));
            let places: usize = unacknowledged.chunks.iter().map(|chunk| chunk.deliveries.capacity()).sum();
            assert!(places <= 6 * COUNT as usize + 512, "{places} places for {} deliveries", 3 * COUNT);
        }
    }

    #[test]
    fn one_message_that_is_kept_forever_keeps_no_others() {
        let (mut unacknowledged, mut room) = (Unacknowledged::default(), DeliveryRoom::default());
        unacknowledged.push(delivery(1), &mut room);
        for tag in 2..fewer(10_000) as u64 {
            unacknowledged.push(delivery(tag), &mut room);
            unacknowledged.settle(tag, &mut room);
        }
        let kept: usize = unacknowledged.chunks.iter().map(|chunk| chunk.deliveries.len()).sum();
        assert!(kept < 100, "{kept} deliveries");
        assert_eq!(tags(&unacknowledged), [1]);
    }

    #[test]
    fn deliveries_agree_with_a_map_however_they_are_settled() {
        let mut random = Random(3);
        let (mut unacknowledged, mut room) = (Unacknowledged::default(), DeliveryRoom::default());
        let mut expected = BTreeSet::new();
        let mut settled: Vec<Delivery> = Vec::new();
        let mut last = 0;
        for _ in 0..fewer(20_000) {
            match random.below(11) {
                0..5 => {
                    last += 1 + random.below(2) as u64;
                    unacknowledged.push(delivery(last), &mut room);
                    expected.insert(last);
                }
                5..9 => {
                    let tag = random.below(last as usize + 1) as u64;
                    let found = unacknowledged.settle(tag, &mut room);
                    assert_eq!(found.map(|delivery| delivery.tag), expected.take(&tag));
                    settled.extend(found);
                }
                9 => {
                    let through = random.below(last as usize + 1) as u64;
                    let oldest = expected.first().copied().filter(|tag| *tag <= through);
                    let found = unacknowledged.settle_oldest(through, &mut room);
                    assert_eq!(found.map(|delivery| delivery.tag), oldest);
                    settled.extend(found);
                    oldest.map(|tag| expected.remove(&tag));
                }
                _ => {
                    while random.below(8) > 0
                        && let Some(delivery) = settled.pop()
                    {
                        expected.insert(delivery.tag);
                        unacknowledged.restore(delivery, &mut room);
                    }
                }
            }
            assert_eq!((unacknowledged.len(), room.waiting()), (expected.len(), expected.len()));
        }
        assert!(tags(&unacknowledged).into_iter().eq(expected));
        let slots: usize = unacknowledged.chunks.iter().map(|chunk| chunk.deliveries.len()).sum();
        assert!(slots <= 6 * unacknowledged.len() + 8, "{slots} slots for {} deliveries", unacknowledged.len());
    }
}
