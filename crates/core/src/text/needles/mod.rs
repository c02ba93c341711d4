//! Finds which of thousands of needles occur in a text: `LIKE '%x%'`, `LIKE 'x%'`, `LIKE '%x'` and similar.
//!
//! Needles that may occur anywhere take one pass over the text. Needles at the start or the end take a walk that reads
//! no more of the text than agrees with some needle.

mod automaton;
mod trie;

use memchr::memmem::Finder;

use automaton::NeedleAutomaton;
use trie::NeedleTrie;

/// The maximum number of needles anywhere for which separate searches are faster than the automaton.
const ONE_BY_ONE_MAX: usize = 16;

/// The position that a needle must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anchor {
    /// Anywhere: `LIKE '%x%'`.
    Anywhere,
    /// At the start: `LIKE 'x%'`.
    Start,
    /// At the end: `LIKE '%x'`.
    End,
    /// At both, as the whole text: `LIKE 'x'`.
    Whole,
}

impl Anchor {
    /// The slow definition: whether `needle` occurs in `text` at this position.
    #[must_use]
    pub fn holds(self, needle: &str, text: &str) -> bool {
        match self {
            Self::Anywhere => text.contains(needle),
            Self::Start => text.starts_with(needle),
            Self::End => text.ends_with(needle),
            Self::Whole => text == needle,
        }
    }
}

/// Many needles that are searched for together.
#[derive(Clone, Debug)]
pub struct Needles {
    anywhere: (Anywhere, NeedleIds),
    start: (NeedleTrie, NeedleIds),
    /// The needles at the end, over the reversed bytes.
    end: (NeedleTrie, NeedleIds),
    whole: (NeedleTrie, NeedleIds),
}

#[derive(Clone, Debug)]
enum Anywhere {
    OneByOne(Box<[Finder<'static>]>),
    Together(Box<NeedleAutomaton>),
}

/// The memory of a search; one serves any number of [`Needles`], one after another.
#[derive(Clone, Debug, Default)]
pub struct NeedleScratch {
    /// The number of the search in which each needle last occurred.
    found_in: Vec<u32>,
    search: u32,
}

impl Needles {
    /// Takes the needles in the order of their ids, from 0. An empty needle occurs in every text, unless it must be the
    /// whole text. Sorts them; beyond that, time and memory are linear in their total length: at most 9 bytes per byte
    /// at an end, 17 per byte anywhere, and 16 per needle. More than 16 needles anywhere take 64 KiB and up to 64 bytes
    /// per byte more, but no more than 8 MiB, to be fast.
    ///
    /// # Panics
    /// The needles of one anchor have more than 256 MiB in total.
    #[must_use]
    pub fn new<'a>(needles: impl Iterator<Item = (&'a str, Anchor)>) -> Self {
        let mut by_anchor: [Vec<(&[u8], u32)>; 4] = Default::default();
        let mut end: Vec<(Box<[u8]>, u32)> = Vec::new();
        for (id, (needle, anchor)) in (0..).zip(needles) {
            match anchor {
                Anchor::Anywhere if needle.is_empty() => {
                    by_anchor[Anchor::Start as usize].push((needle.as_bytes(), id))
                }
                Anchor::End => end.push((needle.bytes().rev().collect(), id)),
                _ => by_anchor[anchor as usize].push((needle.as_bytes(), id)),
            }
        }
        by_anchor[Anchor::End as usize] = end.iter().map(|(needle, id)| (&**needle, *id)).collect();
        let [anywhere, start, end, whole] = by_anchor.map(NeedleIds::new);
        Self {
            anywhere: (Anywhere::new(&anywhere.0), anywhere.1),
            start: (NeedleTrie::new(&start.0), start.1),
            end: (NeedleTrie::new(&end.0), end.1),
            whole: (NeedleTrie::new(&whole.0), whole.1),
        }
    }

    /// Appends the id of each needle that occurs in `text`, each once, in any order. The time is linear in the length
    /// of the text and the number of ids.
    pub fn find_into(&self, text: &str, scratch: &mut NeedleScratch, indexes: &mut Vec<u32>) {
        let (start, ids) = &self.start;
        start.walk(text.bytes(), |needle, _| indexes.extend(ids.of(needle)));
        let (end, ids) = &self.end;
        end.walk(text.bytes().rev(), |needle, _| indexes.extend(ids.of(needle)));
        let (whole, ids) = &self.whole;
        whole.walk(text.bytes(), |needle, left| indexes.extend(ids.of(needle).iter().filter(|_| left == 0)));
        let (anywhere, ids) = &self.anywhere;
        anywhere.find(text.as_bytes(), scratch, |needle| indexes.extend(ids.of(needle)));
    }

    /// The memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tries = [&self.start, &self.end, &self.whole].map(|(trie, ids)| trie.bytes() + ids.bytes());
        self.anywhere.0.bytes() + self.anywhere.1.bytes() + tries.iter().sum::<usize>()
    }
}

impl Anywhere {
    fn new(needles: &[&[u8]]) -> Self {
        if needles.len() <= ONE_BY_ONE_MAX {
            return Self::OneByOne(needles.iter().map(|needle| Finder::new(needle).into_owned()).collect());
        }
        Self::Together(Box::new(NeedleAutomaton::new(needles)))
    }

    fn find(&self, text: &[u8], scratch: &mut NeedleScratch, mut visit: impl FnMut(u32)) {
        match self {
            Self::OneByOne(finders) => {
                let standing = (0..).zip(finders).filter(|(_, finder)| finder.find(text).is_some());
                standing.for_each(|(needle, _)| visit(needle));
            }
            Self::Together(automaton) => {
                let mut is_new = scratch.begin(automaton.needle_count());
                automaton.find(text, |needle| {
                    let is_new = is_new(needle);
                    if is_new {
                        visit(needle);
                    }
                    is_new
                });
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::OneByOne(finders) => finders.iter().map(|finder| size_of_val(finder) + finder.needle().len()).sum(),
            Self::Together(automaton) => automaton.bytes(),
        }
    }
}

impl NeedleScratch {
    /// A scratch for later searches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a search for `count` needles; the function returned tells of each whether it is met for the first time.
    fn begin(&mut self, needle_count: usize) -> impl FnMut(u32) -> bool {
        if self.found_in.len() < needle_count {
            self.found_in.resize(needle_count, 0);
        }
        if self.search == u32::MAX {
            self.found_in.fill(0);
            self.search = 0;
        }
        self.search += 1;
        |needle| std::mem::replace(&mut self.found_in[needle as usize], self.search) != self.search
    }
}

/// The ids of each different needle.
#[derive(Clone, Debug)]
struct NeedleIds {
    ids: Box<[u32]>,
    /// The end of the ids of each needle.
    ends: Box<[u32]>,
}

impl NeedleIds {
    /// The different needles, ascending, and their ids.
    fn new(mut needles: Vec<(&[u8], u32)>) -> (Vec<&[u8]>, Self) {
        needles.sort_unstable();
        let ids = needles.iter().map(|(_, id)| *id).collect();
        let mut ends = Vec::new();
        let mut different = Vec::new();
        for same in needles.chunk_by(|a, b| a.0 == b.0) {
            different.push(same[0].0);
            ends.push(ends.last().unwrap_or(&0) + same.len() as u32);
        }
        (different, Self { ids, ends: ends.into() })
    }

    #[inline]
    fn of(&self, needle: u32) -> &[u32] {
        let from = if needle == 0 { 0 } else { self.ends[needle as usize - 1] };
        &self.ids[from as usize..self.ends[needle as usize] as usize]
    }

    fn bytes(&self) -> usize {
        (self.ids.len() + self.ends.len()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, fewer, rounds};

    const ANCHORS: [Anchor; 4] = [Anchor::Anywhere, Anchor::Start, Anchor::End, Anchor::Whole];

    fn found(needles: &Needles, scratch: &mut NeedleScratch, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        needles.find_into(text, scratch, &mut found);
        found.sort_unstable();
        found
    }

    fn by_definition(needles: &[(String, Anchor)], text: &str) -> Vec<u32> {
        let holds = |(needle, anchor): &(String, Anchor)| anchor.holds(needle, text);
        (0..).zip(needles).filter(|(_, needle)| holds(needle)).map(|(id, _)| id).collect()
    }

    fn of(needles: &[(String, Anchor)]) -> Needles {
        Needles::new(needles.iter().map(|(needle, anchor)| (&**needle, *anchor)))
    }

    #[test]
    fn random_needles_agree_with_the_definition_each_id_once() {
        let mut random = Random(1);
        let mut scratch = NeedleScratch::new();
        let mut found_count = 0;
        for round in rounds(0..600) {
            let alphabet: &[char] = [&['a', 'b'][..], &['a', 'b', 'é', '🥕', '\0'], &['a']][round % 3];
            let count = [3, 30, fewer(300)][round / 3 % 3];
            let needle = |_| (random.text(alphabet, 6), ANCHORS[random.below(4)]);
            let listed: Vec<_> = (0..count).map(needle).collect();
            let needles = of(&listed);
            for length in [0, 3, 12, fewer(80), fewer(700)] {
                let text = random.text(alphabet, length);
                let expected = by_definition(&listed, &text);
                assert_eq!(found(&needles, &mut scratch, &text), expected, "{listed:?} {text:?}");
                found_count += expected.len();
            }
        }
        assert!(cfg!(miri) || found_count > 10_000, "too few found to mean much: {found_count}");
    }

    #[test]
    fn states_with_and_without_a_row_agree() {
        let mut random = Random(2);
        let alphabet: Vec<char> = ('a'..='z').collect();
        let listed: Vec<_> = (0..fewer(3_000)).map(|_| (random.text(&alphabet, 40) + "xy", Anchor::Anywhere)).collect();
        let needles = of(&listed);
        let mut scratch = NeedleScratch::new();
        for _ in rounds(0..100) {
            // Needles, and needles cut short, side by side: deep states are reached and left again.
            let mut text = String::new();
            for _ in 0..40 {
                let (needle, _) = &listed[random.below(listed.len())];
                text += &needle[random.below(needle.len())..];
                text += &needle[..random.below(needle.len() + 1)];
            }
            assert_eq!(found(&needles, &mut scratch, &text), by_definition(&listed, &text));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn nested_needles_cost_neither_memory_nor_time_beyond_their_length() {
        // With all needles listed in each state these would take 1,500 x 1,000 x 1,000 / 2 entries.
        let nested = (1..=1_000).map(|length| "a".repeat(length));
        let behind = (0..500).map(|i| format!("{i}b{}", "a".repeat(1_000)));
        let listed: Vec<_> = nested.chain(behind).map(|needle| (needle, Anchor::Anywhere)).collect();
        let needles = of(&listed);
        let length: usize = listed.iter().map(|(needle, _)| needle.len()).sum();
        assert!(needles.bytes() < 40 * length, "{} bytes for {length}", needles.bytes());
        // 10 million visits of a state in which up to 1,000 needles end.
        let found = found(&needles, &mut NeedleScratch::new(), &"a".repeat(10_000_000));
        assert_eq!(found, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn an_empty_needle_stands_everywhere_but_as_the_whole_of_a_text() {
        let needles = of(&ANCHORS.map(|anchor| (String::new(), anchor)));
        let mut scratch = NeedleScratch::new();
        assert_eq!(found(&needles, &mut scratch, "text"), [0, 1, 2]);
        assert_eq!(found(&needles, &mut scratch, ""), [0, 1, 2, 3]);
        assert_eq!(found(&of(&[]), &mut scratch, "text"), [0u32; 0]);
    }

    #[test]
    fn a_scratch_that_has_counted_to_its_end_starts_again() {
        let listed: Vec<_> = (0..30).map(|i| (format!("x{i}"), Anchor::Anywhere)).collect();
        let needles = of(&listed);
        let mut scratch = NeedleScratch { found_in: vec![1; 30], search: u32::MAX };
        assert_eq!(found(&needles, &mut scratch, "x3x4"), [3, 4]);
        assert_eq!(found(&needles, &mut scratch, "x19"), [1, 19]);
    }
}
