//! The papers' algorithms in Rust, behind one trait per kind, and what the benchmarks share.
//!
//! In one language, the papers' comparisons compare algorithms. Nothing of tamis depends on this crate.
//!
//! The same algorithms are in `tamis.reference`, in Python, to be read and to be tested against; here they are to be
//! timed.

pub mod allocated;
pub mod arguments;
pub mod boolean;
pub mod clock;
pub mod machine;
pub mod random;
pub mod report;
pub mod shapes;
pub mod stamps;
pub mod topics;
pub mod workload_b;
