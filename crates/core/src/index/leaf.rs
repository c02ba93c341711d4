//! A leaf: up to 64 queries side by side, one bit each, in one run of memory.
//!
//! Each attribute that some of them ask about has a *section*: for every value that they name a mask with a 1 for each
//! query that the value does not rule out (the inverted bitmaps of papers 000 and 003). The masks of a message's values
//! are ANDed, the most telling first; the bits that are left are candidates, whose numbers are then compared.
//!
//! A leaf is words of eight bytes, little-endian, the same in memory and in a file:
//! ```text
//! head      queries (8 bits), sections (16), slots (8), columns of ranges (8), flags (8)
//! place     the first query's slot number (32 bits), where the ranges begin (32)
//! answers   the place of its first subscription (32), where the answers begin (32)
//! verify    with VERIFY: the queries that have to be evaluated
//! sections  of each: attribute (32), where it begins (32); values (32), flags (32)
//! slots     of each: how many sections; free; these, as above
//! section   free; with OPEN: other; with CLASSES: absent, null, valueless; then the masks, with LISTED after the codes of
//!           their values, ascending, two a word; else the first is that of code 0, the next that of code 1
//! ranges    a column for each attribute: attribute (32) and flags (32); who asks; with HULL: the lowest and the highest
//!           bound; their low bounds, their high ones, or, with DENSE, those of all queries
//! answers   whose ids those are that are found (`answers.rs`), to the end of the leaf
//! ```

use smallvec::SmallVec;

use super::SubscriptionId;
use super::answers::{self, Answers};
use super::normal::{ABSENT, NULL, OTHER, Range, Test, VALUELESS};
use super::processor::prefetch;
use super::scratch::{Code, Codes};
use super::symbols::{AttributeId, Known, SymbolId};

/// Queries in a leaf: a bit of a word each.
pub const LEAF: usize = 64;
/// A query with more clauses of a kind than this has the others evaluated.
const ROWS_MAX: usize = 24;
const SLOTS_MAX: usize = 4;
/// 64 times as many columns still fit into their count.
const RANGES_MAX: usize = 3;

const VERIFY: u64 = 1;
const OPEN: u64 = 1;
const CLASSES: u64 = 2;
const LISTED: u64 = 4;
const TIME: u64 = 1;
const NEGATED: u64 = 2;
const DENSE: u64 = 4;
const HULL: u64 = 8;
/// The bounds of so many queries are worth two words that say where all of them lie.
const HULL_MIN: usize = 8;

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
        let is_listed = codes > self.values.len() + self.values.len().div_ceil(2);
        let flags = [(is_open, OPEN), (has_classes, CLASSES), (is_listed, LISTED)];
        let flags = flags.into_iter().fold(0, |flags, (is_set, flag)| if is_set { flags | flag } else { flags });
        let count = if is_listed { self.values.len() } else { codes };
        heads.push(u64::from(self.attribute) | ((start + bodies.len()) as u64) << 32);
        heads.push(count as u64 | flags << 32);
        bodies.push(self.free);
        bodies.extend(is_open.then_some(self.other));
        bodies.extend(has_classes.then_some(self.classes).into_iter().flatten());
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
    let columns = columns(queries);
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
    for (head, ranges) in columns {
        encode_column(head, &ranges, queries.len(), words);
    }
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

fn encode_column(head: u64, ranges: &[(u64, &Range)], count: usize, words: &mut Vec<u64>) {
    let who = ranges.iter().fold(0, |mask, (bit, _)| mask | bit);
    let is_dense = ranges.len() * 2 >= count;
    let has_hull = ranges.len() >= HULL_MIN;
    let flags = if is_dense { DENSE } else { 0 } | if has_hull { HULL } else { 0 };
    words.extend([head | flags << 32, who]);
    if has_hull {
        let low = ranges.iter().map(|(_, range)| range.low).fold(f64::INFINITY, f64::min);
        let high = ranges.iter().map(|(_, range)| range.high).fold(f64::NEG_INFINITY, f64::max);
        words.extend([low, high].map(f64::to_bits));
    }
    if is_dense {
        // Bounds at the places of their queries, be some of no use: all are then compared at once.
        let mut bounds = [[0_u64; LEAF]; 2];
        for (bit, range) in ranges {
            let place = bit.trailing_zeros() as usize;
            (bounds[0][place], bounds[1][place]) = (range.low.to_bits(), range.high.to_bits());
        }
        bounds.iter().for_each(|bounds| words.extend_from_slice(&bounds[..count]));
    } else {
        words.extend(ranges.iter().map(|(_, range)| range.low.to_bits()));
        words.extend(ranges.iter().map(|(_, range)| range.high.to_bits()));
    }
}

/// Ranges by attribute and flags; of several that a query has there, each has a column of its own.
fn columns<'q>(queries: &[LeafQuery<'q>]) -> Vec<(u64, Vec<(u64, &'q Range)>)> {
    let mut columns: Vec<(u64, Vec<(u64, &Range)>)> = Vec::new();
    for (bit, query) in bits(queries) {
        for range in query.ranges.iter().take(RANGES_MAX) {
            let flags = if range.is_time { TIME } else { 0 } | if range.is_negated { NEGATED } else { 0 };
            let head = u64::from(range.attribute) | flags << 32;
            let free = |(other, ranges): &&mut (u64, Vec<(u64, &Range)>)| {
                *other == head && ranges.last().is_none_or(|(last, _)| *last != bit)
            };
            match columns.iter_mut().find(free) {
                Some((_, ranges)) => ranges.push((bit, range)),
                None => columns.push((head, vec![(bit, range)])),
            }
        }
    }
    columns
}

/// A word of a leaf as it lies in memory.
pub type Word = [u8; 8];

#[inline(always)]
fn word(words: &[Word], place: usize) -> Option<u64> {
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
    let from = |start: u64| words.get(start as usize..).unwrap_or_default().as_flattened();
    prefetch(from(place >> 32), 2);
    prefetch(from(answers >> 32), 4);
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
            let column = Column::new(self.words, at, count_of(self.head))?;
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

/// The bounds of one attribute's numbers.
struct Column<'a> {
    words: &'a [Word],
    head: u64,
    who: u64,
    /// How many bounds there are of each kind, where they begin, and where they end.
    count: usize,
    start: usize,
    end: usize,
}

impl<'a> Column<'a> {
    /// The column at `at` in a leaf of `queries`.
    #[inline(always)]
    fn new(words: &'a [Word], at: usize, queries: usize) -> Option<Self> {
        let (head, who) = (word(words, at)?, word(words, at + 1)?);
        let count = if head >> 32 & DENSE != 0 { queries } else { who.count_ones() as usize };
        let start = at + if head >> 32 & HULL != 0 { 4 } else { 2 };
        Some(Self { words, head, who, count, start, end: start + 2 * count })
    }

    /// The queries whose range holds, or that have none. Of a list nothing is known: `verify`.
    #[inline(always)]
    fn within(&self, alive: u64, codes: &Codes, verify: &mut u64) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits")]
        let (attribute, flags) = (self.head as AttributeId, self.head >> 32);
        if matches!(codes.get(attribute)?, Code::List) {
            *verify |= self.who;
            return Some(u64::MAX);
        }
        let between = self.between(codes.number(attribute, flags & TIME != 0)?, alive)?;
        Some(!self.who | if flags & NEGATED != 0 { !between } else { between })
    }

    /// Those of `alive` between whose bounds `number` is. Where like bounds lie together, most leaves are done with after
    /// one look at all of them together.
    #[inline(always)]
    fn between(&self, number: f64, alive: u64) -> Option<u64> {
        let flags = self.head >> 32;
        let holds =
            |low: &Word, high: &Word| (number >= f64::from_le_bytes(*low)) & (number <= f64::from_le_bytes(*high));
        if flags & HULL != 0 && !holds(self.words.get(self.start - 2)?, self.words.get(self.start - 1)?) {
            return Some(0);
        }
        let (low, high) = self.words.get(self.start..self.end)?.split_at(self.count);
        let mut between = 0;
        if flags & DENSE != 0 {
            for (place, (low, high)) in low.iter().zip(high).enumerate() {
                between |= u64::from(holds(low, high)) << place;
            }
            return Some(between);
        }
        let mut asking = self.who & alive;
        while asking != 0 {
            let bit = asking & asking.wrapping_neg();
            asking ^= bit;
            let place = (self.who & (bit - 1)).count_ones() as usize;
            between |= if holds(&low[place], &high[place]) { bit } else { 0 };
        }
        Some(between)
    }
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
        match codes.get(self.attribute)? {
            Code::Symbol(code) => self.of(code),
            Code::Absent => self.class(0),
            Code::Null => self.class(1),
            Code::Valueless => self.class(2),
            Code::Other => self.other(),
            Code::Several(symbols) => self.of_several(symbols),
            Code::List => {
                *verify |= !word(self.words, self.start)?;
                Some(u64::MAX)
            }
        }
    }

    #[inline(always)]
    fn other(&self) -> Option<u64> {
        word(self.words, self.start + usize::from(self.flags & OPEN != 0))
    }

    #[inline(always)]
    fn class(&self, class: usize) -> Option<u64> {
        let before = 1 + usize::from(self.flags & OPEN != 0);
        word(self.words, if self.flags & CLASSES != 0 { self.start + before + class } else { self.start })
    }

    /// Codes where they are listed, and masks.
    #[inline(always)]
    fn values(&self) -> Option<(&'a [[u8; 4]], &'a [Word])> {
        let mut at = self.start + 1 + usize::from(self.flags & OPEN != 0);
        at += if self.flags & CLASSES != 0 { 3 } else { 0 };
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

    #[inline(always)]
    fn of(&self, code: SymbolId) -> Option<u64> {
        const WALKED: usize = 16;
        let (codes, masks) = self.values()?;
        let place = if self.flags & LISTED == 0 {
            Some(code as usize).filter(|place| *place < masks.len())
        } else if codes.len() <= WALKED {
            codes.iter().position(|other| u32::from_le_bytes(*other) == code)
        } else {
            codes.binary_search_by_key(&code, |other| u32::from_le_bytes(*other)).ok()
        };
        match place {
            Some(place) => Some(u64::from_le_bytes(masks[place])),
            None => self.other(),
        }
    }
}
