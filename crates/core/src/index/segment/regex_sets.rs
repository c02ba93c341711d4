//! Regular expressions that are searched for together: one automaton for up to some hundreds of them.
//!
//! An expression with a literal is looked for only in texts that have the literal. One without, such as `^[A-Z]{3}\d{4}$`, is a
//! candidate for every text. Those on one part of the message are combined into *sets*; the automaton of a set is made while
//! texts are read (lazy determinisation), and reports all of its expressions that match in one pass.
//!
//! A text may need a new state for each of its bytes, and making one takes a step for each state of the program. So a search
//! ends when it has made some, and the expressions are evaluated one by one; what it made is kept for the next text.

use std::sync::Mutex;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

use crate::allowance::{Allowance, REGEX_NS, REGEX_STATE_NS};
use crate::error::EngineError;
use crate::index::ids::SharedPredicateId;
use crate::message::{Message, Value};
use crate::mutex::lock;
use crate::query::evaluate::Referent;
use crate::query::expr::{Expr, Pattern, Predicate, Reference};

use super::Segment;

/// From this number of expressions on they are searched for together: a set takes about as long as two or three of its
/// expressions, once its states are known.
pub const SET_MIN: usize = 16;
/// The maximum number of expressions in a set. With more, the states that one needs are new because of others.
const SET_MAX: usize = 500;
/// The maximum size of the programs of a set, apart from that of a single expression.
const PROGRAM_BYTES_MAX: usize = 4 << 20;
/// The maximum memory of the known states of a set, for each thread that searches at the same time.
const STATES_BYTES_MAX: usize = 2 << 20;
/// The maximum number of threads whose states are kept.
const POOL_MAX: usize = 16;
/// A search makes at most this many states, about as long as 100 expressions take one by one.
const NEW_STATES_MAX: usize = 64;
/// After a search that made too many states, so many times the expressions of a set are evaluated one by one before the
/// next attempt; each further failure in a row doubles it, up to the second number.
const PAUSES: (u32, u32) = (1, 256);

/// The sets of a segment, and where each shared predicate is in them.
#[derive(Debug, Default)]
pub struct RegexSets {
    sets: Vec<RegexSet>,
    /// The set of each shared predicate, by number.
    set_of: Vec<Option<u32>>,
}

/// Expressions that are searched for together.
#[derive(Debug)]
struct RegexSet {
    reference: Reference,
    dfa: DFA,
    /// The predicates, in the order of the automaton's patterns, and whether each is true when its expression does not match.
    members: Vec<(SharedPredicateId, bool)>,
    pool: Mutex<Vec<SearchState>>,
}

/// What a search needs, kept from text to text.
#[derive(Debug)]
struct SearchState {
    cache: Cache,
    matched: PatternSet,
    /// The attempts that are left out, and the number of failures in a row.
    pause: u32,
    failures: u32,
}

impl RegexSets {
    /// The sets of the shared predicates of a segment. Cost: compiling the expressions among them.
    ///
    /// # Errors
    /// Damage in the shared predicates.
    pub fn of(segment: &Segment) -> Result<Self, EngineError> {
        let mut by_part: Vec<(SetPart<'_>, Vec<Member<'_>>)> = Vec::new();
        let count = segment.shared_predicate_count();
        for predicate in (0..count).map(SharedPredicateId::of) {
            if !segment.is_shared_regex(predicate)? {
                continue;
            }
            let Some((reference, pattern, is_negated)) = wanted(segment.shared_predicate(predicate)?.expr()) else {
                continue;
            };
            let member = Member { predicate, pattern, is_negated };
            let part = (reference, may_give_up(pattern));
            match by_part.iter_mut().find(|(other, _)| *other == part) {
                Some((_, members)) => members.push(member),
                None => by_part.push((part, vec![member])),
            }
        }
        let mut all = Self { sets: Vec::new(), set_of: vec![None; count] };
        for ((reference, _), members) in by_part {
            chunks(&members).filter_map(|members| RegexSet::new(reference, members)).for_each(|set| all.push(set));
        }
        Ok(all)
    }

    fn push(&mut self, set: RegexSet) {
        let number = self.sets.len() as u32;
        set.members.iter().for_each(|(predicate, _)| self.set_of[predicate.index()] = Some(number));
        self.sets.push(set);
    }

    /// The bytes of the programs and of the states that are known, but for those that a search has right now.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.set_of) + self.sets.iter().map(RegexSet::bytes).sum::<usize>()
    }

    /// Call `decide` with each predicate of the set of `predicate` and whether it is true of `message`. Returns false when it
    /// is in no set, or has to be evaluated by itself.
    pub fn search(
        &self,
        predicate: SharedPredicateId,
        message: &Message<'_>,
        decide: impl FnMut(SharedPredicateId, bool),
    ) -> bool {
        let set = self.set_of.get(predicate.index()).copied().flatten();
        set.is_some_and(|set| self.sets[set as usize].search(message, decide))
    }
}

/// A predicate that belongs into a set.
struct Member<'s> {
    predicate: SharedPredicateId,
    pattern: &'s Pattern,
    is_negated: bool,
}

/// A part of the message, and whether the automaton may not be able to go on: such expressions have sets of their own.
type SetPart<'s> = (&'s Reference, bool);

/// True of expressions that may have a word boundary, which an automaton cannot find beside characters beyond ASCII.
fn may_give_up(pattern: &Pattern) -> bool {
    [r"\b", r"\B"].iter().any(|boundary| pattern.as_str().contains(boundary))
}

/// The parts of a predicate that is looked for in every text.
fn wanted(expr: &Expr) -> Option<(&Reference, &Pattern, bool)> {
    let (predicate, is_negated) = match expr {
        Expr::Predicate(predicate) => (predicate, false),
        Expr::Not(inner) => match &**inner {
            Expr::Predicate(predicate) => (predicate, true),
            _ => return None,
        },
        _ => return None,
    };
    let Predicate::Regex(reference, pattern) = predicate else { return None };
    let is_everywhere = is_negated || pattern.necessary_needles().is_none_or(<[String]>::is_empty);
    is_everywhere.then_some((reference, pattern, is_negated))
}

/// Members by the limits of a set; too few for one are left out.
fn chunks<'m, 's>(mut members: &'m [Member<'s>]) -> impl Iterator<Item = &'m [Member<'s>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |member: &&Member<'_>| {
            bytes += member.pattern.bytes();
            bytes <= PROGRAM_BYTES_MAX
        };
        let count = members.iter().take(SET_MAX).take_while(fits).count().max(1).min(members.len());
        let (own, rest) = members.split_at(count);
        members = rest;
        (!own.is_empty()).then_some(own)
    })
    .filter(|own| own.len() >= SET_MIN)
}

impl RegexSet {
    /// The set of `members`; None when no automaton can have them.
    fn new(reference: &Reference, members: &[Member<'_>]) -> Option<Self> {
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(STATES_BYTES_MAX)
            .skip_cache_capacity_check(true)
            .unicode_word_boundary(true);
        let program = thompson::Config::new()
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(PROGRAM_BYTES_MAX + Pattern::COMPILED_BYTES_MAX));
        let syntax = syntax::Config::new().nest_limit(Pattern::NEST_MAX);
        let patterns: Vec<_> = members.iter().map(|member| member.pattern.as_str()).collect();
        let dfa = DFA::builder().configure(config).thompson(program).syntax(syntax).build_many(&patterns).ok()?;
        let members = members.iter().map(|member| (member.predicate, member.is_negated)).collect();
        Some(Self { reference: reference.clone(), dfa, members, pool: Mutex::default() })
    }

    fn bytes(&self) -> usize {
        let pool = lock(&self.pool);
        let states: usize = pool.iter().map(|state| size_of_val(state) + state.cache.memory_usage()).sum();
        size_of_val(&*self.members) + self.dfa.get_nfa().memory_usage() + states
    }

    fn search(&self, message: &Message<'_>, mut decide: impl FnMut(SharedPredicateId, bool)) -> bool {
        let text = match self.reference.value(message) {
            Referent::One(Value::Text(text)) => text,
            Referent::Text(text) => text,
            _ => return false,
        };
        let mut state = self.take_state();
        let is_found = state.pause == 0 && state.search(&self.dfa, text, message.allowance()).is_some();
        if is_found {
            for (index, (predicate, is_negated)) in self.members.iter().enumerate() {
                decide(*predicate, state.matched.contains(regex_automata::PatternID::must(index)) != *is_negated);
            }
        }
        state.note(is_found, self.members.len() as u32);
        let mut pool = lock(&self.pool);
        if pool.len() < POOL_MAX {
            pool.push(state);
        }
        is_found
    }

    fn take_state(&self) -> SearchState {
        let kept = lock(&self.pool).pop();
        kept.unwrap_or_else(|| SearchState {
            cache: self.dfa.create_cache(),
            matched: PatternSet::new(self.members.len()),
            pause: 0,
            failures: 0,
        })
    }
}

impl SearchState {
    /// Note an attempt at a set of `count` expressions.
    fn note(&mut self, is_found: bool, count: u32) {
        if is_found {
            self.failures = 0;
        } else if self.pause > 0 {
            self.pause -= 1;
        } else {
            let (least, most) = PAUSES;
            self.pause = count.saturating_mul((least << self.failures.min(16)).min(most));
            self.failures += 1;
        }
    }

    /// Find what matches anywhere in `text`. None when that takes more states than may be made, when the allowance is over, and
    /// where the automaton cannot go on: at a word boundary beside a character that is not ASCII.
    fn search(&mut self, dfa: &DFA, text: &str, allowance: &Allowance) -> Option<()> {
        let Self { cache, matched, .. } = self;
        matched.clear();
        if !allowance.spend(text.len(), REGEX_NS) {
            return None;
        }
        let program_states = dfa.get_nfa().states().len();
        let mut state = dfa.start_state_forward(cache, &Input::new(text)).ok()?;
        let mut new_states = 0;
        for &byte in text.as_bytes() {
            // A state with a tag has no known successors at hand.
            let known = if state.is_tagged() { None } else { Some(dfa.next_state_untagged(cache, state, byte)) };
            let next = match known.filter(|next| !next.is_unknown()) {
                Some(next) => next,
                None => {
                    let before = cache.memory_usage();
                    let next = dfa.next_state(cache, state, byte).ok()?;
                    if cache.memory_usage() != before {
                        new_states += 1;
                        if new_states > NEW_STATES_MAX || !allowance.spend(program_states, REGEX_STATE_NS) {
                            return None;
                        }
                    }
                    next
                }
            };
            if next.is_tagged() {
                if next.is_quit() {
                    return None;
                }
                if next.is_dead() {
                    return Some(());
                }
                note_matches(dfa, cache, next, matched);
            }
            state = next;
        }
        let end = dfa.next_eoi_state(cache, state).ok()?;
        note_matches(dfa, cache, end, matched);
        Some(())
    }
}

/// Note the expressions that match in `state`.
fn note_matches(dfa: &DFA, cache: &Cache, state: LazyStateID, matched: &mut PatternSet) {
    if state.is_match() {
        (0..dfa.match_len(cache, state)).for_each(|index| _ = matched.insert(dfa.match_pattern(cache, state, index)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, or_few};

    /// Random expressions of classes, anchors and word boundaries, without a literal.
    fn expression(random: &mut Random) -> String {
        let pieces =
            ["[ab]", "[b-d]", r"\d", "[A-Z]", "[^a]", r"\w", r"\b", "[ab]{2}", "(?:[ab]|[cd])", "[x-z]*", r"\pL+"];
        let middle: String = (0..1 + random.below(4)).map(|_| random.pick(&pieces)).collect();
        format!("{}{middle}{}", random.pick(&["", "", "^"]), random.pick(&["", "", "$"]))
    }

    #[test]
    fn a_set_says_what_each_of_its_expressions_says() {
        let mut random = Random(5);
        let (mut found, mut given_up) = (0, 0);
        for _ in 0..or_few(12, 2) {
            let patterns: Vec<_> =
                (0..40).map(|_| expression(&mut random)).map(|text| Pattern::new(&text).expect(&text)).collect();
            let member = |(number, pattern)| Member {
                predicate: SharedPredicateId::of(number),
                pattern,
                is_negated: number % 3 == 0,
            };
            let members: Vec<_> = patterns.iter().enumerate().map(member).collect();
            let reference = Reference::Topic;
            let set = RegexSet::new(&reference, &members).expect("an automaton");
            for _ in 0..or_few(200, 10) {
                let letters = ["a", "b", "c", "Z", "7", " ", "é", "x"];
                let text: String = (0..random.below(12)).map(|_| random.pick(&letters)).collect();
                let properties = crate::message::Properties::default();
                let message = Message::new(&text, &properties, crate::message::Body::Absent);
                let mut decided = vec![None; members.len()];
                let is_found = set.search(&message, |predicate, is_true| decided[predicate.index()] = Some(is_true));
                given_up += usize::from(!is_found);
                set.pool.lock().expect("whole").iter_mut().for_each(|state| state.pause = 0);
                for (member, decided) in members.iter().zip(decided) {
                    let expected = member.pattern.is_match(&text) != member.is_negated;
                    assert_eq!(decided, is_found.then_some(expected), "{} in {text:?}", member.pattern.as_str());
                    found += usize::from(is_found && expected);
                }
            }
        }
        assert!(found > 100 && given_up > 0, "{found} found, {given_up} given up");
    }

    #[test]
    fn an_expression_with_a_word_boundary_is_not_in_a_set_with_others() {
        let may = |text| may_give_up(&Pattern::new(text).expect(text));
        assert!(may(r"\b[a-z]{3}\b") && may(r"[a-z]\B"));
        assert!(!may(r"^[A-Z]{3}\d{4}$") && !may("b+"));
    }

    #[test]
    fn a_set_that_needs_ever_new_states_gives_way_and_is_tried_again() {
        let patterns: Vec<_> = (0..40)
            .map(|number| Pattern::new(&format!("[ab]*[bc][ab]{{{}}}[x-z]", number + 20)).expect("one"))
            .collect();
        let member =
            |(number, pattern)| Member { predicate: SharedPredicateId::of(number), pattern, is_negated: false };
        let members: Vec<_> = patterns.iter().enumerate().map(member).collect();
        let set = RegexSet::new(&Reference::Topic, &members).expect("an automaton");
        let mut random = Random(3);
        let text: String = (0..2_000).map(|_| random.pick(&['a', 'b'])).collect();
        let properties = crate::message::Properties::default();
        let message = Message::new(&text, &properties, crate::message::Body::Absent);
        assert!(!set.search(&message, |_, _| panic!("nothing is known")));
        assert!(set.pool.lock().expect("whole")[0].pause > 0);
        let short = Message::new("aab", &properties, crate::message::Body::Absent);
        let tries = (0..100_000).take_while(|_| !set.search(&short, |_, is_true| assert!(!is_true))).count();
        assert!(tries >= members.len() && tries < 100_000, "{tries}");
    }
}
