//! The masks of one attribute in a leaf, as they are built and written.

use crate::index::clause::{ListRule, ValueTest};
use crate::index::ids::{AttributeId, SymbolCode};
use crate::index::layout::bytes::{extend_pairs, flags_of};
use crate::index::value_class::{ByClass, ValueClass};

/// With this flag, values without a mask of their own rule out some queries that ask about the attribute.
pub const OPEN: u64 = 1;
/// With this flag, there are masks for absent, null and without a value.
pub const CLASSES: u64 = 2;
/// With this flag, the codes of the values are listed.
pub const LISTED: u64 = 4;
/// With this flag, there are masks of how the tests decide lists.
pub const LISTS: u64 = 8;
/// Masks lie at the positions of their codes, unless there are more than this many times as many codes as masks.
const DENSE_MAX: usize = 4;

/// A test with the bit of its query.
pub type TestBit<'q> = (u64, &'q ValueTest);

/// The queries whose tests do not simply hold of a list when they hold of some element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListMasks {
    /// Whose test decides no list: they are evaluated.
    pub undecided: u64,
    /// Whose test has to hold of every element.
    pub every: u64,
    /// Whose test only decides plain lists, of known values that read in one way; all of the above, too.
    pub of_plain: u64,
}

/// The masks of one attribute.
#[derive(Debug)]
pub struct AttributeMasks {
    /// The attribute whose values have the masks.
    pub attribute: AttributeId,
    /// The queries that do not ask about the attribute.
    pub free: u64,
    /// How the tests decide lists.
    pub lists: ListMasks,
    /// The queries that values without a symbol do not rule out.
    pub by_class: ByClass<u64>,
    /// The masks of symbols, by ascending code.
    pub values: Vec<(SymbolCode, u64)>,
}

impl AttributeMasks {
    /// The masks of `tests`, all of one attribute. `free` are the queries without a test of it.
    fn new(tests: &[TestBit<'_>], free: u64, codes: &[SymbolCode]) -> Self {
        let mask_of = |class| tests.iter().filter(|(_, test)| test.classes.has(class)).fold(free, |mask, t| mask | t.0);
        let by_class = ByClass(ValueClass::ALL.map(mask_of));
        let other = by_class.get(ValueClass::Other);
        let named = tests.iter().flat_map(|(bit, test)| test.symbols.iter().map(|s| (codes[s.index()], *bit)));
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        let mut values: Vec<(SymbolCode, u64)> = Vec::new();
        for (code, bit) in named {
            if values.last().is_none_or(|last| last.0 != code) {
                values.push((code, other));
            }
            // A closed test admits what it names, and an open one rules it out.
            values.last_mut().expect("just made").1 ^= bit;
        }
        let of_rule = |is_it: fn(&ValueTest) -> bool| {
            tests.iter().filter(|(_, test)| is_it(test)).fold(0, |mask, (bit, _)| mask | bit)
        };
        let lists = ListMasks {
            undecided: of_rule(|test| test.list_rule == ListRule::Undecided),
            every: of_rule(|test| test.list_rule == ListRule::Every),
            of_plain: of_rule(|test| !test.decides_any_list()),
        };
        Self { attribute: tests[0].1.attribute, free, lists, by_class, values }
    }

    /// The mask of a value without a mask of its own.
    pub fn other(&self) -> u64 {
        self.by_class.get(ValueClass::Other)
    }

    /// True when every value, and every element of a list, rules out all of `everyone`, or none.
    pub fn is_uniform(&self, everyone: u64) -> bool {
        if self.lists != ListMasks::default() {
            return false;
        }
        let masks = self.values.iter().map(|(_, mask)| *mask).chain(self.by_class.0);
        masks.into_iter().all(|mask| mask == 0 || mask == everyone)
    }

    /// True when any known value, and every element of a list that is one, passes all of `everyone`, and what is no value
    /// rules out those that ask.
    pub fn is_of_presence(&self, everyone: u64) -> bool {
        self.lists == ListMasks::default()
            && self.values.is_empty()
            && self.by_class == ByClass([self.free, self.free, self.free, everyone])
    }

    /// The average number of queries that a value does not rule out: the fewer, the earlier the masks are read.
    fn passing(&self) -> u32 {
        let masks = self.values.iter().map(|(_, mask)| mask.count_ones());
        (masks.sum::<u32>() + self.other().count_ones()) / (self.values.len() as u32 + 1)
    }

    /// Append the head to `heads` and the masks to `bodies`, which start at `start` in the leaf.
    pub fn encode(&self, heads: &mut Vec<u64>, start: usize, bodies: &mut Vec<u64>) {
        let [classes @ .., other] = self.by_class.0;
        let (is_open, has_classes) = (other != self.free, classes != [self.free; 3]);
        let codes = self.values.last().map_or(0, |(code, _)| code.index() + 1);
        let is_listed = codes > DENSE_MAX * self.values.len();
        let has_rules = self.lists != ListMasks::default();
        let flags = flags_of([(is_open, OPEN), (has_classes, CLASSES), (is_listed, LISTED), (has_rules, LISTS)]);
        let count = if is_listed { self.values.len() } else { codes };
        let ListMasks { undecided, every, of_plain } = self.lists;
        bodies.extend(has_rules.then_some([undecided, every, of_plain]).into_iter().flatten());
        bodies.extend(has_classes.then_some(classes).into_iter().flatten());
        bodies.extend(is_open.then_some(self.free));
        heads.push(u64::from(self.attribute.0) | ((start + bodies.len()) as u64) << 32);
        heads.push(count as u64 | flags << 32);
        bodies.push(other);
        if is_listed {
            extend_pairs(bodies, self.values.iter().map(|(code, _)| code.0));
            bodies.extend(self.values.iter().map(|(_, mask)| *mask));
        } else {
            let first = bodies.len();
            bodies.resize(first + codes, other);
            self.values.iter().for_each(|(code, mask)| bodies[first + code.index()] = *mask);
        }
    }
}

/// The masks for `tests`, of each attribute that they ask about, the most selective first. `everyone` are the queries
/// without a test, and `codes` those of the symbols.
#[must_use]
pub fn masks_of<'q>(
    tests: impl Iterator<Item = TestBit<'q>>,
    everyone: u64,
    codes: &[SymbolCode],
) -> Vec<AttributeMasks> {
    // Attributes are few and tests many: searching the attributes is less work than sorting the tests.
    let mut asking: Vec<(AttributeId, Vec<TestBit<'_>>)> = Vec::new();
    for (bit, test) in tests {
        match asking.iter_mut().find(|(attribute, _)| *attribute == test.attribute) {
            Some((_, tests)) => tests.push((bit, test)),
            None => asking.push((test.attribute, vec![(bit, test)])),
        }
    }
    asking.sort_unstable_by_key(|(attribute, _)| *attribute);
    let of_one = |(_, tests): &(AttributeId, Vec<TestBit<'_>>)| {
        let free = tests.iter().fold(everyone, |mask, (bit, _)| mask & !bit);
        AttributeMasks::new(tests, free, codes)
    };
    let mut masks: Vec<_> = asking.iter().map(of_one).collect();
    masks.sort_by_key(AttributeMasks::passing);
    masks
}
