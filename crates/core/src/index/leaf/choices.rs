//! Mixed choices of a leaf: ORs of ranges, tests and ANDs, decided for all its queries at once.
//!
//! Those of different queries are laid over each other: the first choice of each is one list of conditions, the second another,
//! and so on; conditions within conditions likewise. Instructions evaluate the lists with one bit per query:
//! ```text
//! start         where the instructions start
//! masks         of the tests, as those of attributes
//! instructions  MASK, then the head of the masks of an attribute; BOUNDS, then bounds; END of a list; STOP, after the last;
//!               LIST: the number of its words (above the first 8 bits), then a mask. Lists of which one condition has to hold
//!               begin with the queries that have no such list, those of which all have to hold with the queries that have one
//! ```

use crate::index::clause::{Conjunction, MixedChoice, NumberRange, ValueTest};
use crate::index::ids::SymbolCode;

use super::bounds::bounds_of;
use super::masks::masks_of;
use super::query::everyone;

/// The head of the masks of an attribute follows.
pub const MASK: u64 = 0;
/// Bounds follow.
pub const BOUNDS: u64 = 1;
/// A list begins.
pub const LIST: u64 = 2;
/// The list ends.
pub const END: u64 = 3;
/// All lists have ended.
pub const STOP: u64 = 4;
/// The number of bits of an instruction without its length.
pub const INSTRUCTION_BITS: u32 = 8;

/// Something with the bit of its query.
type WithBit<'q, T> = (u64, &'q T);

/// Writes the choices of a leaf.
struct ChoiceEncoder<'c> {
    codes: &'c [SymbolCode],
    count: usize,
    /// Where the masks start in the leaf.
    masks_start: usize,
    masks: Vec<u64>,
    instructions: Vec<u64>,
}

/// Append the mixed `choices` of each query, of `count`, to the words of a leaf that begins at `start`.
pub fn encode(
    choices: &[(u64, &[&MixedChoice])],
    count: usize,
    codes: &[SymbolCode],
    start: usize,
    words: &mut Vec<u64>,
) {
    let masks_start = words.len() - start + 1;
    let mut encoder = ChoiceEncoder { codes, count, masks_start, masks: Vec::new(), instructions: Vec::new() };
    encoder.each_choice(choices.iter().map(|(bit, choices)| (*bit, choices.iter().copied())));
    encoder.instructions.push(STOP);
    words.push((masks_start + encoder.masks.len()) as u64);
    words.append(&mut encoder.masks);
    words.append(&mut encoder.instructions);
}

/// The first item of each query, then the second of each, and so on.
fn transposed<'q, T: 'q>(all: impl Iterator<Item = (u64, impl Iterator<Item = &'q T>)>) -> Vec<Vec<WithBit<'q, T>>> {
    let mut layers: Vec<Vec<WithBit<'q, T>>> = Vec::new();
    for (bit, items) in all {
        for (number, item) in items.enumerate() {
            if number == layers.len() {
                layers.push(Vec::new());
            }
            layers[number].push((bit, item));
        }
    }
    layers
}

fn who<T>(items: &[WithBit<'_, T>]) -> u64 {
    items.iter().fold(0, |mask, (bit, _)| mask | bit)
}

impl ChoiceEncoder<'_> {
    fn each_choice<'q>(&mut self, choices: impl Iterator<Item = (u64, impl Iterator<Item = &'q MixedChoice>)>) {
        for layer in transposed(choices) {
            self.list(everyone(self.count) & !who(&layer), |own| own.choice(&layer));
        }
    }

    /// One list of conditions of which one has to hold.
    fn choice(&mut self, layer: &[WithBit<'_, MixedChoice>]) {
        self.tests(layer.iter().map(|(bit, choice)| (*bit, &choice.tests[..])), 0);
        self.bounds(layer.iter().map(|(bit, choice)| (*bit, &choice.ranges[..])));
        for layer in transposed(layer.iter().map(|(bit, choice)| (*bit, choice.conjunctions.iter()))) {
            self.list(who(&layer), |own| own.conjunction(&layer));
        }
    }

    /// One list of conditions that all have to hold.
    fn conjunction(&mut self, layer: &[WithBit<'_, Conjunction>]) {
        self.tests(layer.iter().map(|(bit, all)| (*bit, &all.tests[..])), everyone(self.count));
        self.bounds(layer.iter().map(|(bit, all)| (*bit, &all.ranges[..])));
        self.each_choice(layer.iter().map(|(bit, all)| (*bit, all.choices.iter())));
    }

    fn list(&mut self, mask: u64, conditions: impl FnOnce(&mut Self)) {
        let start = self.instructions.len();
        self.instructions.extend([LIST, mask]);
        conditions(self);
        self.instructions.push(END);
        let length = self.instructions.len() - start;
        self.instructions[start] |= (length as u64) << INSTRUCTION_BITS;
    }

    /// The tests of each query; `free` are the queries that pass when they have none.
    fn tests<'q>(&mut self, tests: impl Iterator<Item = (u64, &'q [ValueTest])>, free: u64) {
        let tests = tests.flat_map(|(bit, tests)| tests.iter().map(move |test| (bit, test)));
        for masks in masks_of(tests, free, self.codes) {
            self.instructions.push(MASK);
            masks.encode(&mut self.instructions, self.masks_start, &mut self.masks);
        }
    }

    fn bounds<'q>(&mut self, ranges: impl Iterator<Item = (u64, &'q [NumberRange])>) {
        for bounds in bounds_of(ranges, self.count) {
            self.instructions.push(BOUNDS);
            bounds.encode(self.count, &mut self.instructions);
        }
    }
}
