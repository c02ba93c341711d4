//! The fixed limits of the broker by name, for the table of limits in its documentation.

use crate::amqp::raw_table::{TABLE_DEPTH_MAX, TABLE_SIZE_BYTES_MAX};
use crate::broker::options::BrokerOptions;
use crate::broker::publishing::confirms::REFUSED_MAX;
use crate::broker::publishing::further_keys::KEYS_MAX;
use crate::broker::publishing::transactions::transaction::TRANSACTION_BYTES_MAX;
use crate::broker::queues::held_letters::HELD_MAX;
use crate::broker::queues::letter::CONGESTED_LETTERS;
use crate::broker::queues::policy::TIME_MS_MAX;
use crate::broker::streams::all_streams::{CONGESTED_BYTES, TAIL_BYTES};
use crate::broker::streams::named_readers::READERS_MAX;
use crate::broker::streams::reading::READER_FILES_MAX;
use crate::broker::topology::{BINDINGS_MAX, EXCHANGES_MAX, QUEUES_MAX};
use crate::journal::PARTLY_READ_MAX;

/// The limits that no setting changes, by name, in the order of the table.
#[must_use]
pub fn fixed_limits() -> Vec<(&'static str, u64)> {
    let options = BrokerOptions::default();
    let sizes = [
        ("table_depth", TABLE_DEPTH_MAX),
        ("table_bytes", TABLE_SIZE_BYTES_MAX),
        ("consumers", options.consumers_max),
        ("output_bytes", options.output_bytes_max),
        ("transaction_bytes", TRANSACTION_BYTES_MAX),
        ("further_keys", KEYS_MAX),
        ("letters", CONGESTED_LETTERS),
        ("letters_held", HELD_MAX),
        ("refused", REFUSED_MAX),
        ("exchanges", EXCHANGES_MAX),
        ("queues", QUEUES_MAX),
        ("bindings", BINDINGS_MAX),
        ("stream_pending_bytes", CONGESTED_BYTES),
        ("stream_tail_bytes", TAIL_BYTES),
        ("stream_partly_read_bytes", PARTLY_READ_MAX as usize),
        ("stream_readers", READERS_MAX),
        ("stream_reader_files", READER_FILES_MAX as usize),
    ];
    let sizes = sizes.into_iter().map(|(name, value)| (name, value as u64));
    sizes.chain([("time_to_live_ms", TIME_MS_MAX)]).collect()
}
