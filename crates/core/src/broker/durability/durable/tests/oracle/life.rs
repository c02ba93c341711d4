//! The random work of one life of the journal, from one opening to the next crash.

use std::collections::BTreeMap;

use super::model::{Deed, Model};
use crate::journal::Wait;

use super::{DefinitionId, Dice, JournalHarness, RecordId, Sequence, TestMessage, number_of};

/// A queue that was done with a message, when the last record had this sequence.
#[derive(Clone, Copy, Debug)]
pub struct DoneWith {
    pub queue: DefinitionId,
    pub number: u64,
    pub after: u64,
}

/// The work of one life, from one opening to the next crash.
pub struct QueueLife<'a> {
    pub bench: JournalHarness,
    pub dice: &'a mut Dice,
    model: Model,
    /// The effects, each with the number that must be on disk for it to last.
    pub deeds: Vec<(u64, Deed)>,
    records: BTreeMap<u64, RecordId>,
    /// Messages that are kept for lack of memory only.
    spilled: Vec<RecordId>,
    /// Settled and not flushed.
    settling: Vec<(DefinitionId, u64)>,
    /// Settled in this life.
    pub done_with: Vec<DoneWith>,
    pub next_number: u64,
    appended: u64,
    /// Whether something that is kept could not be read.
    pub has_lost: bool,
}

impl<'a> QueueLife<'a> {
    pub fn new(bench: JournalHarness, dice: &'a mut Dice, model: Model, next_number: u64) -> Self {
        let records = bench.recovered.messages.iter();
        let records = records.map(|message| (number_of(&bench.durable, message.record), message.record)).collect();
        Self {
            bench,
            dice,
            model,
            deeds: Vec::new(),
            records,
            spilled: Vec::new(),
            settling: Vec::new(),
            done_with: Vec::new(),
            next_number,
            appended: 0,
            has_lost: false,
        }
    }

    fn done(&mut self, sequence: Sequence, deed: Deed) {
        self.model.apply(sequence.0, &deed);
        self.deeds.push((sequence.0, deed));
    }

    fn queue_ids(&self) -> Vec<DefinitionId> {
        let is_queue =
            |entry: (&String, &(DefinitionId, Vec<u8>, Vec<String>))| entry.0.starts_with('q').then_some(entry.1.0);
        self.model.definitions.iter().filter_map(is_queue).collect()
    }

    fn define(&mut self) {
        let number = self.dice.below(6);
        let vhost = format!("v{}", number % 2);
        let (key, parents) = match self.dice.below(5) {
            0 => (vhost, vec![]),
            1 | 2 => (format!("q{number}"), vec![vhost]),
            _ => (format!("b{number}"), vec![vhost, format!("q{number}")]),
        };
        let size = if self.dice.once_in(50) { 3000 } else { self.dice.below(100) as usize };
        let value = vec![self.dice.roll() as u8; size];
        let names: Vec<&[u8]> = parents.iter().map(String::as_bytes).collect();
        let (id, sequence) = self.bench.durable.define(key.as_bytes(), &value, &names, None, 0).expect("defined");
        self.done(sequence, Deed::Define(key.clone(), value, parents));
        assert_eq!(self.model.definitions[&key].0, id);
    }

    fn forget(&mut self) {
        let key = format!("{}{}", ['v', 'q', 'b', 'b'][self.dice.below(4) as usize], self.dice.below(6));
        let known = self.model.definitions.contains_key(&key);
        let held = self.model.queues.clone();
        let sequence = self.bench.durable.forget(key.as_bytes(), 0).expect("recorded");
        assert_eq!(sequence.is_some(), known);
        let Some(sequence) = sequence else { return };
        self.done(sequence, Deed::Forget(key));
        // Whoever held the messages of queues that are gone lets go of them, now or never.
        if self.dice.once_in(2) {
            for (queue, messages) in held.iter().filter(|(queue, _)| !self.model.queues.contains_key(*queue)) {
                for number in messages {
                    if let Some(&record) = self.records.get(number) {
                        self.bench.durable.settled(record, *queue);
                    }
                }
            }
        }
        self.drop_unheld();
    }

    /// Records without a queue are not ours to name any more.
    fn drop_unheld(&mut self) {
        let model = &self.model;
        self.records.retain(|number, _| model.is_held(*number));
    }

    fn publish(&mut self) {
        let mut queues = self.queue_ids();
        queues.retain(|_| self.dice.once_in(2));
        if queues.is_empty() {
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        let size = if self.dice.once_in(30) { 2500 } else { self.dice.below(300) as usize };
        self.appended += size as u64 + 60;
        let saved = self.bench.publish(number, size, &queues);
        self.records.insert(number, saved.record);
        self.done(saved.sequence, Deed::Enqueue(number, queues));
    }

    /// Put a message into the queues that do not have it.
    fn enqueue(&mut self) {
        let Some((&number, &record)) = self.records.iter().nth(self.dice.below(self.records.len() as u64) as usize)
        else {
            return;
        };
        if !self.model.is_held(number) {
            return; // its queues were deleted, and compaction may have dropped it
        }
        let mut queues = self.queue_ids();
        queues.retain(|queue| !self.model.has(*queue, number));
        queues.truncate(2);
        if !queues.is_empty() {
            self.settling.retain(|(queue, settled)| *settled != number || !queues.contains(queue));
            let sequence = self.bench.durable.enqueued(record, &queues, 0).expect("recorded");
            self.done(sequence, Deed::Enqueue(number, queues));
        }
    }

    /// Often the first of a queue, as consumers do.
    fn settle(&mut self) {
        let count = self.model.queues.len() as u64;
        let Some((&queue, messages)) = self.model.queues.iter().nth(self.dice.below(count) as usize) else { return };
        let place = if self.dice.once_in(2) { self.dice.below(messages.len() as u64) as usize } else { 0 };
        let number = messages[place];
        let (record, durable) = (self.records[&number], &mut self.bench.durable);
        if durable.slots.queues(record).len() == 1 && self.dice.once_in(20) {
            durable.settled_but_kept(record, queue);
            self.spilled.push(record);
        } else {
            durable.settled(record, queue);
        }
        self.settling.push((queue, number));
        self.done_with.push(DoneWith { queue, number, after: self.bench.durable.last.0 });
        // It is gone for everybody here; what the disk says of it is decided when it is flushed.
        self.model.settle([(queue, number)].into_iter());
        self.drop_unheld();
    }

    /// Forget what is to be recorded of settled messages, as a crash does.
    pub fn lose_settled(&mut self) {
        self.bench.durable.settled.clear();
        self.settling.clear();
    }

    fn spill(&mut self) {
        let message = TestMessage::new(self.next_number, self.dice.below(300) as usize);
        self.next_number += 1;
        self.spilled.push(self.bench.durable.spill(message.content(), 0).expect("recorded").record);
    }

    fn release(&mut self) {
        if !self.spilled.is_empty() {
            let place = self.dice.below(self.spilled.len() as u64) as usize;
            self.bench.durable.release(self.spilled.swap_remove(place));
        }
    }

    /// Everything that is kept can be read once it is synced, wherever compaction put it.
    fn commit(&mut self) {
        self.bench.committer.commit_once();
        let mut buffer = Vec::new();
        self.has_lost |=
            self.spilled.iter().any(|record| self.bench.durable.load(*record, Wait::ForDisk, &mut buffer).is_err());
    }

    /// What a broker does in one call: queues are done with some, there is compaction, and then it is recorded.
    fn wake(&mut self) {
        for _ in 0..self.dice.below(5) {
            self.settle();
        }
        self.compact();
        if self.dice.once_in(2) {
            self.commit();
        }
        self.flush();
    }

    fn flush(&mut self) {
        let sequence = self.bench.durable.flush(0).expect("recorded");
        let settling = std::mem::take(&mut self.settling);
        if !settling.is_empty() {
            self.deeds.push((sequence.0, Deed::Settle(settling)));
        }
    }

    fn compact(&mut self) {
        self.bench.durable.compact(std::mem::take(&mut self.appended) * 2 + 500, || false);
    }

    pub fn step(&mut self) {
        match self.dice.below(100) {
            0..6 => self.define(),
            6..8 => self.forget(),
            8..30 => self.publish(),
            30..33 => self.enqueue(),
            33..72 => self.settle(),
            72..74 => self.spill(),
            74..76 => self.release(),
            76..83 => self.flush(),
            83..90 => self.commit(),
            90..94 => self.wake(),
            _ => self.compact(),
        }
    }
}
