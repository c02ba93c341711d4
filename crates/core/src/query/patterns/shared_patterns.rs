//! The compiled regular expressions that some query has, by their text, so that each is compiled once.
//!
//! Some of those that came last stay when nobody has them any more: clients that connect again bind their queries again, and
//! one whose query was refused may try it again.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use hashbrown::HashMap;

use super::pattern::CompiledPattern;
use crate::mutex::lock;

/// The most expressions that stay, and the most memory that they may take.
const RECENT_MAX: usize = 64;
const RECENT_BYTES_MAX: usize = 4 << 20;
/// The room for so many stays when they are gone.
const SPARE_MIN: usize = 1024;

static SHARED: LazyLock<Mutex<SharedPatterns>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct SharedPatterns {
    /// Those that somebody has, or that came last. Whoever drops the last copy takes it out.
    by_text: HashMap<Box<str>, Weak<CompiledPattern>>,
    /// Those that came last, the latest behind, and their memory.
    recent: VecDeque<Arc<CompiledPattern>>,
    recent_bytes: usize,
}

/// The expression with this text, if it is there.
pub(super) fn find(text: &str) -> Option<Arc<CompiledPattern>> {
    lock(&SHARED).by_text.get(text)?.upgrade()
}

/// Let other queries have an expression. If two threads compile the same, later queries get that of the last.
pub(super) fn share(pattern: CompiledPattern) -> Arc<CompiledPattern> {
    let (text, pattern) = (pattern.text.clone(), Arc::new(pattern));
    let mut shared = lock(&SHARED);
    shared.by_text.insert(text, Arc::downgrade(&pattern));
    let oldest = shared.keep(&pattern);
    // Each is taken out when it is dropped, which needs the lock.
    drop(shared);
    drop(oldest);
    pattern
}

/// Take out an expression that nobody has any more, unless its place is another's by now.
pub(super) fn forget(pattern: &CompiledPattern) {
    let by_text = &mut lock(&SHARED).by_text;
    if by_text.get(&pattern.text).is_some_and(|known| std::ptr::eq(known.as_ptr(), pattern)) {
        by_text.remove(&pattern.text);
        if by_text.capacity() > SPARE_MIN && by_text.len() < by_text.capacity() / 4 {
            by_text.shrink_to(by_text.len() * 2);
        }
    }
}

impl SharedPatterns {
    /// Keep an expression as one of those that came last. Returns those that have to go for it.
    fn keep(&mut self, pattern: &Arc<CompiledPattern>) -> Vec<Arc<CompiledPattern>> {
        self.recent_bytes += pattern.bytes();
        self.recent.push_back(Arc::clone(pattern));
        let mut oldest = Vec::new();
        while self.recent.len() > RECENT_MAX || self.recent_bytes > RECENT_BYTES_MAX {
            let Some(pattern) = self.recent.pop_front() else { break };
            self.recent_bytes -= pattern.bytes();
            oldest.push(pattern);
        }
        oldest
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::pattern::Pattern;
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text).expect("a pattern")
    }

    /// Compile as many others as stay, and wait until nothing is left of `text`: other tests, which run beside this one, drop
    /// what they have displaced as well.
    fn displace(text: &str) {
        for number in 0..RECENT_MAX {
            drop(pattern(&format!("beside {text} {number}")));
        }
        let until = Instant::now() + Duration::from_secs(10);
        while lock(&SHARED).by_text.contains_key(text) {
            assert!(Instant::now() < until, "'{text}' is still there");
            thread::yield_now();
        }
    }

    #[test]
    fn queries_with_the_same_text_share_an_expression_as_long_as_one_has_it() {
        let text = "only (this|that) test has [it]+";
        let (first, second) = (pattern(text), pattern(text));
        assert!(std::ptr::eq(first.as_str(), second.as_str()), "one text, so one expression");
        drop(first);
        displace("some other");
        assert!(find(text).is_some(), "the second has it");
        drop(second);
        displace(text);
    }

    #[test]
    fn those_that_came_last_stay_as_far_as_their_number_and_memory_go() {
        let mut shared = SharedPatterns::default();
        // 20 of the large ones take more memory than there may be, and 100 of the small ones are too many.
        let texts =
            (0..20).map(|number| format!(r"\w{{10}}{number}")).chain((0..100).map(|number| format!("a{number}")));
        let mut sizes = Vec::new();
        for text in texts {
            let held = pattern(&text);
            drop(shared.keep(&find(held.as_str()).expect("held")));
            let last = shared.recent.back().expect("the last stays");
            assert_eq!(&*last.text, text);
            assert_eq!(shared.recent_bytes, shared.recent.iter().map(|pattern| pattern.bytes()).sum::<usize>());
            assert!(shared.recent_bytes <= RECENT_BYTES_MAX);
            sizes.push(shared.recent.len());
        }
        assert!(sizes[19] < 20 && sizes[119] == RECENT_MAX, "{sizes:?}");
    }

    #[test]
    fn many_threads_that_compile_and_drop_the_same_leave_nothing() {
        let text = "many (threads|hands) have [it]+";
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..20 {
                        assert!(pattern(text).is_match("many threads have it"));
                        drop(pattern(&format!("others of thread {thread} in round {round}")));
                    }
                });
            }
        });
        displace(text);
    }
}
