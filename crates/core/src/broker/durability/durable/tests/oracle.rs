//! Random work, power cuts and compaction, against a model that applies the records one by one.

use std::collections::BTreeMap;

use super::*;
use crate::testing::{fewer, rounds};

const SEGMENT_BYTES: u32 = 8192;

/// The effect of a record.
#[derive(Clone, Debug)]
enum Deed {
    Define(String, Vec<u8>, Vec<String>),
    Forget(String),
    Enqueue(u64, Vec<DefinitionId>),
    Settle(Vec<(DefinitionId, u64)>),
}

/// The live records: by key the number and value, the keys it depends on; by queue the messages in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    definitions: BTreeMap<String, (DefinitionId, Vec<u8>, Vec<String>)>,
    queues: BTreeMap<DefinitionId, Vec<u64>>,
}

impl Model {
    fn apply(&mut self, sequence: u64, deed: &Deed) {
        match deed {
            Deed::Define(key, value, parents) => {
                let id = self.definitions.get(key).map_or(DefinitionId(sequence), |known| known.0);
                let parents = parents.iter().filter(|parent| self.definitions.contains_key(*parent)).cloned();
                self.definitions.insert(key.clone(), (id, value.clone(), parents.collect()));
            }
            Deed::Forget(key) => {
                if let Some((id, ..)) = self.definitions.remove(key) {
                    self.queues.remove(&id);
                }
                let children = |entry: (&String, &(DefinitionId, Vec<u8>, Vec<String>))| {
                    entry.1.2.contains(key).then(|| entry.0.clone())
                };
                for child in self.definitions.iter().filter_map(children).collect::<Vec<_>>() {
                    self.apply(sequence, &Deed::Forget(child));
                }
            }
            Deed::Enqueue(number, queues) => {
                queues.iter().for_each(|queue| self.queues.entry(*queue).or_default().push(*number));
            }
            Deed::Settle(places) => {
                for (queue, number) in places {
                    if let Some(messages) = self.queues.get_mut(queue) {
                        messages.retain(|held| held != number);
                    }
                }
            }
        }
        self.queues.retain(|_, messages| !messages.is_empty());
    }
}

/// The work of one life, from one opening to the next crash.
struct QueueLife<'a> {
    bench: JournalHarness,
    dice: &'a mut Dice,
    model: Model,
    /// The effects, each with the number that must be on disk for it to last.
    deeds: Vec<(u64, Deed)>,
    records: BTreeMap<u64, RecordId>,
    /// Settled and not flushed.
    settling: Vec<(DefinitionId, u64)>,
    /// Settled in this life.
    done_with: Vec<(DefinitionId, u64)>,
    next_number: u64,
    appended: u64,
}

impl QueueLife<'_> {
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
        let (id, sequence) = self.bench.durable.define(key.as_bytes(), &value, &names, 0).expect("defined");
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
        self.records.retain(|number, _| model.queues.values().any(|messages| messages.contains(number)));
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
        if !self.model.queues.values().any(|messages| messages.contains(&number)) {
            return; // its queues were deleted, and compaction may have dropped it
        }
        let mut queues = self.queue_ids();
        queues.retain(|queue| {
            !self.model.queues.get(queue).is_some_and(|messages| messages.contains(&number))
                && !self.settling.contains(&(*queue, number))
        });
        queues.truncate(2);
        if !queues.is_empty() {
            let sequence = self.bench.durable.enqueued(record, &queues, 0).expect("recorded");
            self.done(sequence, Deed::Enqueue(number, queues));
        }
    }

    /// Mostly the first of a queue, as consumers do.
    fn settle(&mut self) {
        let count = self.model.queues.len() as u64;
        let Some((&queue, messages)) = self.model.queues.iter().nth(self.dice.below(count) as usize) else { return };
        let place = if self.dice.once_in(4) { self.dice.below(messages.len() as u64) as usize } else { 0 };
        let number = messages[place];
        self.bench.durable.settled(self.records[&number], queue);
        self.settling.push((queue, number));
        self.done_with.push((queue, number));
        // It is gone for everybody here; what the disk says of it is decided when it is flushed.
        let mut settled = self.model.clone();
        settled.apply(0, &Deed::Settle(vec![(queue, number)]));
        self.model = settled;
        self.drop_unheld();
    }

    fn flush(&mut self) {
        let sequence = self.bench.durable.flush(0).expect("recorded");
        let settling = std::mem::take(&mut self.settling);
        if !settling.is_empty() {
            self.deeds.push((sequence.0, Deed::Settle(settling)));
        }
    }

    fn compact(&mut self) {
        self.bench.durable.compact(std::mem::take(&mut self.appended) * 2 + 500);
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..6 => self.define(),
            6..8 => self.forget(),
            8..45 => self.publish(),
            45..48 => self.enqueue(),
            48..80 => self.settle(),
            80..88 => self.flush(),
            88..95 => {
                self.bench.committer.commit_once();
            }
            _ => self.compact(),
        }
    }
}

/// The result of a run of several lives.
#[derive(Debug, Default)]
struct SettledTally {
    crashes: usize,
    lost_or_back: usize,
}

/// Live, crash and compare, many times over.
fn live(
    seed: u64,
    lives: usize,
    prepare: impl Fn(&SimulatedDisk),
    meddle: impl Fn(&mut QueueLife<'_>),
) -> SettledTally {
    let (disk, mut dice, mut tally) = (SimulatedDisk::new(), Dice::new(seed), SettledTally::default());
    prepare(&disk);
    let (mut model, mut deeds, mut synced, mut next_number) = (Model::default(), Vec::new(), 0, 1);
    let mut done_with = Vec::new();
    for _ in 0..lives {
        let Some(bench) = JournalHarness::try_open(&disk, SEGMENT_BYTES) else {
            println!("it cannot be opened");
            tally.lost_or_back += 1;
            return tally;
        };
        let next = bench.durable.last.0 + 1;
        // Everything that was recorded before the number that comes next, and nothing else.
        for (sequence, deed) in std::mem::take(&mut deeds) {
            if sequence < next {
                model.apply(sequence, &deed);
            }
        }
        let Some(found) = recovered(&bench) else {
            println!("a message cannot be read");
            tally.lost_or_back += 1;
            return tally;
        };
        // What somebody was done with may be gone even where the record of that is not there: nobody waits for it.
        for (queue, number) in std::mem::take(&mut done_with) {
            if !found.queues.get(&queue).is_some_and(|messages| messages.contains(&number)) {
                model.apply(0, &Deed::Settle(vec![(queue, number)]));
            }
        }
        if next <= synced || found != model {
            println!("next {next}, synced {synced}\nfound {found:?}\nmodel {model:?}");
            println!("damage {:?}, lost {}", bench.recovered.damage, bench.durable.lost_count);
            tally.lost_or_back += 1;
            return tally;
        }
        let records = bench.recovered.messages.iter();
        let records = records.map(|message| (number_of(&bench.durable, message.record), message.record)).collect();
        let mut life = QueueLife {
            bench,
            dice: &mut dice,
            model: model.clone(),
            deeds: Vec::new(),
            records,
            settling: Vec::new(),
            done_with: Vec::new(),
            next_number,
            appended: 0,
        };
        for _ in 0..life.dice.below(250) {
            life.step();
            meddle(&mut life);
        }
        next_number = life.next_number;
        synced = life.bench.durable.synced().0;
        deeds = std::mem::take(&mut life.deeds);
        done_with = std::mem::take(&mut life.done_with);
        drop(life);
        disk.power_cut(&mut dice);
        tally.crashes += 1;
    }
    tally
}

/// The recovered state in the model's form; None when a message cannot be read.
fn recovered(bench: &JournalHarness) -> Option<Model> {
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.queues())).ok()?;
    let definitions = bench.recovered.definitions.iter().map(|found| {
        let key = String::from_utf8(found.key.clone()).expect("text");
        let parents = &bench.durable.definitions[&found.id].parents;
        let name_of = |id: &DefinitionId| {
            let parent = bench.recovered.definitions.iter().find(|parent| parent.id == *id).expect("there");
            String::from_utf8(parent.key.clone()).expect("text")
        };
        (key, (found.id, found.value.clone(), parents.iter().map(name_of).collect()))
    });
    Some(Model { definitions: definitions.collect(), queues: read.into_iter().collect() })
}

#[test]
fn what_is_recovered_is_what_was_recorded_whenever_the_power_goes() {
    let seed = seed("what_is_recovered", 1000);
    for round in rounds(rounds(0..60)) {
        let tally = live(seed + round, fewer(30), |_| {}, |_| {});
        assert_eq!((tally.lost_or_back, tally.crashes), (0, fewer(30)), "seed {}", seed + round);
    }
}

/// A known fault: about one run in 500 loses a message that was put again into a queue.
#[test]
#[ignore = "loses a message that was put again into a queue; the cause is not known yet"]
fn what_is_recovered_at_seed_91_is_what_was_recorded() {
    let tally = live(91, 30, |_| {}, |_| {});
    assert_eq!((tally.lost_or_back, tally.crashes), (0, 30));
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_without_syncs_it_is_not() {
    let seed = seed("control_without_syncs", 41);
    let caught =
        (0..20).filter(|round| live(seed + round, 30, |disk| disk.ignore_syncs(true), |_| {}).lost_or_back > 0);
    assert!(caught.count() >= 18);
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_when_segments_go_before_their_copies_are_synced_it_is_not() {
    let seed = seed("control_when_segments_go", 41);
    let hasty = |life: &mut QueueLife<'_>| {
        if !life.bench.durable.moves.is_empty()
            && let Some((_, last)) = life.bench.durable.log.sealed_after(crate::journal::SegmentNumber::default())
        {
            life.bench.durable.log.remove_through(last);
        }
    };
    let caught = (0..20).filter(|round| live(seed + round, 30, |_| {}, hasty).lost_or_back > 0);
    assert!(caught.count() >= 5); // a crash has to fall between the two
}
