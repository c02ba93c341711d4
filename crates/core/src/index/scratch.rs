//! What matching needs between messages, kept by the caller so that nothing is allocated a message.

use super::postings::Slot;

/// Reused from message to message, by one thread at a time; any engine may use it.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) probes: Vec<u64>,
    /// Slots to evaluate, each once.
    pub(super) candidates: Vec<Slot>,
    seen: Stamps,
}

impl Scratch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forget all candidates, before looking among `slot_count` slots.
    pub(super) fn begin(&mut self, slot_count: usize) {
        self.candidates.clear();
        self.seen.begin(slot_count);
    }

    /// Make the slots of a posting list candidates, unless they are already.
    pub(super) fn add_candidates(&mut self, slots: impl Iterator<Item = Slot>) {
        let Self { candidates, seen, .. } = self;
        candidates.extend(slots.filter(|slot| seen.is_first(*slot)));
    }
}

/// A set of slots that is emptied by counting up, not by clearing.
#[derive(Debug, Default)]
struct Stamps {
    stamps: Vec<u32>,
    generation: u32,
}

impl Stamps {
    fn begin(&mut self, slot_count: usize) {
        if self.stamps.len() < slot_count {
            self.stamps.resize(slot_count, 0);
        }
        self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
            self.stamps.fill(0);
            1
        });
    }

    /// True the first time in this generation. A slot out of range is always the first: reading it will fail.
    fn is_first(&mut self, slot: Slot) -> bool {
        match self.stamps.get_mut(slot as usize) {
            Some(stamp) => std::mem::replace(stamp, self.generation) != self.generation,
            None => true,
        }
    }
}
