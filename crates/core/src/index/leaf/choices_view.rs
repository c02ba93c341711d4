//! Mixed choices as they lie in memory, and the queries whose choices hold of a message.

use crate::index::layout::bytes::{WordBytes, word};
use crate::index::layout::cpu::{WideWork, prefetch};

use super::bounds_view::BoundsView;
use super::candidates::NEXT_LINES;
use super::choices::{BOUNDS, END, INSTRUCTION_BITS, LIST, MASK, STOP};
use super::masks_view::MasksView;
use super::message_codes::MessageCodes;
use super::query::CHOICE_DEPTH_MAX;

/// The mixed choices of a leaf, and a message.
pub struct ChoicesView<'a, 'm> {
    /// The words of the leaf.
    pub words: &'a [WordBytes],
    /// Where the choices start.
    pub at: usize,
    /// The number of queries.
    pub count: usize,
    /// The queries that are asked about.
    pub alive: u64,
    /// The message.
    pub codes: &'m MessageCodes,
    /// The queries of which a list decides nothing are added to it.
    pub undecided: &'m mut u64,
}

impl WideWork for ChoicesView<'_, '_> {
    type Output = Option<u64>;

    /// The queries that are alive and whose choices all hold.
    ///
    /// `held[0]` are the queries that no list at the outermost level has ruled out. At odd levels one condition of a list has to
    /// hold, at even ones all have to.
    #[inline(always)]
    fn run(self) -> Option<u64> {
        let Self { words, at, count, alive, codes, undecided } = self;
        let mut at = usize::try_from(word(words, at)?).ok()?;
        prefetch::<NEXT_LINES>(words.get(at..)?);
        let mut held = [0; CHOICE_DEPTH_MAX + 1];
        held[0] = alive;
        let mut level = 0;
        loop {
            let instruction = word(words, at)?;
            let is_and = level % 2 == 0;
            // The queries for which a further condition makes a difference.
            let asked = if is_and { *held.get(level)? } else { held.get(level - 1)? & !held.get(level)? };
            match instruction & ((1 << INSTRUCTION_BITS) - 1) {
                LIST => {
                    let mask = word(words, at + 1)?;
                    let mine = asked & if is_and { !mask } else { mask };
                    if mine == 0 {
                        at = at.checked_add(usize::try_from(instruction >> INSTRUCTION_BITS).ok()?)?;
                        continue;
                    }
                    level += 1;
                    *held.get_mut(level)? = if is_and { mask } else { mine };
                    at += 2;
                }
                MASK => {
                    let passing = MasksView::new(words, at + 1)?.mask(codes, undecided)?;
                    let held = held.get_mut(level)?;
                    if is_and {
                        *held &= passing
                    } else {
                        *held |= passing
                    }
                    at += 3;
                }
                BOUNDS => {
                    let bounds = BoundsView::new(words, at + 1, count)?;
                    if asked & bounds.who != 0 {
                        prefetch::<NEXT_LINES>(words.get(bounds.end..).unwrap_or_default());
                        let within = bounds.within(asked, codes, undecided)?;
                        let held = held.get_mut(level)?;
                        if is_and { *held &= within } else { *held |= within & bounds.who }
                    }
                    at = bounds.end;
                }
                END => {
                    let inner = *held.get(level)?;
                    level = level.checked_sub(1)?;
                    let outer = held.get_mut(level)?;
                    if is_and {
                        *outer |= inner
                    } else {
                        *outer &= inner
                    }
                    at += 1;
                }
                STOP => return (level == 0).then_some(held[0]),
                _ => return None,
            }
        }
    }
}
