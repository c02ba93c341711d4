//! The matching core of tamis, without Python.
//!
//! A [`message::Message`] is tested by a [`query::Query`], which the parsers in [`query`] build from text. An
//! [`index::Engine`] holds many subscriptions and finds all that a message satisfies. Sources: `docs/semantics.md` for
//! the meaning; the papers named in each module for the algorithms.

pub mod allowance;
pub mod amqp;
pub mod bitmap;
pub mod broker;
pub mod error;
pub mod expensive;
pub mod hierarchy;
pub mod index;
pub mod instant;
pub mod journal;
mod json;
pub mod message;
mod mutex;
pub mod name_hash;
pub mod query;
mod spelling;
#[cfg(test)]
mod testing;
pub mod text;
pub mod topic;
pub mod variant;
