//! Wall-clock time, the CPU time of a thread, and the percentiles of many measurements.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of this thread so far. Other programs on the machine do not lengthen it.
#[must_use]
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// The CPU time of all threads of this program so far.
#[must_use]
pub fn process_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// What `work` gives, and how long it took on the wall.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// What `work` gives, and the CPU time of this thread that it took, without that of reading the clock.
pub fn timed_cpu<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let of_reading = *CLOCK_COST;
    let start = thread_cpu();
    let result = work();
    (result, (thread_cpu() - start).saturating_sub(of_reading))
}

/// The CPU time that passes from one reading of the clock to the next: the median of many.
static CLOCK_COST: LazyLock<Duration> = LazyLock::new(|| {
    let mut costs: Vec<Duration> = (0..10_001)
        .map(|_| {
            let start = thread_cpu();
            thread_cpu() - start
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
});

/// What `work` gives, and the CPU time that all threads of this program took meanwhile.
pub fn timed_process_cpu<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = process_cpu();
    let result = work();
    (result, process_cpu() - start)
}

/// Microseconds.
#[must_use]
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The clock of this processor in GHz, where Linux tells it.
#[must_use]
pub fn ghz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    Some(mhz / 1_000.0)
}

/// Times in microseconds, sorted.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes(Vec<f64>);

impl CpuTimes {
    /// Sort `times`, in microseconds.
    #[must_use]
    pub fn new(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    /// The smallest time that `percent` of all do not exceed; 0 of no times.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// The mean; 0 of no times.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The middle one of an odd number of runs, by `key`.
pub fn median_by<T>(mut runs: Vec<T>, key: impl Fn(&T) -> f64) -> T {
    runs.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let middle = runs.len() / 2;
    runs.swap_remove(middle)
}
