//! A regular expression of a query: compiled once, shared by all queries that have it.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::{BuildError, Config, NFA, WhichCaptures};
use regex_automata::util::syntax;

use super::bounded_search::BoundedSearch;
use super::{regex_needles, shared_patterns};
use crate::allowance::{Allowance, REGEX_NS};

/// A regular expression with linear time and a compiled size of at most 1 MiB. Two are equal when their patterns are.
///
/// Compiling is making the program that reads texts forwards. The engine for texts without a time limit, which has it
/// backwards as well, takes twice as long, and is made when such a text comes.
#[derive(Clone, Debug)]
pub struct Pattern(Arc<CompiledPattern>);

#[derive(Debug)]
pub(super) struct CompiledPattern {
    pub(super) text: Box<str>,
    program: NFA,
    /// The smallest limit within which the program was made, and the largest within which it was not.
    made_within: AtomicUsize,
    not_made_within: AtomicUsize,
    /// For texts without a time limit, and for places; made when it is first needed.
    regex: OnceLock<Regex>,
    /// For texts whose search has a time limit; made when it is first needed.
    bounded: OnceLock<BoundedSearch>,
    needles: OnceLock<Option<Vec<String>>>,
}

impl CompiledPattern {
    /// Whether the program is made within this limit; None when that is not known. What is accepted must not depend on who
    /// else has it.
    fn is_made_within(&self, size: usize) -> Option<bool> {
        if size >= self.made_within.load(Ordering::Relaxed) {
            Some(true)
        } else if size <= self.not_made_within.load(Ordering::Relaxed) {
            Some(false)
        } else {
            None
        }
    }

    /// The most memory that it takes, with that for searching.
    pub(super) fn bytes(&self) -> usize {
        Pattern::PROGRAMS * self.program.memory_usage() + 2 * self.text.len() + BoundedSearch::BYTES_MIN
    }
}

impl Drop for CompiledPattern {
    fn drop(&mut self) {
        shared_patterns::forget(self);
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Pattern {
    /// The maximum size of a compiled expression.
    pub const COMPILED_BYTES_MAX: usize = 1 << 20;
    /// The maximum depth of groups.
    pub const NEST_MAX: u32 = 100;
    /// The programs of an expression that there may be, in bytes of the one that is compiled: itself, and that of the other
    /// engine, which has it once more and backwards. Backwards, classes of Unicode take more than twice as much.
    const PROGRAMS: usize = 5;

    /// Compiles `pattern` (Rust `regex` syntax, Unicode, inline flags).
    ///
    /// # Errors
    /// The reason on one line: syntax, look-around, back-references, size.
    pub fn new(pattern: &str) -> Result<Self, String> {
        Self::within(pattern, usize::MAX)?.ok_or_else(Self::too_large)
    }

    /// [`Self::new`]; None when its [`Self::bytes`] are certainly more than `bytes_max`. Nothing much larger is ever
    /// allocated. Cost: about 8 ms for each MiB of the program; next to nothing for one that another query has or had of late.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn within(pattern: &str, bytes_max: usize) -> Result<Option<Self>, String> {
        let size = (bytes_max / Self::PROGRAMS).min(Self::COMPILED_BYTES_MAX);
        let known = shared_patterns::find(pattern);
        if let Some(known) = &known
            && let Some(is_made) = known.is_made_within(size)
        {
            return Ok(is_made.then(|| Self(Arc::clone(known))));
        }
        let config = Config::new().which_captures(WhichCaptures::None).nfa_size_limit(Some(size));
        let program = match NFA::compiler().configure(config).syntax(syntax_config()).build(pattern) {
            Ok(program) => program,
            Err(error) if error.size_limit().is_none() => return Err(reason(&error)),
            Err(_) if size < Self::COMPILED_BYTES_MAX => {
                if let Some(known) = known {
                    known.not_made_within.fetch_max(size, Ordering::Relaxed);
                }
                return Ok(None);
            }
            Err(_) => return Err(Self::too_large()),
        };
        if let Some(known) = known {
            known.made_within.fetch_min(size, Ordering::Relaxed);
            return Ok(Some(Self(known)));
        }
        let (regex, bounded, needles) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (made_within, not_made_within) = (AtomicUsize::new(size), AtomicUsize::new(0));
        let text = pattern.into();
        let compiled = CompiledPattern { text, program, made_within, not_made_within, regex, bounded, needles };
        Ok(Some(Self(shared_patterns::share(compiled))))
    }

    fn too_large() -> String {
        format!("expected at most {} bytes when compiled", Self::COMPILED_BYTES_MAX)
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// True when the pattern matches anywhere in `text`.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex().is_match(text)
    }

    /// [`Self::is_match`] for what `allowance` can pay; None when it is over.
    #[must_use]
    pub fn is_match_within(&self, text: &str, allowance: &Allowance) -> Option<bool> {
        if allowance.is_unlimited() {
            return Some(self.is_match(text));
        }
        if self.0.bounded.get().is_none() && !allowance.spend(self.bytes(), 1) {
            return None;
        }
        self.bounded().is_match(text, allowance)
    }

    /// Make everything that matching within an allowance and an index need, so that no match has to wait for it.
    pub fn prepare(&self) {
        self.bounded();
        self.needles();
    }

    fn bounded(&self) -> &BoundedSearch {
        self.0.bounded.get_or_init(|| BoundedSearch::new(&self.0.program))
    }

    fn regex(&self) -> &Regex {
        self.0.regex.get_or_init(|| {
            let config =
                Regex::config().hybrid_cache_capacity(Self::COMPILED_BYTES_MAX).which_captures(WhichCaptures::Implicit);
            let built = Regex::builder().configure(config).syntax(syntax_config()).build(&self.0.text);
            built.expect("the program was made from the same text, and there is no limit of size here")
        })
    }

    /// The most memory that the compiled expression takes, with that for searching.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The worst time per byte of a text, in nanoseconds: a new state of the automaton for each byte.
    #[must_use]
    pub fn ns_per_byte(&self) -> u64 {
        REGEX_NS + 3 * self.0.program.states().len() as u64
    }

    /// Needles of which at least one occurs in every text that matches: at most 16, none empty. None when there is no
    /// such set, as for `\w+`.
    #[must_use]
    pub fn necessary_needles(&self) -> Option<&[String]> {
        self.needles().as_deref()
    }

    fn needles(&self) -> &Option<Vec<String>> {
        self.0.needles.get_or_init(|| regex_needles::necessary_needles(&self.0.text))
    }

    /// The byte ranges of its matches in `text`, at most `limit` of them.
    #[must_use]
    pub fn find_all(&self, text: &str, limit: usize) -> Vec<std::ops::Range<usize>> {
        self.regex().find_iter(text).take(limit).map(|matched| matched.range()).collect()
    }
}

fn syntax_config() -> syntax::Config {
    syntax::Config::new().nest_limit(Pattern::NEST_MAX)
}

fn reason(error: &BuildError) -> String {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    text.lines().last().unwrap_or("a valid expression").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, fewer};

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text).expect(text)
    }

    #[test]
    fn within_an_allowance_the_result_is_the_same() {
        let texts = ["", "ab", "xxabc", "grün ab12", "Ω_w 7", "aaaa!", "line\nab\n", "\u{e9}\u{e8} ab"];
        for text in ["ab", "^ab$", r"\w{3}", r"\bab\b", r"(?i)GRÜN", r"(?m)^ab$", "a*", "[^a]b", r"\d+$", "(a|b)+c"] {
            let pattern = pattern(text);
            for haystack in texts {
                let allowance = Allowance::new(1 << 40);
                let within = pattern.is_match_within(haystack, &allowance);
                assert_eq!(within, Some(pattern.is_match(haystack)), "{text} in {haystack:?}");
            }
        }
    }

    #[test]
    fn what_is_accepted_does_not_depend_on_who_else_has_it() {
        let sizes = (0..40).map(|step| 1_000 + step * 1_000);
        let accepts = |size| Pattern::within(r"[a-f]{20}\d{3}", size).expect("a pattern").is_some();
        let alone: Vec<bool> = sizes.clone().map(accepts).collect();
        assert!(alone.contains(&true) && alone.contains(&false), "{alone:?}");
        let _held = pattern(r"[a-f]{20}\d{3}");
        for order in [sizes.clone().collect::<Vec<_>>(), sizes.rev().collect()] {
            let beside: Vec<bool> = order.iter().copied().map(accepts).collect();
            let expected: Vec<bool> = order.iter().map(|size| alone[size / 1_000 - 1]).collect();
            assert_eq!(beside, expected);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn an_automaton_that_explodes_ends_with_the_allowance() {
        let pattern = pattern("[ab]*a[ab]{300}x");
        let mut random = Random(7);
        let text: String = (0..fewer(100_000)).map(|_| random.pick(&['a', 'b'])).collect();
        let allowance = Allowance::new(10_000_000);
        assert_eq!(pattern.is_match_within(&text, &allowance), None);
        assert!(allowance.is_over());
        let plain = Allowance::new(10_000_000);
        assert_eq!(Pattern::new("[ab]+x").expect("one").is_match_within(&text, &plain), Some(false), "the control");
    }

    #[test]
    fn what_is_too_large_is_refused_with_the_reason() {
        let refused = Pattern::new(r"\w{99}").expect_err("too large");
        assert_eq!(refused, "expected at most 1048576 bytes when compiled");
        assert_eq!(Pattern::within(r"\w{9}", 1 << 16), Ok(None));
        assert!(Pattern::new("(?=a)").expect_err("look-ahead").contains("look-around"));
        assert!(Pattern::new(r"\w{9}").expect("one").bytes() > 1 << 16);
    }
}
