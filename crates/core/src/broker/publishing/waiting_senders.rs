//! Messages that wait with their channels until a full queue has room, and the channels in their order.

use std::collections::VecDeque;

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
    pub joined: JoinedParts,
    pub flags: PublishFlags,
    /// The time since which it waits.
    pub since: Micros,
}

/// The channels that wait for room in each queue, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct WaitingSenders {
    channels: HashMap<Handle<QueueId>, VecDeque<Handle<ChannelSlot>>>,
    count: usize,
}

impl WaitingSenders {
    /// The number of channels that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn push(&mut self, queue: Handle<QueueId>, channel: Handle<ChannelSlot>) {
        self.channels.entry(queue).or_default().push_back(channel);
        self.count += 1;
    }

    pub fn first(&self, queue: Handle<QueueId>) -> Option<Handle<ChannelSlot>> {
        self.channels.get(&queue)?.front().copied()
    }

    /// Remove the first channel that waits for a queue. Returns whether another one does.
    pub fn pop(&mut self, queue: Handle<QueueId>) -> bool {
        let Some(channels) = self.channels.get_mut(&queue) else { return false };
        self.count -= usize::from(channels.pop_front().is_some());
        if channels.is_empty() {
            self.channels.remove(&queue);
            return false;
        }
        true
    }

    /// A channel waits no more, because it is gone. Cost: linear in the channels that wait for the same queue.
    pub fn remove(&mut self, queue: Handle<QueueId>, channel: ChannelSlot) {
        if let Some(channels) = self.channels.get_mut(&queue) {
            let before = channels.len();
            channels.retain(|waiting| waiting.id != channel);
            self.count -= before - channels.len();
            if channels.is_empty() {
                self.channels.remove(&queue);
            }
        }
    }
}
