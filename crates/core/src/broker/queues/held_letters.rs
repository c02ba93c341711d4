//! The dead letters that a queue holds because no queue takes them now (`hold_letters.rs`).

use std::collections::VecDeque;

use crate::broker::ids::Handle;
use crate::broker::queues::letter::Letter;
use crate::broker::topology::QueueId;

/// The number of held letters with which a queue makes no further ones.
pub(crate) const HELD_MAX: usize = 4096;

/// A letter that is held, and what it waits for.
#[derive(Debug)]
pub(super) struct HeldLetter {
    pub letter: Letter,
    /// The size of its message.
    pub size: usize,
    /// A queue that has no room for it; None if it is routed to none.
    pub full: Option<Handle<QueueId>>,
    /// The version of the topology by which it was routed.
    pub topology_version: u64,
}

/// The letters that a queue holds. Nearly every queue holds none, and pays a pointer for that.
#[derive(Debug, Default)]
pub(crate) struct HeldLetters {
    some: Option<Box<SomeLetters>>,
}

#[derive(Debug, Default)]
struct SomeLetters {
    letters: VecDeque<HeldLetter>,
    size_bytes: u64,
}

impl HeldLetters {
    /// The number of letters.
    #[inline]
    pub fn len(&self) -> usize {
        self.some.as_ref().map_or(0, |some| some.letters.len())
    }

    /// The size of their messages.
    #[inline]
    pub fn size_bytes(&self) -> u64 {
        self.some.as_ref().map_or(0, |some| some.size_bytes)
    }

    /// Whether the queue must not make further ones.
    #[inline]
    pub fn are_too_many(&self) -> bool {
        self.len() >= HELD_MAX
    }

    /// Every letter.
    pub fn iter(&self) -> impl Iterator<Item = &Letter> {
        self.some.iter().flat_map(|some| &some.letters).map(|held| &held.letter)
    }

    /// Add a letter.
    pub(super) fn push(&mut self, held: HeldLetter) {
        let some = self.some.get_or_insert_default();
        some.size_bytes += held.size as u64;
        some.letters.push_back(held);
    }

    /// Take out the first letter.
    pub(super) fn pop(&mut self) -> Option<HeldLetter> {
        let some = self.some.as_mut()?;
        let held = some.letters.pop_front()?;
        some.size_bytes -= held.size as u64;
        if some.letters.is_empty() {
            self.some = None;
        }
        Some(held)
    }
}

/// The memory of a held letter besides its message.
pub(crate) const HELD_BYTES: usize = size_of::<HeldLetter>();
