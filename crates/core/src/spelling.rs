//! Guesses what a misspelt name was meant to be.

/// The longest name for which there is a guess: the cost is the product of the lengths.
const LENGTH_MAX: usize = 40;

/// The candidate that `word` was probably meant to be: one or two slips away, whatever the case; None when it is one, or
/// none is near.
pub(crate) fn nearest<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    if !word.is_ascii() || !(3..=LENGTH_MAX).contains(&word.len()) {
        return None;
    }
    let lower = |text: &str| text.to_ascii_lowercase();
    let slips_max = if word.len() <= 4 { 1 } else { 2 };
    let slips = |candidate: &str| slips(lower(word).as_bytes(), lower(candidate).as_bytes());
    let best = candidates.iter().copied().min_by_key(|candidate| slips(candidate))?;
    (1..=slips_max).contains(&slips(best)).then_some(best)
}

/// The number of letters omitted, added, replaced or swapped between `a` and `b` (optimal string alignment).
fn slips(a: &[u8], b: &[u8]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, other) | (other, 0) => other,
                _ => {
                    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        least = least.min(rows[i - 2][j - 2] + 1);
                    }
                    least
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_two_slips_are_forgiven() {
        let names = ["x-query", "x-query-language", "x-match"];
        for (word, meant) in [
            ("x-queri", Some("x-query")),
            ("x-qeury", Some("x-query")),
            ("X-Query-Langage", Some("x-query-language")),
            ("x-query", None),
            ("x-priority", None),
            ("é-query", None),
        ] {
            assert_eq!(nearest(word, &names), meant, "{word}");
        }
    }
}
