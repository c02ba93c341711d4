//! The signatures of a few texts of one message, so that each text is cut into words once.

use std::cell::OnceCell;

use super::Signature;

/// The number of texts whose signatures are kept. The others are cut each time.
const TEXTS_MAX: usize = 8;

/// The texts that were cut first, each with its signature.
#[derive(Debug, Default)]
pub struct SignatureMemo([OnceCell<(Box<str>, Signature)>; TEXTS_MAX]);

impl SignatureMemo {
    /// Call `read` with the signature of `text`. None when it has to be made and `can_make` says no.
    ///
    /// Cost: comparing the text with those that are kept, or making the signature.
    pub fn with<R>(
        &self,
        text: &str,
        can_make: impl FnOnce() -> bool,
        read: impl FnOnce(&Signature) -> R,
    ) -> Option<R> {
        for kept in &self.0 {
            match kept.get() {
                Some((known, signature)) if **known == *text => return Some(read(signature)),
                Some(_) => {}
                None => {
                    return can_make().then(|| read(&kept.get_or_init(|| (text.into(), Signature::of(text))).1));
                }
            }
        }
        can_make().then(|| read(&Signature::of(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_texts_are_cut_once_and_the_others_each_time() {
        let (memo, made) = (SignatureMemo::default(), std::cell::Cell::new(0));
        let read = |text: &str| {
            let count = || {
                made.set(made.get() + 1);
                true
            };
            memo.with(text, count, |signature| signature.positions("two").to_vec())
        };
        let texts: Vec<String> = (0..TEXTS_MAX + 2).map(|number| format!("{number} two two")).collect();
        for round in [10, 12] {
            texts.iter().for_each(|text| assert_eq!(read(text), Some(vec![1, 2])));
            assert_eq!(made.get(), round);
        }
    }

    #[test]
    fn nothing_is_cut_that_is_not_paid_for() {
        let memo = SignatureMemo::default();
        assert_eq!(memo.with("a", || false, Signature::word_count), None);
        assert_eq!(memo.with("a", || true, Signature::word_count), Some(1));
        assert_eq!(memo.with("a", || false, Signature::word_count), Some(1));
    }
}
