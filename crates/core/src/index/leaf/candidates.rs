//! The queries of a leaf that a message does not rule out.

use crate::index::layout::bytes::{WordBytes, halves, word};
use crate::index::layout::cpu::{at_full_width, prefetch};

use super::bounds_view::BoundsView;
use super::choices_view::ChoicesView;
use super::masks_view::MasksView;
use super::message_codes::MessageCodes;
use super::query::{LEAF_QUERIES, MIXED, VERIFY};
use super::subscribers::LeafSubscribers;

/// The number of cache lines behind bounds that are prefetched while these are compared.
pub const NEXT_LINES: usize = 9;

/// The candidates of a leaf.
pub struct Candidates<'a> {
    words: &'a [WordBytes],
    /// The queries that are not ruled out, a bit each.
    pub alive: u64,
    /// The queries that have to be evaluated: what is left of them after the clauses.
    pub verify: u64,
    /// The queries whose clauses do not decide a list: they are evaluated as a whole.
    pub undecided: u64,
    head: u64,
    /// The number of the first query, and where the bounds start.
    first_query: u64,
}

impl<'a> Candidates<'a> {
    /// The queries that masks and choices do not rule out, of the leaf at the start of `words`. None when the words are no
    /// leaf.
    #[inline(always)]
    pub fn of(words: &'a [WordBytes], codes: &MessageCodes) -> Option<Self> {
        let (head, first_query) = (word(words, 0)?, word(words, 1)?);
        let mut alive = u64::MAX >> (LEAF_QUERIES.checked_sub(count_of(head))? & 63);
        let mut at = 3;
        let (mut verify, mut undecided) = (0, 0);
        if head >> 48 & VERIFY != 0 {
            verify = word(words, at)?;
            at += 1;
        }
        for _ in 0..head >> 8 & 0xffff {
            alive &= MasksView::new(words, at)?.mask(codes, &mut undecided)?;
            at += 2;
            if alive == 0 {
                return Some(Self { words, alive, verify, undecided, head, first_query });
            }
        }
        for _ in 0..head >> 24 & 0xff {
            let (attributes, free) = (word(words, at)?, word(words, at + 1)?);
            at += 2;
            let mut passing = free;
            for _ in 0..attributes {
                passing |= MasksView::new(words, at)?.mask(codes, &mut undecided)?;
                at += 2;
            }
            alive &= passing;
        }
        Some(Self { words, alive, verify, undecided, head, first_query })
    }

    /// Rule out the queries whose ranges or mixed choices do not hold. None when the words are no leaf.
    #[inline(always)]
    pub fn compare(&mut self, codes: &MessageCodes) -> Option<()> {
        let mut at = (self.first_query >> 32) as usize;
        for _ in 0..self.head >> 32 & 0xffff {
            if self.alive == 0 {
                break;
            }
            let bounds = BoundsView::new(self.words, at, count_of(self.head))?;
            prefetch::<NEXT_LINES>(self.words.get(bounds.end..).unwrap_or_default());
            self.alive &= bounds.within(self.alive, codes, &mut self.undecided)?;
            at = bounds.end;
        }
        if self.alive != 0 && self.head >> 48 & MIXED != 0 {
            let (count, alive) = (count_of(self.head), self.alive);
            let choices = ChoicesView { words: self.words, at, count, alive, codes, undecided: &mut self.undecided };
            self.alive = at_full_width(choices)?;
        }
        Some(())
    }

    /// The subscribers of the queries.
    #[inline(always)]
    pub fn subscribers(&self) -> Option<LeafSubscribers<'a>> {
        let (first_position, start) = halves(word(self.words, 2)?);
        let words = self.words.get(start as usize..)?;
        let (first_query, _) = halves(self.first_query);
        LeafSubscribers::of(words, self.head >> 56, count_of(self.head), first_query, first_position)
    }
}

/// The number of queries of a leaf with this head.
fn count_of(head: u64) -> usize {
    (head & 0xff) as usize
}

/// Prefetch the first bounds and the subscribers of a leaf whose head has arrived.
#[inline(always)]
pub fn prefetch_end(words: &[WordBytes]) {
    let (Some(first_query), Some(subscribers)) = (word(words, 1), word(words, 2)) else { return };
    let from = |start: u64| words.get(start as usize..).unwrap_or_default();
    prefetch::<2>(from(first_query >> 32));
    prefetch::<4>(from(subscribers >> 32));
}
