//! Searches a text with a regular expression as far as an allowance goes: an automaton whose new states are paid for.
//!
//! The automaton is made while texts are read (lazy determinisation). Reading a byte in a known state takes a nanosecond or
//! two, making a state takes a step for each state of the program, and a hostile text may need a new one for every byte.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::NFA;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::{Input, MatchError};

use crate::allowance::{Allowance, REGEX_NS, REGEX_STATE_NS};
use crate::mutex::lock;

/// Maximum memory of the known states of one expression.
const STATES_BYTES_MAX: usize = 256 * 1024;
/// Maximum memory of the known states of all expressions; beyond it, they are forgotten after each search.
const ALL_STATES_BYTES_MAX: usize = 64 << 20;

/// The memory that known states of all expressions take.
static ALL_STATES_BYTES: AtomicUsize = AtomicUsize::new(0);

/// An automaton, and the states of it that are known.
#[derive(Debug)]
pub struct BoundedSearch {
    dfa: Option<DFA>,
    states: Mutex<KnownStates>,
}

#[derive(Debug, Default)]
struct KnownStates {
    cache: Option<Cache>,
    bytes: usize,
}

impl BoundedSearch {
    /// The memory of an expression's search, apart from its program and known states.
    pub const BYTES_MIN: usize = 2_048;

    /// The automaton of a program.
    pub fn new(program: &NFA) -> Self {
        let config =
            DFA::config().cache_capacity(STATES_BYTES_MAX).skip_cache_capacity_check(true).unicode_word_boundary(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(program.clone()).ok();
        Self { dfa, states: Mutex::default() }
    }

    /// Whether the expression matches anywhere in `text`; None when the allowance is over.
    pub fn is_match(&self, text: &str, allowance: &Allowance) -> Option<bool> {
        let dfa = self.dfa.as_ref().filter(|_| allowance.spend(text.len(), REGEX_NS))?;
        let mut states = lock(&self.states);
        let mut cache = states.cache.take().unwrap_or_else(|| dfa.create_cache());
        let searched = search(dfa, &mut cache, text, allowance);
        states.keep(cache);
        // A word boundary beside a character that is not ASCII is beyond an automaton.
        searched.unwrap_or_else(|_| simulate(dfa, text, allowance))
    }
}

impl KnownStates {
    fn keep(&mut self, cache: Cache) {
        let bytes = cache.memory_usage();
        let all = ALL_STATES_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes - self.bytes;
        ALL_STATES_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
        (self.cache, self.bytes) = (Some(cache), bytes);
        if all > ALL_STATES_BYTES_MAX {
            self.forget();
        }
    }

    fn forget(&mut self) {
        ALL_STATES_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
        (self.cache, self.bytes) = (None, 0);
    }
}

impl Drop for KnownStates {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Run the automaton. None when the allowance is over; an error where the automaton cannot go on.
fn search(dfa: &DFA, cache: &mut Cache, text: &str, allowance: &Allowance) -> Result<Option<bool>, MatchError> {
    let program_states = dfa.get_nfa().states().len();
    let mut state = dfa.start_state_forward(cache, &Input::new(text).earliest(true))?;
    for (at, &byte) in text.as_bytes().iter().enumerate() {
        let mut next = dfa.next_state_untagged(cache, state, byte);
        if next.is_unknown() {
            if !allowance.spend(program_states, REGEX_STATE_NS) {
                return Ok(None);
            }
            next = dfa.next_state(cache, state, byte).map_err(|_| MatchError::gave_up(at))?;
        }
        if next.is_tagged() {
            if next.is_quit() {
                return Err(MatchError::quit(byte, at));
            }
            return Ok(Some(next.is_match()));
        }
        state = next;
    }
    let end = dfa.next_eoi_state(cache, state).map_err(|_| MatchError::gave_up(text.len()))?;
    Ok(Some(end.is_match()))
}

/// Run the program itself, which takes a step per byte for each of its states.
fn simulate(dfa: &DFA, text: &str, allowance: &Allowance) -> Option<bool> {
    let program = dfa.get_nfa();
    if !allowance.spend(text.len().saturating_mul(program.states().len()), REGEX_NS) {
        return None;
    }
    let machine = PikeVM::new_from_nfa(program.clone()).ok()?;
    Some(machine.is_match(&mut machine.create_cache(), text))
}
