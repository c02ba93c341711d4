//! LIKE patterns: `%` matches any characters, `_` one character, over the whole text, in linear time.
//!
//! A pattern is cut at its `%`s into segments. The first and the last stand at the ends of the text. Each of the others
//! is searched for from left to right, where the leftmost position is as good as any, since a segment always has the
//! same number of characters. A segment without `_` is located by a substring search, one with `_` bit-parallel
//! (Shift-And: Baeza-Yates and Gonnet, "A new approach to text searching", 1992).

use std::fmt::{self, Display, Formatter};

use std::sync::Arc;

use memchr::memmem::Finder;

use crate::allowance::LIKE_NS;
use crate::text::needles::Anchor;

/// The memory of a part of a pattern between two `%`, or a little more.
const SEGMENT_BYTES: usize = 512;
/// The memory of a `_`, or a little more.
const ANY_BYTES: usize = 64;

/// A compiled LIKE pattern, shared by its copies. Two are equal when their patterns and escape characters are.
#[derive(Clone, Debug)]
pub struct LikePattern(Arc<CompiledLike>);

#[derive(Debug)]
struct CompiledLike {
    pattern: Box<str>,
    escape: Option<char>,
    first: LikeSegment,
    /// The segments after the first `%`; None when there is no `%`.
    rest: Option<LaterSegments>,
    ns_per_byte: u64,
}

/// The segments after the first: those between two `%`, none of them empty, and the last.
#[derive(Clone, Debug)]
struct LaterSegments {
    middle: Box<[(LikeSegment, SegmentSearch)]>,
    last: LikeSegment,
}

/// A part of the pattern between two `%`.
#[derive(Clone, Debug, Default)]
struct LikeSegment(Box<[Piece]>);

#[derive(Clone, Debug)]
enum Piece {
    Literal(Box<str>),
    /// This number of `_`.
    Any(usize),
}

/// A text without which a pattern does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NecessaryNeedle<'a> {
    /// The text, which is not empty.
    pub needle: &'a str,
    /// The position that it must have.
    pub anchor: Anchor,
    /// Whether the pattern matches wherever the needle occurs at its position, so that no further test is needed.
    pub is_exact: bool,
}

impl PartialEq for LikePattern {
    fn eq(&self, other: &Self) -> bool {
        self.pattern() == other.pattern() && self.escape() == other.escape()
    }
}

impl LikePattern {
    /// Compiles `pattern`. `escape` acts only before `%`, `_` or itself; elsewhere it is an ordinary character.
    #[must_use]
    pub fn new(pattern: &str, escape: Option<char>) -> Self {
        let mut segments = segments(pattern, escape);
        let first = segments.remove(0);
        let rest = segments.pop().map(|last| {
            let middle = segments.into_iter().filter(|segment| !segment.0.is_empty());
            LaterSegments {
                middle: middle.map(|segment| (segment.clone(), SegmentSearch::new(&segment))).collect(),
                last,
            }
        });
        let middle = rest.iter().flat_map(|rest| &rest.middle);
        let ns_per_byte = LIKE_NS + middle.map(|(_, search)| search.words()).max().unwrap_or(0);
        Self(Arc::new(CompiledLike { pattern: pattern.into(), escape, first, rest, ns_per_byte }))
    }

    /// The pattern as written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.0.pattern
    }

    /// The escape character.
    #[must_use]
    pub fn escape(&self) -> Option<char> {
        self.0.escape
    }

    /// The memory that `pattern` takes when it is compiled, or a little more. Known before it is compiled.
    #[must_use]
    pub fn bytes_of(pattern: &str) -> usize {
        let count = |wildcard| pattern.bytes().filter(|byte| *byte == wildcard).count();
        let per_byte = if count(b'_') > 0 { 3 + size_of::<(char, usize, u64)>() } else { 3 };
        let wildcards = count(b'%') * SEGMENT_BYTES + count(b'_') * ANY_BYTES;
        size_of::<CompiledLike>() + SEGMENT_BYTES + wildcards + pattern.len() * per_byte
    }

    /// The memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let rest = self.0.rest.iter();
        let middle = rest.clone().flat_map(|rest| &rest.middle);
        let middle: usize = middle.map(|(segment, search)| segment.bytes() + search.bytes()).sum();
        let last: usize = rest.map(|rest| rest.last.bytes()).sum();
        size_of::<CompiledLike>() + self.0.pattern.len() + self.0.first.bytes() + middle + last
    }

    /// The worst time per byte of a text, in nanoseconds.
    #[must_use]
    pub fn ns_per_byte(&self) -> u64 {
        self.0.ns_per_byte
    }

    /// True when the pattern matches the whole of `text`. Linear in `text`; at most one bit operation per 64 characters
    /// of the pattern for each character of it.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.fits(text).is_some()
    }

    fn fits(&self, text: &str) -> Option<()> {
        let text = self.0.first.strip_from_start(text)?;
        let Some(rest) = &self.0.rest else { return text.is_empty().then_some(()) };
        let mut text = rest.last.strip_from_end(text)?;
        for (_, search) in &rest.middle {
            text = &text[search.end_in(text)?..];
        }
        Some(())
    }

    /// The longest literal run of the pattern and its position, the anchored one of two that are equally long. None
    /// when the pattern has no literal.
    #[must_use]
    pub fn necessary_needle(&self) -> Option<NecessaryNeedle<'_>> {
        let candidates = self.anchored_literals();
        let (needle, anchor) =
            candidates.into_iter().max_by_key(|(needle, anchor)| (needle.len(), *anchor != Anchor::Anywhere))?;
        Some(NecessaryNeedle { needle, anchor, is_exact: self.is_only(anchor) })
    }

    /// The text that every match begins with.
    #[must_use]
    pub fn beginning(&self) -> &str {
        match self.0.first.0.first() {
            Some(Piece::Literal(text)) => text,
            _ => "",
        }
    }

    /// The literal runs and their positions.
    fn anchored_literals(&self) -> Vec<(&str, Anchor)> {
        let Some(rest) = &self.0.rest else {
            let pieces = &*self.0.first.0;
            if let [Piece::Literal(text)] = pieces {
                return vec![(text, Anchor::Whole)];
            }
            let last = pieces.len().saturating_sub(1);
            let anchor = |at| match at {
                0 => Anchor::Start,
                at if at == last => Anchor::End,
                _ => Anchor::Anywhere,
            };
            return literals(pieces).map(|(at, text)| (text, anchor(at))).collect();
        };
        let first =
            literals(&self.0.first.0).map(|(at, text)| (text, if at == 0 { Anchor::Start } else { Anchor::Anywhere }));
        let middle =
            rest.middle.iter().flat_map(|(segment, _)| literals(&segment.0)).map(|(_, t)| (t, Anchor::Anywhere));
        let end = rest.last.0.len();
        let last =
            literals(&rest.last.0).map(|(at, t)| (t, if at + 1 == end { Anchor::End } else { Anchor::Anywhere }));
        first.chain(middle).chain(last).collect()
    }

    /// True when the pattern consists of a single literal at this position.
    fn is_only(&self, anchor: Anchor) -> bool {
        let Some(rest) = &self.0.rest else { return anchor == Anchor::Whole };
        let is_literal = |segment: &LikeSegment| matches!(&*segment.0, [Piece::Literal(_)]);
        let (first, last) = (&self.0.first, &rest.last);
        match (anchor, &*rest.middle) {
            (Anchor::Anywhere, [(middle, _)]) => first.0.is_empty() && is_literal(middle) && last.0.is_empty(),
            (Anchor::Start, []) => is_literal(first) && last.0.is_empty(),
            (Anchor::End, []) => first.0.is_empty() && is_literal(last),
            _ => false,
        }
    }

    /// The literal runs of the pattern in order, to mark what matched.
    #[must_use]
    pub fn literals(&self) -> Vec<&str> {
        let rest = self.0.rest.iter().flat_map(|rest| rest.middle.iter().map(|(s, _)| s).chain([&rest.last]));
        let segments = std::iter::once(&self.0.first).chain(rest);
        segments.flat_map(|segment| literals(&segment.0)).map(|(_, text)| text).collect()
    }
}

/// The literals among `pieces`, each with its index.
fn literals(pieces: &[Piece]) -> impl Iterator<Item = (usize, &str)> {
    pieces.iter().enumerate().filter_map(|(at, piece)| match piece {
        Piece::Literal(text) => Some((at, &**text)),
        Piece::Any(_) => None,
    })
}

impl Display for LikePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.pattern().replace('\'', "''"))?;
        match self.escape() {
            Some('\'') => write!(f, " ESCAPE ''''"),
            Some(escape) => write!(f, " ESCAPE '{escape}'"),
            None => Ok(()),
        }
    }
}

/// The segments of `pattern`: one more than it has `%`.
fn segments(pattern: &str, escape: Option<char>) -> Vec<LikeSegment> {
    let mut segments = Vec::new();
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        let escapes = |next: &char| matches!(next, '%' | '_') || Some(*next) == escape;
        if Some(character) == escape
            && let Some(escaped) = characters.next_if(escapes)
        {
            literal.push(escaped);
            continue;
        }
        if !matches!(character, '%' | '_') {
            literal.push(character);
            continue;
        }
        end_literal(&mut literal, &mut pieces);
        match (character, pieces.last_mut()) {
            ('%', _) => segments.push(LikeSegment(std::mem::take(&mut pieces).into())),
            (_, Some(Piece::Any(count))) => *count += 1,
            _ => pieces.push(Piece::Any(1)),
        }
    }
    end_literal(&mut literal, &mut pieces);
    segments.push(LikeSegment(pieces.into()));
    segments
}

fn end_literal(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal).into()));
    }
}

impl LikeSegment {
    fn bytes(&self) -> usize {
        let literal = |piece: &Piece| if let Piece::Literal(text) = piece { text.len() } else { 0 };
        size_of::<Self>() + self.0.iter().map(|piece| size_of::<Piece>() + literal(piece)).sum::<usize>()
    }

    /// The text after the segment, when `text` begins with it.
    fn strip_from_start<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.0.iter().try_fold(text, |text, piece| match piece {
            Piece::Literal(literal) => text.strip_prefix(&**literal),
            Piece::Any(count) => {
                let mut characters = text.chars();
                characters.nth(count - 1)?;
                Some(characters.as_str())
            }
        })
    }

    /// The text before the segment, when `text` ends with it.
    fn strip_from_end<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.0.iter().rev().try_fold(text, |text, piece| match piece {
            Piece::Literal(literal) => text.strip_suffix(&**literal),
            Piece::Any(count) => {
                let mut characters = text.chars();
                characters.nth_back(count - 1)?;
                Some(characters.as_str())
            }
        })
    }
}

/// The method of searching for a segment.
#[derive(Clone, Debug)]
enum SegmentSearch {
    Literal(Box<Finder<'static>>),
    Pieces(ShiftAnd),
}

impl SegmentSearch {
    /// A search for `segment`, which is not empty.
    fn new(segment: &LikeSegment) -> Self {
        match &*segment.0 {
            [Piece::Literal(literal)] => Self::Literal(Box::new(Finder::new(&**literal).into_owned())),
            pieces => Self::Pieces(ShiftAnd::new(pieces)),
        }
    }

    fn bytes(&self) -> usize {
        let held = match self {
            Self::Literal(finder) => size_of::<Finder<'static>>() + finder.needle().len(),
            Self::Pieces(search) => size_of_val(&*search.any) + size_of_val(&*search.positions),
        };
        size_of::<Self>() + held
    }

    /// The number of words of bits that are read for each character, with a look-up; 0 for a literal.
    fn words(&self) -> u64 {
        match self {
            Self::Literal(_) => 0,
            Self::Pieces(search) => 2 * search.any.len() as u64 + 4,
        }
    }

    /// The byte after the leftmost match in `text`.
    fn end_in(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(finder) => finder.find(text.as_bytes()).map(|start| start + finder.needle().len()),
            Self::Pieces(search) => search.end_in(text),
        }
    }
}

/// Bit i of the state is set while the last i + 1 characters match the first i + 1 of the segment; 64 bits per word.
#[derive(Clone, Debug)]
struct ShiftAnd {
    /// The positions at which the segment has a `_`.
    any: Box<[u64]>,
    /// The positions of each character: (character, word, bits) ascending, without words that have no bits.
    positions: Box<[(char, usize, u64)]>,
    length: usize,
}

impl ShiftAnd {
    const BITS: usize = u64::BITS as usize;

    fn new(pieces: &[Piece]) -> Self {
        let mut any: Vec<u64> = Vec::new();
        let mut positions: Vec<(char, usize, u64)> = Vec::new();
        let mut length = 0;
        for piece in pieces {
            match piece {
                Piece::Any(count) => {
                    any.resize((length + count).div_ceil(Self::BITS), 0);
                    (length..length + count).for_each(|at| any[at / Self::BITS] |= 1 << (at % Self::BITS));
                    length += count;
                }
                Piece::Literal(literal) => {
                    for character in literal.chars() {
                        positions.push((character, length / Self::BITS, 1 << (length % Self::BITS)));
                        length += 1;
                    }
                }
            }
        }
        any.resize(length.div_ceil(Self::BITS), 0);
        positions.sort_unstable();
        positions.dedup_by(|next, kept| {
            let is_same = (next.0, next.1) == (kept.0, kept.1);
            kept.2 |= if is_same { next.2 } else { 0 };
            is_same
        });
        Self { any: any.into(), positions: positions.into(), length }
    }

    /// The byte after the leftmost match in `text`.
    fn end_in(&self, text: &str) -> Option<usize> {
        let (last_word, last_bit) = ((self.length - 1) / Self::BITS, 1 << ((self.length - 1) % Self::BITS));
        let mut state = vec![0; self.any.len()];
        for (start, character) in text.char_indices() {
            self.step(&mut state, character);
            if state[last_word] & last_bit != 0 {
                return Some(start + character.len_utf8());
            }
        }
        None
    }

    fn step(&self, state: &mut [u64], character: char) {
        let from = self.positions.partition_point(|it| it.0 < character);
        let mut positions = self.positions[from..].iter().take_while(|it| it.0 == character).peekable();
        let mut carry = 1; // a match may begin at every character
        for (word, (bits, any)) in state.iter_mut().zip(&self.any).enumerate() {
            let here = positions.next_if(|it| it.1 == word).map_or(0, |it| it.2);
            let shifted = (*bits << 1) | carry;
            carry = *bits >> (Self::BITS - 1);
            *bits = shifted & (any | here);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_takes_is_known_before_it_is_compiled() {
        for pattern in ["", "%", "abc", "%abc%", "%a_b%c899%", &"%a".repeat(300), &"_a%".repeat(100), &"a_".repeat(500)]
        {
            let (before, after) = (LikePattern::bytes_of(pattern), LikePattern::new(pattern, None).bytes());
            assert!(before >= after && before <= 10 * after + 1_000, "{pattern}: {before} {after}");
        }
    }
    use crate::testing::fewer;

    /// The definition, by dynamic programming over characters: quadratic.
    fn by_definition(pattern: &str, escape: Option<char>, text: &str) -> bool {
        let mut tokens = Vec::new(); // None is `%`, Some(None) is `_`
        let pattern: Vec<char> = pattern.chars().collect();
        let mut at = 0;
        while at < pattern.len() {
            let next = pattern.get(at + 1).copied();
            if Some(pattern[at]) == escape && next.is_some_and(|n| n == '%' || n == '_' || Some(n) == escape) {
                tokens.push(Some(next));
                at += 1;
            } else {
                tokens.push(match pattern[at] {
                    '%' => None,
                    '_' => Some(None),
                    other => Some(Some(other)),
                });
            }
            at += 1;
        }
        let text: Vec<char> = text.chars().collect();
        let mut fits = vec![false; text.len() + 1];
        fits[0] = true;
        for token in tokens {
            let before = fits.clone();
            for end in 0..=text.len() {
                fits[end] = match token {
                    None => before[end] || end > 0 && fits[end - 1],
                    Some(wanted) => end > 0 && before[end - 1] && wanted.is_none_or(|wanted| wanted == text[end - 1]),
                };
            }
        }
        fits[text.len()]
    }

    /// Texts of up to `length_max` characters of `alphabet`, from a fixed seed.
    fn texts(alphabet: &str, length_max: u64, count: usize) -> Vec<String> {
        let alphabet: Vec<char> = alphabet.chars().collect();
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut text = |_| (0..next(length_max + 1)).map(|_| alphabet[next(alphabet.len() as u64) as usize]).collect();
        (0..count).map(&mut text).collect()
    }

    #[test]
    fn random_patterns_agree_with_the_definition() {
        let mut matched = 0;
        for escape in [None, Some('!'), Some('%'), Some('_'), Some('é')] {
            for (pattern, text) in
                texts("ab_%é!🥕%_", 9, fewer(20_000)).iter().zip(texts("abé!🥕_%\n", 9, fewer(20_000)).iter().rev())
            {
                let expected = by_definition(pattern, escape, text);
                assert_eq!(LikePattern::new(pattern, escape).is_match(text), expected, "{pattern} {escape:?} {text:?}");
                matched += usize::from(expected);
            }
        }
        assert!(cfg!(miri) || matched > 5_000, "too few matches to mean much: {matched}");
    }

    #[test]
    fn long_segments_take_several_words_of_bits() {
        for length in [63, 64, 65, 128, 129, 300] {
            let core = "ab_".repeat(length / 3) + &"_".repeat(length % 3);
            let fitting = "abc".repeat(length / 3) + &"d".repeat(length % 3);
            let pattern = LikePattern::new(&format!("%x{core}y%"), None);
            assert!(pattern.is_match(&format!("xabxab x{fitting}y.")), "{length}");
            assert!(!pattern.is_match(&format!("x{fitting}xy")), "{length}");
        }
    }

    #[test]
    fn the_escape_acts_only_before_a_wildcard_or_itself() {
        let is_match = |pattern: &str, escape: char, text: &str| LikePattern::new(pattern, Some(escape)).is_match(text);
        assert!(is_match("!_%", '!', "_foo") && !is_match("!_%", '!', "foo"));
        assert!(is_match("!a!!", '!', "!a!"));
        assert!(is_match("a!", '!', "a!"));
        assert!(is_match("%_%", '%', "_foo"));
        assert!(!is_match("%D%%", '%', "xDy") && is_match("%D%%", '%', "xD%"));
    }

    #[test]
    fn a_hostile_pattern_stays_linear() {
        let pattern = LikePattern::new(&("%".to_owned() + &"a_".repeat(500) + "b%"), None);
        assert!(!pattern.is_match(&"a".repeat(fewer(200_000))));
        assert!(!LikePattern::new(&"%a".repeat(1_000), None).is_match(&("a".repeat(fewer(200_000)) + "b")));
    }

    #[test]
    fn literals_are_the_runs_between_wildcards() {
        assert_eq!(LikePattern::new("ab_c%!%d%%_e", Some('!')).literals(), ["ab", "c", "%d", "e"]);
        assert!(LikePattern::new("%_%", None).literals().is_empty());
    }

    #[test]
    fn the_necessary_needle_is_the_longest_literal_where_it_must_stand() {
        let needle = |pattern: &str| {
            let pattern = LikePattern::new(pattern, Some('!'));
            pattern.necessary_needle().map(|n| (n.needle.to_owned(), n.anchor, n.is_exact))
        };
        let expected = |needle: &str, anchor, is_exact| Some((needle.to_owned(), anchor, is_exact));
        assert_eq!(needle("%x%"), expected("x", Anchor::Anywhere, true));
        assert_eq!(needle("%%!%!_%%"), expected("%_", Anchor::Anywhere, true));
        assert_eq!(needle("x%"), expected("x", Anchor::Start, true));
        assert_eq!(needle("%x"), expected("x", Anchor::End, true));
        assert_eq!(needle("x"), expected("x", Anchor::Whole, true));
        assert_eq!(needle("a_c"), expected("c", Anchor::End, false));
        assert_eq!(needle("a%bc_d%"), expected("bc", Anchor::Anywhere, false));
        assert_eq!(needle("ab%cd%"), expected("ab", Anchor::Start, false));
        assert_eq!(needle("%x_"), expected("x", Anchor::Anywhere, false));
        assert_eq!(needle("_x%"), expected("x", Anchor::Anywhere, false));
        assert!(["", "%", "_", "%_%"].iter().all(|pattern| needle(pattern).is_none()));
    }

    #[test]
    fn a_text_that_matches_has_the_needle_and_one_that_has_an_exact_needle_matches() {
        let (mut matched, mut exact) = (0, 0);
        for escape in [None, Some('!'), Some('%')] {
            for (pattern, text) in
                texts("ab_%!%", 5, fewer(40_000)).iter().zip(texts("ab!_%", 6, fewer(40_000)).iter().rev())
            {
                let like = LikePattern::new(pattern, escape);
                let Some(necessary) = like.necessary_needle() else { continue };
                let (stands, matches) = (necessary.anchor.holds(necessary.needle, text), like.is_match(text));
                assert!(stands || !matches, "{pattern} {escape:?} {text:?}");
                assert!(!necessary.is_exact || stands == matches, "{pattern} {escape:?} {text:?}");
                matched += usize::from(matches);
                exact += usize::from(necessary.is_exact && matches);
            }
        }
        assert!(cfg!(miri) || matched > 4_000 && exact > 1_000, "too few to mean much: {matched}, {exact}");
    }
}
