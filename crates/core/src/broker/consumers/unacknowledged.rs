//! The unacknowledged deliveries of a channel, by their delivery tags.

use std::collections::VecDeque;

use crate::broker::ids::{ConsumerSlot, Handle};
use crate::broker::queues::queue::QueueEntry;
use crate::broker::topology::QueueId;

/// A delivery that waits for its acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub tag: u64,
    pub entry: QueueEntry,
    pub queue: Handle<QueueId>,
    /// The consumer; `None` when the message was fetched by basic.get.
    pub consumer: Option<Handle<ConsumerSlot>>,
}

#[derive(Debug, Clone, Copy)]
enum DeliveryState {
    Waiting(Delivery),
    /// Settled out of order: a hole, removed when all deliveries before it are, or when there are too many holes.
    Settled,
}

/// Deliveries by ascending tag. The oldest are settled without a search, others after a binary search. There are never more
/// holes than deliveries that wait (and 64), so that memory is bounded by what is outstanding, also when a client keeps one
/// message forever.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unacknowledged {
    deliveries: VecDeque<(u64, DeliveryState)>,
    waiting: usize,
}

impl Unacknowledged {
    /// Add a delivery; its tag is greater than all earlier ones.
    #[inline]
    pub fn push(&mut self, delivery: Delivery) {
        debug_assert!(self.deliveries.back().is_none_or(|(tag, _)| *tag < delivery.tag));
        self.waiting += 1;
        self.deliveries.push_back((delivery.tag, DeliveryState::Waiting(delivery)));
    }

    /// Remove the delivery with this tag, if it waits.
    #[inline]
    pub fn settle(&mut self, tag: u64) -> Option<Delivery> {
        let index = match self.deliveries.front() {
            Some((front, _)) if *front == tag => 0,
            _ => self.deliveries.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?,
        };
        let (_, state) = self.deliveries.get_mut(index)?;
        let DeliveryState::Waiting(delivery) = std::mem::replace(state, DeliveryState::Settled) else { return None };
        self.waiting -= 1;
        self.drop_settled();
        Some(delivery)
    }

    /// Remove the oldest delivery, if its tag is at most `tag`.
    #[inline]
    pub fn settle_oldest(&mut self, tag: u64) -> Option<Delivery> {
        match self.deliveries.front() {
            Some((front, DeliveryState::Waiting(delivery))) if *front <= tag => {
                let delivery = *delivery;
                self.deliveries.pop_front();
                self.waiting -= 1;
                self.drop_settled();
                Some(delivery)
            }
            _ => None,
        }
    }

    /// Add deliveries again that were settled here before.
    pub fn restore(&mut self, deliveries: impl Iterator<Item = Delivery>) {
        let mut all: Vec<Delivery> = self.iter().copied().chain(deliveries).collect();
        all.sort_unstable_by_key(|delivery| delivery.tag);
        self.waiting = all.len();
        self.deliveries = all.into_iter().map(|delivery| (delivery.tag, DeliveryState::Waiting(delivery))).collect();
    }

    pub fn len(&self) -> usize {
        self.waiting
    }

    pub fn iter(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter().filter_map(|(_, state)| match state {
            DeliveryState::Waiting(delivery) => Some(delivery),
            DeliveryState::Settled => None,
        })
    }

    fn drop_settled(&mut self) {
        while let Some((_, DeliveryState::Settled)) = self.deliveries.front() {
            self.deliveries.pop_front();
        }
        if self.deliveries.len() > 2 * self.waiting + 64 {
            self.deliveries.retain(|(_, state)| matches!(state, DeliveryState::Waiting(_)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::clock::NEVER;
    use crate::broker::ids::MessageId;
    use crate::broker::slab::SlotId;
    use crate::testing::fewer;

    fn delivery(tag: u64) -> Delivery {
        let entry = QueueEntry::new(tag, MessageId::NONE, NEVER);
        Delivery { tag, entry, queue: Handle { id: QueueId::from_index(0), serial: 0 }, consumer: None }
    }

    fn tags(unacknowledged: &Unacknowledged) -> Vec<u64> {
        unacknowledged.iter().map(|delivery| delivery.tag).collect()
    }

    #[test]
    fn a_tag_is_settled_once() {
        let mut unacknowledged = Unacknowledged::default();
        (1..=5).for_each(|tag| unacknowledged.push(delivery(tag)));
        assert_eq!(unacknowledged.settle(3).map(|delivery| delivery.tag), Some(3));
        assert!(unacknowledged.settle(3).is_none() && unacknowledged.settle(6).is_none());
        assert_eq!((tags(&unacknowledged), unacknowledged.len()), (vec![1, 2, 4, 5], 4));
    }

    #[test]
    fn all_through_a_tag_are_settled_oldest_first() {
        let mut unacknowledged = Unacknowledged::default();
        (1..=5).for_each(|tag| unacknowledged.push(delivery(tag)));
        unacknowledged.settle(2);
        let mut settled = Vec::new();
        while let Some(delivery) = unacknowledged.settle_oldest(4) {
            settled.push(delivery.tag);
        }
        assert_eq!((settled, tags(&unacknowledged)), (vec![1, 3, 4], vec![5]));
    }

    #[test]
    fn what_is_restored_waits_in_its_place_again() {
        let mut unacknowledged = Unacknowledged::default();
        (1..=5).for_each(|tag| unacknowledged.push(delivery(tag)));
        let settled = [4, 1, 2].map(|tag| unacknowledged.settle(tag).expect("waits"));
        unacknowledged.restore(settled.into_iter());
        assert_eq!((tags(&unacknowledged), unacknowledged.len()), (vec![1, 2, 3, 4, 5], 5));
        assert_eq!(unacknowledged.settle(4).map(|delivery| delivery.tag), Some(4));
        assert_eq!(unacknowledged.settle_oldest(5).map(|delivery| delivery.tag), Some(1));
    }

    #[test]
    fn one_message_that_is_kept_forever_keeps_no_others() {
        let mut unacknowledged = Unacknowledged::default();
        unacknowledged.push(delivery(1));
        for tag in 2..fewer(10_000) as u64 {
            unacknowledged.push(delivery(tag));
            unacknowledged.settle(tag);
        }
        assert!(unacknowledged.deliveries.len() < 100, "{} deliveries", unacknowledged.deliveries.len());
        assert_eq!(tags(&unacknowledged), [1]);
    }
}
