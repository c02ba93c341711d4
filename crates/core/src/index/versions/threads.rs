//! Threads that work on engines in the background, each kept for some time for whatever comes next.
//!
//! A new thread begins where the one that starts it runs, and with its right to that core: it would hold up an event loop that
//! starts one.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::mutex::lock;

/// The time for which a thread waits for more work.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// The threads of a process: a fork of it does not have them.
#[derive(Default)]
struct Threads {
    process: u32,
    /// What no thread has begun.
    waiting: VecDeque<Job>,
    /// The number of threads that have nothing to do.
    idle: usize,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads { process: 0, waiting: VecDeque::new(), idle: 0 });
static MORE: Condvar = Condvar::new();

/// Do `job` in a thread, at once.
///
/// # Errors
/// No thread can be started; then `job` is dropped.
pub fn run(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let job: Job = Box::new(job);
    let mut threads = lock(&THREADS);
    if threads.process != std::process::id() {
        *threads = Threads { process: std::process::id(), ..Threads::default() };
    }
    if threads.waiting.len() < threads.idle {
        threads.waiting.push_back(job);
        MORE.notify_one();
        return Ok(());
    }
    drop(threads);
    let thread = std::thread::Builder::new().name("tamis-merge".to_owned());
    thread.spawn(move || work_on(job)).map(drop)
}

/// Do what there is, and wait for more.
fn work_on(mut job: Job) {
    loop {
        job();
        let Some(next) = next() else { return };
        job = next;
    }
}

/// What comes next; None if nothing has come for long.
fn next() -> Option<Job> {
    let mut threads = lock(&THREADS);
    threads.idle += 1;
    let waited = MORE.wait_timeout_while(threads, IDLE, |threads| threads.waiting.is_empty());
    threads = waited.unwrap_or_else(PoisonError::into_inner).0;
    threads.idle -= 1;
    threads.waiting.pop_front()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc::channel;
    use std::thread::{self, ThreadId};

    /// The thread that does some work, once it has done it.
    fn thread_of_work() -> ThreadId {
        let (sender, receiver) = channel();
        run(move || sender.send(thread::current().id()).expect("somebody waits")).expect("a thread");
        receiver.recv().expect("a thread")
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaves threads, which miri takes for a leak")]
    fn a_thread_does_what_comes_after_its_first_work() {
        let ids: Vec<_> = (0..100)
            .map(|_| {
                let id = thread_of_work();
                thread::sleep(Duration::from_millis(1));
                id
            })
            .collect();
        // Other tests use these threads, too.
        let different: HashSet<_> = ids.iter().collect();
        assert!(different.len() < 50 && !different.contains(&thread::current().id()), "{}", different.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaves threads, which miri takes for a leak")]
    fn work_never_waits_for_other_work() {
        let (sender, receiver) = channel::<()>();
        let (told, all) = channel();
        let mut waiting = Vec::new();
        for _ in 0..8 {
            let (go, wait) = channel::<()>();
            let told = told.clone();
            run(move || {
                told.send(()).expect("somebody waits");
                _ = wait.recv();
            })
            .expect("a thread");
            waiting.push(go);
        }
        run(move || sender.send(()).expect("somebody waits")).expect("a thread");
        receiver.recv().expect("done beside the others");
        waiting.iter().for_each(|_| all.recv().expect("begun"));
    }
}
