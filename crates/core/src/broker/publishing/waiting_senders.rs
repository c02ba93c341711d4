//! Messages that wait with their channels until a full queue has room, and the channels in their order.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::broker::clock::Micros;
use crate::broker::connections::content::PublishFlags;
use crate::broker::ids::{ChannelSlot, Handle};
use crate::broker::parts::JoinedParts;
use crate::broker::topology::QueueId;

/// A message that waits with its channel until a queue has room.
#[derive(Debug)]
pub(crate) struct WaitingMessage {
    pub queue: Handle<QueueId>,
    /// Its place among those that wait for the same queue.
    pub ticket: Ticket,
    pub joined: JoinedParts,
    pub flags: PublishFlags,
    /// The time since which it waits.
    pub since: Micros,
}

/// The place of a channel among those that wait for the same queue: they ascend as they come.
pub(crate) type Ticket = u64;

/// The channels that wait for room in each queue, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct WaitingSenders {
    channels: HashMap<Handle<QueueId>, BTreeMap<Ticket, Handle<ChannelSlot>>>,
    last: Ticket,
    count: usize,
}

impl WaitingSenders {
    /// The number of channels that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Let a channel wait for a queue, behind the others. Returns its place.
    pub fn push(&mut self, queue: Handle<QueueId>, channel: Handle<ChannelSlot>) -> Ticket {
        self.last += 1;
        self.channels.entry(queue).or_default().insert(self.last, channel);
        self.count += 1;
        self.last
    }

    pub fn first(&self, queue: Handle<QueueId>) -> Option<Handle<ChannelSlot>> {
        self.channels.get(&queue)?.first_key_value().map(|(_, channel)| *channel)
    }

    /// Remove the first channel that waits for a queue. Returns whether another one does.
    pub fn pop(&mut self, queue: Handle<QueueId>) -> bool {
        let Some(channels) = self.channels.get_mut(&queue) else { return false };
        self.count -= usize::from(channels.pop_first().is_some());
        if channels.is_empty() {
            self.channels.remove(&queue);
            return false;
        }
        true
    }

    /// A channel waits no more, because it is gone. Cost: logarithmic in the channels that wait for the same queue.
    pub fn remove(&mut self, queue: Handle<QueueId>, ticket: Ticket) {
        if let Some(channels) = self.channels.get_mut(&queue) {
            self.count -= usize::from(channels.remove(&ticket).is_some());
            if channels.is_empty() {
                self.channels.remove(&queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::ids::Serial;
    use crate::broker::slab::SlotId;

    #[test]
    fn those_who_came_first_go_on_first_and_those_who_have_gone_are_passed_over() {
        let mut senders = WaitingSenders::default();
        let queue = Handle { id: QueueId::from_index(1), serial: Serial(1) };
        let channel = |number| Handle { id: ChannelSlot::from_index(number), serial: Serial(number) };
        let tickets: Vec<Ticket> = (0..5).map(|number| senders.push(queue, channel(number))).collect();
        for gone in [0, 3, 3] {
            senders.remove(queue, tickets[gone]);
        }
        assert_eq!(senders.len(), 3);
        for (number, has_more) in [(1, true), (2, true), (4, false)] {
            assert_eq!(senders.first(queue), Some(channel(number)));
            assert_eq!(senders.pop(queue), has_more);
        }
        assert_eq!((senders.first(queue), senders.len(), senders.pop(queue)), (None, 0, false));
    }
}
