//! The signatures of a few texts of one message, so that each text is cut into words once.

use std::cell::OnceCell;

use super::Signature;

/// The number of texts whose signatures are kept. The others are cut each time.
const TEXTS_MAX: usize = 8;
/// A shorter text is not kept: it is cut as fast as it is found.
const TEXT_BYTES_MIN: usize = 64;

/// The texts that were cut first, each with its signature.
///
/// A text is known by where it lies, because comparing it takes as long as it is. So only texts belong here that stay where
/// they are as long as the memo.
#[derive(Debug, Default)]
pub struct SignatureMemo([OnceCell<(TextPlace, Signature)>; TEXTS_MAX]);

/// The address and the length of a text.
type TextPlace = (usize, usize);

impl SignatureMemo {
    /// Call `read` with the signature of `text`. None when it has to be made and `can_make` says no.
    pub fn with<R>(
        &self,
        text: &str,
        can_make: impl FnOnce() -> bool,
        read: impl FnOnce(&Signature) -> R,
    ) -> Option<R> {
        let place = (text.as_ptr().addr(), text.len());
        let kept = self.0.iter().take(if text.len() < TEXT_BYTES_MIN { 0 } else { TEXTS_MAX });
        for kept in kept {
            match kept.get() {
                Some((known, signature)) if *known == place => return Some(read(signature)),
                Some(_) => {}
                None => return can_make().then(|| read(&kept.get_or_init(|| (place, Signature::of(text))).1)),
            }
        }
        can_make().then(|| read(&Signature::of(text)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often the signatures of `texts` are made when all are asked for, twice.
    fn made(memo: &SignatureMemo, texts: &[String]) -> usize {
        let made = Cell::new(0);
        let can_make = || {
            made.set(made.get() + 1);
            true
        };
        for text in texts.iter().chain(texts) {
            let positions = memo.with(text, can_make, |signature| signature.positions("two").to_vec());
            assert_eq!(positions, Some(vec![1, 2]), "{text}");
        }
        made.get()
    }

    #[test]
    fn the_first_long_texts_are_cut_once_and_the_others_each_time() {
        let long = |number| format!("{number} two two {}", "and so on ".repeat(10));
        let (memo, count) = (SignatureMemo::default(), TEXTS_MAX + 2);
        assert_eq!(made(&memo, &["one two two".to_owned()]), 2);
        assert_eq!(made(&memo, &(0..count).map(long).collect::<Vec<_>>()), TEXTS_MAX + 2 * 2);
    }

    #[test]
    fn nothing_is_cut_that_is_not_paid_for() {
        let (memo, text) = (SignatureMemo::default(), "a ".repeat(TEXT_BYTES_MIN));
        let words = |can_make| memo.with(&text, || can_make, Signature::word_count);
        assert_eq!([words(false), words(true), words(false)], [None, Some(64), Some(64)]);
    }
}
