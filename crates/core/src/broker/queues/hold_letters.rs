//! Held letters: dead letters of a queue with `x-dead-letter-strategy: at-least-once` that no queue takes now.
//!
//! Such a letter waits at its source, where its original is still on disk, until all queues that it is routed to have room,
//! or until it is routed elsewhere. Until then it counts as a message of its source. A source with many of them delivers
//! nothing and lets nothing expire, so that their number is bounded and nobody else has to wait.

use crate::broker::Broker;
use crate::broker::ids::Handle;
use crate::broker::queues::held_letters::{HeldLetter, HeldLetters};
use crate::broker::queues::letter::{Letter, Reason};
use crate::broker::queues::policy::Overflow;
use crate::broker::queues::queue::Queue;
use crate::broker::topology::QueueId;

/// The number of held letters that are looked at in one tick.
const LOOKS_MAX: usize = 1024;
/// The number of held letters that are tried again in one tick.
const TRIES_MAX: usize = 256;

impl Queue {
    /// Whether a dead letter of this size that may not be dropped has to wait for room in this queue.
    fn holds_up(&self, size: usize) -> bool {
        self.policy.overflow == Overflow::Reject && self.refuses(size)
    }
}

impl Broker {
    /// Whether a letter may not be dropped while its source is there. What a queue drops because it is full was either
    /// refused before its publisher, or asked for.
    pub(super) fn is_certain(&self, letter: &Letter) -> bool {
        letter.source.to.is_certain && letter.reason != Reason::MaxLength && self.queues.is_there(letter.source.queue)
    }

    /// The first of the queues that a letter is routed to which has no room for it, and would drop it.
    pub(super) fn first_full(&self, routed: &[QueueId], size: usize) -> Option<Handle<QueueId>> {
        let full = routed.iter().copied().find(|id| self.queues[*id].holds_up(size))?;
        Some(self.queues[full].handle(full))
    }

    /// Let a letter wait at its source: for room in a queue, or for a queue that it is routed to.
    pub(super) fn hold_letter(&mut self, letter: Letter, full: Option<Handle<QueueId>>) {
        let source = letter.source.queue;
        let size = self.messages.get(letter.entry.message).size();
        let topology_version = self.topology.version();
        let Some(queue) = self.queues.queue_of(source) else { return self.letters.try_again(letter) };
        let is_first = queue.held.len() == 0;
        queue.held.push(HeldLetter { letter, size, full, topology_version });
        self.letters.note_held(source, is_first);
    }

    /// Try to publish held letters again whose queues have room now, or that may be routed elsewhere.
    pub(crate) fn try_held_letters(&mut self) {
        let (mut looks, mut tries) = (LOOKS_MAX, TRIES_MAX);
        for _ in 0..self.letters.holding_count() {
            if looks == 0 || tries == 0 {
                return;
            }
            let Some(source) = self.letters.next_holding() else { return };
            let Some(queue) = self.queues.queue_of(source) else { continue };
            let mut held = std::mem::take(&mut queue.held);
            for _ in 0..held.len().min(looks) {
                let Some(first) = held.pop() else { break };
                looks -= 1;
                if tries > 0 && self.may_go(&first) {
                    tries -= 1;
                    self.letters.release_held(first.letter);
                } else {
                    held.push(first);
                }
            }
            self.letters.note_looked(source, held.len() > 0);
            self.queues[source.id].held = held;
            self.queues.note_room(source.id);
        }
    }

    fn may_go(&self, held: &HeldLetter) -> bool {
        let has_room = |full: Handle<QueueId>| {
            self.queues.get(full.id).filter(|it| it.serial == full.serial).is_none_or(|it| !it.holds_up(held.size))
        };
        held.topology_version != self.topology.version() || held.full.is_some_and(has_room)
    }

    /// Publish the held letters of a queue that is gone, to whoever takes them now.
    pub(crate) fn release_held_letters(&mut self, mut held: HeldLetters) {
        while let Some(HeldLetter { letter, .. }) = held.pop() {
            self.letters.release_held(letter);
        }
    }

    /// Every dead letter on its way or held.
    pub(crate) fn all_letters(&self) -> impl Iterator<Item = &Letter> {
        self.letters.iter().chain(self.queues.iter().flat_map(|(_, queue)| queue.held.iter()))
    }
}
