//! Dead letters on their way: entries that queues have dropped, each with the reason, until its letter is published.
//!
//! A letter is no copy of its message: it keeps the entry, which keeps the message where it is, in memory or on disk. The
//! entry is settled when the letter is published, so that a crash in between doubles a message and never loses it.
//!
//! A queue that refuses a letter may make a further letter of it, which is in memory only. Then the first is an origin: its
//! entry is settled when all letters that came of it are finished, however long the chain.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::broker::durable::DefinitionId;
use crate::broker::ids::{Handle, OriginId};
use crate::broker::publishing::confirms::DiskMarks;
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::policy::DeadLetters;
use crate::broker::slab::Slab;
use crate::broker::topology::{QueueId, VhostId};

/// Maximum number of letters that wait before publishers wait for them, too.
pub(crate) const CONGESTED_LETTERS: usize = 65_536;

/// Maximum work for letters in one call, in steps of a quarter of a microsecond.
const STEPS_MAX: usize = 8192;
/// The work for letters in a call that has made none.
const STEPS_IN_PASSING: usize = 512;
/// The cost of a letter whose message is small and in memory.
pub(super) const LETTER_STEPS: usize = 16;

/// Why a queue dropped a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A consumer rejected it without requeueing.
    Rejected,
    Expired,
    /// The queue was full.
    MaxLength,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
        }
    }
}

/// A queue that drops messages, as their letters need it: they may outlive the queue.
#[derive(Debug)]
pub(crate) struct LetterSource {
    pub queue: Handle<QueueId>,
    pub vhost: VhostId,
    pub name: Box<str>,
    pub to: DeadLetters,
    /// The queue's definition, if it is durable: its entries are settled there.
    pub durable_id: Option<DefinitionId>,
}

/// A dropped entry that waits for its letter: 56 bytes.
#[derive(Debug)]
pub(crate) struct Letter {
    pub source: Arc<LetterSource>,
    pub entry: QueueEntry,
    pub reason: Reason,
    /// When the entry was dropped, in seconds since 1970.
    pub time_s: u64,
    /// The letter that this one came of, if a queue has refused that.
    pub origin: Option<OriginId>,
}

/// A letter that is published, except for those that came of it.
#[derive(Debug)]
struct Origin {
    letter: Letter,
    marks: DiskMarks,
    /// The number of letters that came of it and are not finished: at least one.
    unfinished: usize,
}

/// All letters on their way, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    waiting: VecDeque<Letter>,
    /// Letters that were published to streams, until the streams have them on disk: they are logs of their own.
    unsynced: VecDeque<(DiskMarks, Letter)>,
    /// Letters that wait for others that came of them.
    origins: Slab<OriginId, Origin>,
    /// The queues that hold letters, in the order in which they are looked at.
    holding: VecDeque<Handle<QueueId>>,
    /// The number of letters that queues hold.
    held: usize,
    /// The number of all of them, for each definition of a queue that they come from.
    by_definition: HashMap<DefinitionId, u32>,
    /// Whether the first letter waits for room on the disk.
    is_stalled: bool,
    is_congested: bool,
    /// Whether the last call let others pass.
    has_passed: bool,
    /// The further steps that the current call may take.
    steps: usize,
    /// The steps that the last letter took besides what every letter takes.
    spent: usize,
    /// The source of the last letter.
    source: Option<Arc<LetterSource>>,
}

impl Letters {
    /// The source that letters of this queue had last, if it still holds.
    pub fn source_of(&self, queue: Handle<QueueId>, durable_id: Option<DefinitionId>) -> Option<Arc<LetterSource>> {
        let source = self.source.as_ref()?;
        (source.queue == queue && source.durable_id == durable_id).then(|| Arc::clone(source))
    }

    /// Add a letter.
    pub fn push(&mut self, letter: Letter) {
        if let Some(definition) = letter.source.durable_id {
            *self.by_definition.entry(definition).or_default() += 1;
        }
        self.steps += LETTER_STEPS;
        self.source = Some(Arc::clone(&letter.source));
        self.waiting.push_back(letter);
        self.is_congested |= self.waiting.len() > CONGESTED_LETTERS;
    }

    /// Let the current call publish as many letters as one may: it has nothing else to do.
    pub fn allow_many(&mut self) {
        self.steps = STEPS_MAX;
    }

    /// Take the steps that the current call may take: enough for the letters that it has made, and some more.
    pub fn take_steps(&mut self) -> usize {
        (STEPS_IN_PASSING + std::mem::take(&mut self.steps)).min(STEPS_MAX)
    }

    /// Whether a call that has done much already leaves the letters to the next one: every other time.
    pub fn let_others_pass(&mut self) -> bool {
        self.has_passed = !self.has_passed;
        self.has_passed
    }

    /// Add further steps to those of the current letter.
    pub fn spend(&mut self, steps: usize) {
        self.spent += steps;
    }

    /// Take the further steps that were noted since the last call.
    pub fn take_spent(&mut self) -> usize {
        std::mem::take(&mut self.spent)
    }

    /// Take the first letter that waits, to publish it.
    pub fn take(&mut self) -> Option<Letter> {
        self.is_stalled = false;
        let letter = self.waiting.pop_front();
        if self.waiting.is_empty() && self.waiting.capacity() > 1024 {
            // Free the memory that a burst of letters needed.
            self.waiting = VecDeque::new();
        }
        self.is_congested &= self.waiting.len() > CONGESTED_LETTERS / 2;
        letter
    }

    /// Put the first letter back, for which there is no room now.
    pub fn put_back(&mut self, letter: Letter) {
        self.waiting.push_front(letter);
        self.is_stalled = true;
    }

    /// Note that there is no room for the first letter now.
    pub fn stall(&mut self) {
        self.is_stalled = true;
    }

    /// Note that a queue holds a further letter, and whether it is the first.
    pub fn note_held(&mut self, queue: Handle<QueueId>, is_first: bool) {
        self.held += 1;
        if is_first {
            self.holding.push_back(queue);
        }
    }

    /// Let a letter that was held be published behind those that wait.
    pub fn release_held(&mut self, letter: Letter) {
        self.held -= 1;
        self.try_again(letter);
    }

    /// Let a letter that was taken be published behind those that wait.
    pub fn try_again(&mut self, letter: Letter) {
        self.waiting.push_back(letter);
    }

    /// The number of queues that hold letters, and of some that are gone.
    pub fn holding_count(&self) -> usize {
        self.holding.len()
    }

    /// Take the next queue to look at that holds letters.
    pub fn next_holding(&mut self) -> Option<Handle<QueueId>> {
        self.holding.pop_front()
    }

    /// Note that a queue was looked at, and whether it still holds letters.
    pub fn note_looked(&mut self, queue: Handle<QueueId>, holds: bool) {
        if holds {
            self.holding.push_back(queue);
        }
    }

    /// Whether letters wait to be published.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Let a letter that was published wait for streams.
    pub fn await_sync(&mut self, marks: DiskMarks, letter: Letter) {
        self.unsynced.push_back((marks, letter));
    }

    /// The marks that the first letter waits for which waits for streams.
    pub fn first_unsynced(&self) -> Option<&DiskMarks> {
        self.unsynced.front().map(|(marks, _)| marks)
    }

    /// Take the first letter that waits for streams.
    pub fn take_unsynced(&mut self) -> Option<Letter> {
        self.unsynced.pop_front().map(|(_, letter)| letter)
    }

    /// Let a letter that was published wait for the further letters that came of it, and these for their turn.
    pub fn await_further(&mut self, letter: Letter, marks: DiskMarks, further: Vec<Letter>) {
        let origin = self.origins.insert(Origin { letter, marks, unfinished: further.len() });
        further.into_iter().for_each(|letter| self.push(Letter { origin: Some(origin), ..letter }));
    }

    /// Forget a letter that was taken: its entry is settled. Returns the letter that it came of, and that waits for nothing
    /// but its marks now.
    pub fn finish(&mut self, letter: &Letter) -> Option<(Letter, DiskMarks)> {
        if let Some(definition) = letter.source.durable_id
            && let Some(count) = self.by_definition.get_mut(&definition)
        {
            *count -= 1;
            if *count == 0 {
                self.by_definition.remove(&definition);
            }
        }
        let id = letter.origin?;
        self.origins[id].unfinished -= 1;
        if self.origins[id].unfinished > 0 {
            return None;
        }
        let Origin { letter, marks, .. } = self.origins.remove(id);
        Some((letter, marks))
    }

    /// Whether letters of this queue are on their way.
    pub fn are_from(&self, definition: DefinitionId) -> bool {
        self.by_definition.contains_key(&definition)
    }

    /// Whether a letter waits that can be published now.
    pub fn has_work(&self) -> bool {
        !self.waiting.is_empty() && !self.is_stalled
    }

    /// Whether publishers wait for the letters that wait.
    pub fn is_congested(&self) -> bool {
        self.is_congested
    }

    /// The number of letters on their way.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.unsynced.len() + self.origins.len() + self.held
    }

    /// The number of letters that queues hold.
    pub fn held_count(&self) -> usize {
        self.held
    }

    /// The memory that they take besides their messages, except of those that queues hold.
    pub fn size_bytes(&self) -> u64 {
        let waiting = self.waiting.capacity() * size_of::<Letter>();
        let unsynced = self.unsynced.capacity() * size_of::<(DiskMarks, Letter)>();
        let holding = self.holding.capacity() * size_of::<Handle<QueueId>>();
        (waiting + unsynced + self.origins.size_bytes() + holding) as u64
    }

    /// Every letter on its way that no queue holds.
    pub fn iter(&self) -> impl Iterator<Item = &Letter> {
        let unsynced = self.unsynced.iter().map(|(_, letter)| letter);
        self.waiting.iter().chain(unsynced).chain(self.origins.iter().map(|(_, origin)| &origin.letter))
    }
}
