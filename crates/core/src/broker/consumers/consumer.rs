//! A consumer, and the ring in which the consumers of a queue wait for their turn.

use std::collections::VecDeque;

use crate::broker::consumers::credit::Credit;
use crate::broker::ids::{ChannelSlot, ConnectionSlot, ConsumerSlot, Handle, Serial};
use crate::broker::streams::stream::StreamReader;
use crate::broker::topology::QueueId;

#[derive(Debug)]
pub(crate) struct Consumer {
    pub connection: ConnectionSlot,
    pub channel: ChannelSlot,
    pub queue: QueueId,
    pub serial: Serial,
    /// The consumer tag as a short string of basic.deliver: its length, then its bytes.
    pub tag: Box<[u8]>,
    pub no_ack: bool,
    pub is_exclusive: bool,
    pub credit: Credit,
    /// The priority (`x-priority`): consumers with a greater one are served first.
    pub priority: i32,
    /// The time that it has to settle a delivery.
    pub timeout_ms: Option<u64>,
    /// The position of a consumer of a stream. Taken out while it reads.
    pub reader: Option<Box<StreamReader>>,
    /// Whether the consumer is in its queue's ring or, for a stream, among the readers that can go on. One that cannot
    /// take anything leaves the ring when its turn comes, and comes back when what stopped it has passed.
    pub is_waiting: bool,
}

impl Consumer {
    /// The handle of what is in this slot.
    #[inline]
    pub fn handle(&self, slot: ConsumerSlot) -> Handle<ConsumerSlot> {
        Handle { id: slot, serial: self.serial }
    }

    /// The tag without its length.
    pub fn name(&self) -> &[u8] {
        &self.tag[1..]
    }
}

/// Consumers that can take a message, by descending priority, and among equals by the time that they have waited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ring {
    waiting: VecDeque<(i32, ConsumerSlot)>,
}

impl Ring {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    #[inline]
    pub fn next(&self) -> Option<ConsumerSlot> {
        self.waiting.front().map(|(_, consumer)| *consumer)
    }

    /// Add a consumer behind all consumers of the same or a greater priority.
    pub fn wait(&mut self, consumer: ConsumerSlot, priority: i32) {
        let index = match self.waiting.back() {
            Some((last, _)) if *last < priority => self.waiting.partition_point(|(other, _)| *other >= priority),
            _ => self.waiting.len(),
        };
        self.waiting.insert(index, (priority, consumer));
    }

    /// Move the first consumer, which was served, behind those of the same priority.
    #[inline]
    pub fn rotate(&mut self) {
        if self.waiting.len() > 1
            && let Some((priority, consumer)) = self.waiting.pop_front()
        {
            self.wait(consumer, priority);
        }
    }

    /// Remove the first consumer, which can take no more.
    pub fn leave(&mut self) {
        self.waiting.pop_front();
    }

    /// Remove the consumers that do not stay.
    pub fn retain(&mut self, stays: impl Fn(ConsumerSlot) -> bool) {
        self.waiting.retain(|(_, consumer)| stays(*consumer));
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = ConsumerSlot> {
        self.waiting.iter().map(|(_, consumer)| *consumer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::slab::SlotId;

    fn wait(ring: &mut Ring, consumer: u32, priority: i32) {
        ring.wait(ConsumerSlot::from_index(consumer), priority);
    }

    fn turns(ring: &mut Ring, count: usize) -> Vec<usize> {
        (0..count)
            .filter_map(|_| {
                let next = ring.next();
                ring.rotate();
                next.map(SlotId::index)
            })
            .collect()
    }

    #[test]
    fn equals_take_turns() {
        let mut ring = Ring::default();
        (1..=3).for_each(|consumer| wait(&mut ring, consumer, 0));
        assert_eq!(turns(&mut ring, 5), [1, 2, 3, 1, 2]);
        ring.retain(|consumer| consumer != ConsumerSlot::from_index(1));
        assert_eq!(turns(&mut ring, 3), [3, 2, 3]);
    }

    #[test]
    fn a_greater_priority_is_served_while_it_can_take() {
        let mut ring = Ring::default();
        wait(&mut ring, 1, 0);
        wait(&mut ring, 2, 5);
        wait(&mut ring, 3, 5);
        wait(&mut ring, 4, -1);
        assert_eq!(turns(&mut ring, 4), [2, 3, 2, 3]);
        ring.leave();
        ring.leave();
        assert_eq!(turns(&mut ring, 2), [1, 1]);
        assert_eq!(ring.iter().map(SlotId::index).collect::<Vec<_>>(), [1, 4]);
    }
}
