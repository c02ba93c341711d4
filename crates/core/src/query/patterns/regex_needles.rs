//! Finds texts of which at least one occurs in everything that a regular expression matches.

use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::{Hir, HirKind};

/// The maximum number of needles that help an index.
const NEEDLES_MAX: usize = 16;
/// The value of one more byte in a needle: the number of bits by which it is rarer by chance.
const BITS_PER_BYTE: usize = 3;

/// Needles of which at least one occurs in every text in which `pattern` matches. None when there is no such set of at
/// most 16 needles that are not empty, or when `pattern` is no regular expression.
pub fn necessary_needles(pattern: &str) -> Option<Vec<String>> {
    let expression = regex_syntax::parse(pattern).ok()?;
    let mut best: Option<Vec<String>> = None;
    // A concatenation matches only where each of its parts does; the limit on nesting bounds the depth.
    let mut parts = vec![&expression];
    while let Some(part) = parts.pop() {
        let found = [ExtractKind::Prefix, ExtractKind::Suffix].into_iter().filter_map(|kind| extract(part, kind));
        best = best.into_iter().chain(found).max_by_key(|needles| rarity(needles));
        match part.kind() {
            HirKind::Concat(children) => parts.extend(children),
            HirKind::Capture(capture) => parts.push(&capture.sub),
            HirKind::Repetition(repetition) if repetition.min > 0 => parts.push(&repetition.sub),
            _ => {}
        }
    }
    best
}

/// The texts with which everything that `expression` matches begins, or ends.
fn extract(expression: &Hir, kind: ExtractKind) -> Option<Vec<String>> {
    let sequence: Seq = Extractor::new().kind(kind).limit_total(NEEDLES_MAX).extract(expression);
    let literals = sequence.literals()?;
    let mut needles: Vec<&str> = literals.iter().map(|literal| whole_characters(literal.as_bytes())).collect();
    // A text that contains a needle contains every needle within it, so the shorter one is enough.
    needles.sort_unstable_by_key(|needle| needle.len());
    let mut kept: Vec<String> = Vec::new();
    for needle in needles {
        if !kept.iter().any(|shorter| needle.contains(&**shorter)) {
            kept.push(needle.to_owned());
        }
    }
    (!kept.is_empty() && kept.len() <= NEEDLES_MAX && !kept[0].is_empty()).then_some(kept)
}

/// `bytes` without the parts of characters that a cut has left at its ends.
fn whole_characters(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().map(|chunk| chunk.valid()).max_by_key(|valid| valid.len()).unwrap_or("")
}

/// The rarity of `needles` in a text, in bits: the negative logarithm of the chance that one occurs.
fn rarity(needles: &[String]) -> usize {
    let shortest = needles.iter().map(String::len).min().unwrap_or(0);
    (shortest * BITS_PER_BYTE).saturating_sub(needles.len().ilog2() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fewer, or_few};

    fn needles(pattern: &str) -> Option<Vec<String>> {
        let mut needles = necessary_needles(pattern)?;
        needles.sort();
        Some(needles)
    }

    #[test]
    fn the_needles_are_the_rarest_that_must_stand() {
        let expected = |needles: &[&str]| Some(needles.iter().map(|needle| (*needle).to_owned()).collect::<Vec<_>>());
        assert_eq!(needles("^forex\\."), expected(&["forex."]));
        assert_eq!(needles("(foo|barbar) x*"), expected(&["barbar ", "foo "]));
        assert_eq!(needles("\\w+@example\\.com\\d+"), expected(&["@example.com"]));
        assert_eq!(needles("a.*(needle)+.*b"), expected(&["needle"]));
        assert_eq!(needles("(?i)ab"), expected(&["AB", "Ab", "aB", "ab"]));
        assert_eq!(needles("gr[ae]y"), expected(&["gray", "grey"]));
        assert_eq!(needles("é+"), expected(&["é"]));
        for nothing in ["", "a*", ".*", "\\w+", "(a|)", "[^\\s\\S]", "(", "\\b"] {
            assert_eq!(needles(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn whatever_matches_has_one_of_the_needles() {
        let pieces = [
            "a",
            "b",
            "é",
            "🥕",
            ".",
            "x*",
            "[ab]",
            "(?:ab)+",
            "(a|bé)",
            "(?i:ab)",
            "^",
            "$",
            "\\b",
            "a{2,3}",
            "b?",
            "[^a]",
            "|",
            "(a|)",
            "\\w",
            "🥕🥕b",
        ];
        let mut state = 3_u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let (mut matched, mut without) = (0, 0);
        for _ in 0..or_few(4_000, 8) {
            let pattern: String = (0..below(7)).map(|_| pieces[below(pieces.len())]).collect();
            if cfg!(miri) && (pattern.contains("\\w") || pattern.contains("[^a]")) {
                continue; // a class of thousands of characters takes miri half a minute
            }
            let regex = regex_automata::meta::Regex::new(&pattern).expect("pieces that fit together");
            let needles = necessary_needles(&pattern);
            for _ in 0..20 {
                let text: String = (0..below(12)).map(|_| ['a', 'b', 'A', 'é', '🥕', 'x', ' '][below(7)]).collect();
                let stands = needles.as_ref().is_none_or(|n| n.iter().any(|needle| text.contains(&**needle)));
                let matches = regex.is_match(&text);
                assert!(stands || !matches, "{pattern} {text:?} {needles:?}");
                matched += usize::from(needles.is_some() && matches);
                without += usize::from(!stands);
            }
        }
        assert!(cfg!(miri) || matched > 3_000 && without > 3_000, "too few to mean much: {matched}, {without}");
    }

    #[test]
    fn expressions_of_any_size_give_an_answer_in_time() {
        let nested = "(".repeat(90) + "ab" + &")+".repeat(90);
        assert_eq!(needles(&nested).map(|needles| needles.len()), Some(1));
        let long = "[a-z]{3}é".repeat(fewer(2_000));
        assert!(needles(&long).is_some());
        let wide = (0..fewer(5_000)).map(|i| format!("word{i}")).collect::<Vec<_>>().join("|");
        assert_eq!(needles(&wide), Some(vec!["word".to_owned()]));
    }
}
