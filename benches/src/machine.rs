//! Describes the machine of a benchmark, so that its figures can be told from those of another machine or a busy hour.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::clock::ghz;

/// The processor and what it is told to be; what the system does not tell is null.
#[must_use]
pub fn facts() -> Value {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "processor": processor(), "cores": cores, "ghz": ghz(),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// How many programs wanted a processor in the last minute, on the mean, where Linux tells it.
#[must_use]
pub fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}
