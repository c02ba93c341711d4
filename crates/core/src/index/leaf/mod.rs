//! A leaf: up to 64 queries side by side, one bit each, in one run of memory.
//!
//! Each attribute that some of them ask about has a *section*: for every value that they name a mask with a 1 for each
//! query that the value does not rule out (the inverted bitmaps of the OpenAMQ and Malamute papers). The masks of a message's values
//! are ANDed, the most telling first; the bits that are left are candidates, whose numbers are then compared.
//!
//! A leaf is words of eight bytes, little-endian, the same in memory and in a file:
//! ```text
//! head      queries (8 bits), sections (16), slots (8), columns of ranges (8), flags (8)
//! place     the first query's slot number (32 bits), where the ranges begin (32)
//! answers   the place of its first subscription (32), where the answers begin (32)
//! verify    with VERIFY: the queries that have to be evaluated
//! sections  of each: attribute (32), where its `other` is (32); values (32), flags (32)
//! slots     of each: how many sections; free; these, as above
//! section   with CLASSES: absent, null, valueless; with OPEN: free, else that is `other` too; other; then the masks, with
//!           LISTED after the codes of their values, ascending, two a word; else the first is that of code 0, the next
//!           that of code 1
//! ranges    a column for each attribute (`columns.rs`)
//! answers   whose ids those are that are found (`answers.rs`), to the end of the leaf
//! ```

pub mod bounds;
pub mod subscribers;

use smallvec::SmallVec;

use crate::index::SubscriptionId;
use crate::index::compile::clauses::{ABSENT, NULL, OTHER, Range, Test, VALUELESS};
use crate::index::compile::interner::{AttributeId, Known, SymbolId};
use crate::index::layout::cpu::prefetch;
use crate::index::leaf::bounds::{ColumnView, RANGES_MAX, columns};
use crate::index::matching::scratch::{Code, Codes};
use subscribers::{self as answers, Answers};

/// Queries in a leaf: a bit of a word each.
pub const LEAF: usize = 64;
/// A query with more clauses of a kind than this has the others evaluated.
const ROWS_MAX: usize = 24;
const SLOTS_MAX: usize = 4;

const VERIFY: u64 = 1;
const OPEN: u64 = 1;
const CLASSES: u64 = 2;
const LISTED: u64 = 4;
/// Masks lie at the places of their codes, unless those are more than so many times as many.
const DENSE_MAX: usize = 4;

/// One query as a leaf takes it.
#[derive(Clone, Debug, Default)]
pub struct LeafQuery<'a> {
    /// Its number among the distinct queries.
    pub slot: u32,
    /// What has to hold of single attributes.
    pub rows: SmallVec<[&'a Test; 8]>,
    /// What has to hold of several.
    pub slots: SmallVec<[&'a [Test]; 1]>,
    /// What has to hold of numbers.
    pub ranges: &'a [Range],
    /// True when the query has to be evaluated after all that.
    pub has_rest: bool,
    /// The ids of its subscriptions, ascending.
    pub ids: &'a [SubscriptionId],
    /// The place of the first of them.
    pub place: u32,
}

impl LeafQuery<'_> {
    /// True when not all of its clauses go into the leaf.
    fn is_cut(&self) -> bool {
        is_cut(self.rows.len(), self.slots.len(), self.ranges.len())
    }
}

/// True when a leaf does not take so many clauses of a query.
#[must_use]
pub fn is_cut(rows: usize, slots: usize, ranges: usize) -> bool {
    rows > ROWS_MAX || slots > SLOTS_MAX || ranges > RANGES_MAX
}

/// The masks of one attribute.
#[derive(Debug)]
pub struct Section {
    /// Whose values.
    pub attribute: AttributeId,
    /// Queries that do not ask.
    pub free: u64,
    /// Queries that a value without a mask of its own does not rule out.
    pub other: u64,
    /// The same for a message that lacks the attribute, has null, or has no value.
    pub classes: [u64; 3],
    /// By ascending code.
    pub values: Vec<(SymbolId, u64)>,
}

impl Section {
    /// The masks of `tests`: (the query's bit, its test), all on one attribute. `free` are the queries without one.
    fn new(tests: &[(u64, &Test)], free: u64, codes: &[SymbolId]) -> Self {
        let with =
            |class: u8| tests.iter().filter(|(_, test)| test.classes & class != 0).fold(free, |mask, t| mask | t.0);
        let other = with(OTHER);
        let named = tests.iter().flat_map(|(bit, test)| test.symbols.iter().map(|s| (codes[*s as usize], *bit)));
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        let mut values: Vec<(SymbolId, u64)> = Vec::new();
        for (code, bit) in named {
            if values.last().is_none_or(|last| last.0 != code) {
                values.push((code, other));
            }
            // Named in a closed test it is in, named in an open one it is out.
            values.last_mut().expect("just made").1 ^= bit;
        }
        Self { attribute: tests[0].1.attribute, free, other, classes: [ABSENT, NULL, VALUELESS].map(with), values }
    }

    /// True when every value rules out all of `everyone`, or none.
    pub fn is_uniform(&self, everyone: u64) -> bool {
        let masks = self.values.iter().map(|(_, mask)| *mask).chain(self.classes).chain([self.other]);
        masks.into_iter().all(|mask| mask == 0 || mask == everyone)
    }

    /// How many queries pass for a value, on average: the fewer, the earlier a section is looked at.
    fn passing(&self) -> u32 {
        let masks = self.values.iter().map(|(_, mask)| mask.count_ones());
        (masks.sum::<u32>() + self.other.count_ones()) / (self.values.len() as u32 + 1)
    }

    /// Append its head to `heads`, and it to `bodies`, which begin at `start` in the leaf.
    fn encode(&self, heads: &mut Vec<u64>, start: usize, bodies: &mut Vec<u64>) {
        let (is_open, has_classes) = (self.other != self.free, self.classes != [self.free; 3]);
        let codes = self.values.last().map_or(0, |(code, _)| *code as usize + 1);
        let is_listed = codes > DENSE_MAX * self.values.len();
        let flags = flags_of([(is_open, OPEN), (has_classes, CLASSES), (is_listed, LISTED)]);
        let count = if is_listed { self.values.len() } else { codes };
        bodies.extend(has_classes.then_some(self.classes).into_iter().flatten());
        bodies.extend(is_open.then_some(self.free));
        heads.push(u64::from(self.attribute) | ((start + bodies.len()) as u64) << 32);
        heads.push(count as u64 | flags << 32);
        bodies.push(self.other);
        if is_listed {
            encode_pairs(self.values.iter().map(|(code, _)| *code), bodies);
            bodies.extend(self.values.iter().map(|(_, mask)| *mask));
        } else {
            let first = bodies.len();
            bodies.resize(first + codes, self.other);
            self.values.iter().for_each(|(code, mask)| bodies[first + *code as usize] = *mask);
        }
    }
}

/// Those that are set.
pub fn flags_of<const COUNT: usize>(flags: [(bool, u64); COUNT]) -> u64 {
    flags.into_iter().fold(0, |flags, (is_set, flag)| if is_set { flags | flag } else { flags })
}

/// Append `numbers`, two a word.
pub fn encode_pairs(numbers: impl Iterator<Item = u32>, words: &mut Vec<u64>) {
    let mut is_second = false;
    for number in numbers {
        match words.last_mut().filter(|_| is_second) {
            Some(last) => *last |= u64::from(number) << 32,
            None => words.push(u64::from(number)),
        }
        is_second = !is_second;
    }
}

/// The sections for those of `tests`, by attribute.
fn sections_of<'q>(tests: impl Iterator<Item = (u64, &'q Test)>, everyone: u64, codes: &[SymbolId]) -> Vec<Section> {
    // Few attributes and many tests: going through those is less work than sorting these.
    let mut asking: Vec<(AttributeId, Vec<(u64, &Test)>)> = Vec::new();
    for (bit, test) in tests {
        match asking.iter_mut().find(|(attribute, _)| *attribute == test.attribute) {
            Some((_, tests)) => tests.push((bit, test)),
            None => asking.push((test.attribute, vec![(bit, test)])),
        }
    }
    asking.sort_unstable_by_key(|(attribute, _)| *attribute);
    let of_one = |(_, tests): &(AttributeId, Vec<(u64, &Test)>)| {
        let free = tests.iter().fold(everyone, |mask, (bit, _)| mask & !bit);
        Section::new(tests, free, codes)
    };
    let mut sections: Vec<_> = asking.iter().map(of_one).collect();
    sections.sort_by_key(Section::passing);
    sections
}

fn bits<'a, 'q>(queries: &'a [LeafQuery<'q>]) -> impl Iterator<Item = (u64, &'a LeafQuery<'q>)> + Clone {
    (0..LEAF).map(|place| 1_u64 << place).zip(queries)
}

/// A 1 for each of `count` queries.
#[must_use]
pub fn everyone(count: usize) -> u64 {
    u64::MAX >> (LEAF - count)
}

/// The sections of a leaf of `queries`, at most [`LEAF`], the most telling first. `codes` are those of the symbols.
#[must_use]
pub fn sections(queries: &[LeafQuery<'_>], codes: &[SymbolId]) -> Vec<Section> {
    let rows = bits(queries).flat_map(|(bit, query)| query.rows.iter().take(ROWS_MAX).map(move |test| (bit, *test)));
    sections_of(rows, everyone(queries.len()), codes)
}

/// Append the leaf of `queries` to `words`, with those of its `sections` that are not decided elsewhere.
pub fn encode(queries: &[LeafQuery<'_>], sections: &[Section], codes: &[SymbolId], words: &mut Vec<u64>) {
    let start = words.len();
    let unsure = bits(queries).filter(|(_, query)| query.has_rest || query.is_cut());
    let verify = unsure.fold(0, |mask, (bit, _)| mask | bit);
    let slot_count = queries.iter().map(|query| query.slots.len()).max().unwrap_or(0).min(SLOTS_MAX);
    let columns = columns(bits(queries));
    let flags = if verify != 0 { VERIFY } else { 0 } | answers::flags(queries) << 8;
    let counts = (sections.len() as u64) << 8 | (slot_count as u64) << 24 | (columns.len() as u64) << 32;
    words.push(queries.len() as u64 | counts | flags << 40);
    words.extend([u64::from(queries[0].slot), u64::from(queries[0].place)]);
    words.extend((verify != 0).then_some(verify));
    let slots: Vec<_> = (0..slot_count).map(|slot| slot_of(queries, slot, codes)).collect();
    let heads = slots.iter().map(|(_, sections)| 2 + 2 * sections.len()).sum::<usize>() + 2 * sections.len();
    let (bodies_start, mut bodies) = (words.len() - start + heads, Vec::new());
    sections.iter().for_each(|section| section.encode(words, bodies_start, &mut bodies));
    for (free, sections) in slots {
        words.extend([sections.len() as u64, free]);
        sections.iter().for_each(|section| section.encode(words, bodies_start, &mut bodies));
    }
    words.append(&mut bodies);
    words[start + 1] |= ((words.len() - start) as u64) << 32;
    columns.iter().for_each(|column| column.encode(queries.len(), words));
    words[start + 2] |= ((words.len() - start) as u64) << 32;
    answers::encode(queries, words);
}

/// Who does not ask in a slot, and its sections.
fn slot_of(queries: &[LeafQuery<'_>], slot: usize, codes: &[SymbolId]) -> (u64, Vec<Section>) {
    let tests = bits(queries).filter_map(|(bit, query)| query.slots.get(slot).map(|tests| (bit, *tests)));
    let asking = tests.clone().fold(0, |mask, (bit, _)| mask | bit);
    let rows = tests.flat_map(|(bit, tests)| tests.iter().map(move |test| (bit, test)));
    (everyone(queries.len()) & !asking, sections_of(rows, 0, codes))
}

/// A word of a leaf as it lies in memory.
pub type Word = [u8; 8];

/// The word at `place`, if there is one.
#[inline(always)]
pub fn word(words: &[Word], place: usize) -> Option<u64> {
    words.get(place).map(|word| u64::from_le_bytes(*word))
}

/// The bits of a mask, lowest first.
#[inline(always)]
pub fn ones(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.checked_sub(1)?;
        Some(bit)
    })
}

/// Ask for the first bounds of a leaf whose head has come, and for its answers.
#[inline(always)]
pub fn prefetch_end(words: &[Word]) {
    let (Some(place), Some(answers)) = (word(words, 1), word(words, 2)) else { return };
    let from = |start: u64| words.get(start as usize..).unwrap_or_default();
    prefetch::<2>(from(place >> 32));
    prefetch::<4>(from(answers >> 32));
}

/// What is left of a leaf.
pub struct Candidates<'a> {
    words: &'a [Word],
    /// Queries that are not ruled out, a bit each.
    pub alive: u64,
    /// Those of them that have still to be evaluated.
    pub verify: u64,
    head: u64,
    place: u64,
}

impl<'a> Candidates<'a> {
    /// What sections and slots leave of the leaf at the start of `words`. None when the words are no leaf.
    #[inline(always)]
    pub fn of(words: &'a [Word], codes: &Codes) -> Option<Self> {
        let (head, place) = (word(words, 0)?, word(words, 1)?);
        let mut alive = u64::MAX >> (LEAF.checked_sub(count_of(head))? & 63);
        let mut at = 3;
        let mut verify = 0;
        if head >> 40 & VERIFY != 0 {
            verify = word(words, at)?;
            at += 1;
        }
        for _ in 0..head >> 8 & 0xffff {
            alive &= SectionView::new(words, at)?.mask(codes, &mut verify)?;
            at += 2;
            if alive == 0 {
                return Some(Self { words, alive, verify, head, place });
            }
        }
        for _ in 0..head >> 24 & 0xff {
            let (sections, free) = (word(words, at)?, word(words, at + 1)?);
            at += 2;
            let mut passing = free;
            for _ in 0..sections {
                let mut unsure = 0;
                let mask = SectionView::new(words, at)?.mask(codes, &mut unsure)?;
                at += 2;
                // Of a list nothing is known here: whoever asks in this slot is evaluated.
                (passing, verify) = if unsure == 0 { (passing | mask, verify) } else { (u64::MAX, verify | !free) };
            }
            alive &= passing;
        }
        Some(Self { words, alive, verify, head, place })
    }

    /// Strike out those whose ranges do not hold. None when the words are no leaf.
    #[inline(always)]
    pub fn compare(&mut self, codes: &Codes) -> Option<()> {
        let mut at = (self.place >> 32) as usize;
        for _ in 0..self.head >> 32 & 0xff {
            if self.alive == 0 {
                break;
            }
            let column = ColumnView::new(self.words, at, count_of(self.head))?;
            self.alive &= column.within(self.alive, codes, &mut self.verify)?;
            at = column.end;
        }
        Some(())
    }

    /// Whose ids are found for those that are true.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "two halves")]
    pub fn answers(&self) -> Option<Answers<'a>> {
        let answers = word(self.words, 2)?;
        let words = self.words.get((answers >> 32) as usize..)?;
        Answers::of(words, self.head >> 48, count_of(self.head), self.place as u32, answers as u32)
    }
}

/// How many queries a leaf with this head has.
fn count_of(head: u64) -> usize {
    (head & 0xff) as usize
}

/// A section, of which next to nothing has been read: sections lie far apart, and of most only one word is needed.
struct SectionView<'a> {
    words: &'a [Word],
    attribute: AttributeId,
    flags: u64,
    count: usize,
    start: usize,
}

impl<'a> SectionView<'a> {
    /// The section whose head is at `at`.
    #[inline(always)]
    fn new(words: &'a [Word], at: usize) -> Option<Self> {
        let (place, shape) = (word(words, at)?, word(words, at + 1)?);
        #[expect(clippy::cast_possible_truncation, reason = "two halves")]
        let (attribute, count) = (place as AttributeId, shape as u32 as usize);
        Some(Self { words, attribute, flags: shape >> 32, count, start: (place >> 32) as usize })
    }

    /// The queries that the message does not rule out. Of a list nothing is known: whoever asks is added to `verify`.
    #[inline(always)]
    fn mask(&self, codes: &Codes, verify: &mut u64) -> Option<u64> {
        if let Some(code) = codes.symbol(self.attribute)? {
            return self.of(code);
        }
        match codes.get(self.attribute)? {
            Code::Absent => self.class(0),
            Code::Null => self.class(1),
            Code::Valueless => self.class(2),
            Code::Other | Code::Symbol(_) => self.other(),
            Code::Several(symbols) => self.of_several(symbols),
            Code::List => {
                *verify |= !self.free()?;
                Some(u64::MAX)
            }
        }
    }

    #[inline(always)]
    fn other(&self) -> Option<u64> {
        word(self.words, self.start)
    }

    #[inline(always)]
    fn free(&self) -> Option<u64> {
        word(self.words, self.start.checked_sub(usize::from(self.flags & OPEN != 0))?)
    }

    fn class(&self, class: usize) -> Option<u64> {
        if self.flags & CLASSES == 0 {
            return self.free();
        }
        let behind = 3 + usize::from(self.flags & OPEN != 0);
        word(self.words, self.start.checked_sub(behind)? + class)
    }

    /// Codes where they are listed, and masks.
    #[inline(always)]
    fn values(&self) -> Option<(&'a [[u8; 4]], &'a [Word])> {
        let mut at = self.start + 1;
        let mut codes: &[[u8; 4]] = &[];
        if self.flags & LISTED != 0 {
            let words = self.words.get(at..at + self.count.div_ceil(2))?;
            codes = words.as_flattened().as_chunks().0.get(..self.count)?;
            at += words.len();
        }
        Some((codes, self.words.get(at..at + self.count)?))
    }

    /// What any of several symbols lets in. Cost: linear in the fewer of theirs and the section's, logarithmic in the
    /// more.
    fn of_several(&self, symbols: &[(AttributeId, Known)]) -> Option<u64> {
        let (codes, masks) = self.values()?;
        let mine = &symbols[symbols.partition_point(|(attribute, _)| *attribute < self.attribute)..];
        let mut mine = &mine[..mine.partition_point(|(attribute, _)| *attribute == self.attribute)];
        if self.flags & LISTED == 0 {
            mine = &mine[..mine.partition_point(|(_, known)| (known.code as usize) < masks.len())];
        }
        let mut all = self.other()?;
        if self.flags & LISTED == 0 || mine.len() <= codes.len() {
            for (_, known) in mine {
                all |= self.of(known.code)?;
            }
        } else {
            let is_there =
                |code: &[u8; 4]| mine.binary_search_by_key(&u32::from_le_bytes(*code), |(_, k)| k.code).is_ok();
            let there = codes.iter().zip(masks).filter(|(code, _)| is_there(code));
            there.for_each(|(_, one)| all |= u64::from_le_bytes(*one));
        }
        Some(all)
    }

    /// What the value with this code lets in, or any without a mask of its own.
    #[inline(always)]
    fn of(&self, code: SymbolId) -> Option<u64> {
        if self.flags & LISTED == 0 {
            let code = code as usize;
            return word(self.words, self.start + if code < self.count { 1 + code } else { 0 });
        }
        let (codes, masks) = self.values()?;
        match codes.binary_search_by_key(&code, |other| u32::from_le_bytes(*other)) {
            Ok(place) => Some(u64::from_le_bytes(masks[place])),
            Err(_) => self.other(),
        }
    }
}
