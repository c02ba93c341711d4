//! Summarizes the headers of a run of messages in a few kilobytes, so that a reader's query can pass over the run.
//!
//! A summary holds, of all messages of a run, the hashes of what their routing keys and properties are, in a Bloom filter,
//! and for each property the range of its numbers, of its times and of the beginnings of its texts. It may say that
//! something occurs that does not, and never the opposite.
//!
//! ```text
//! flags u8 | hashes per term u8 | ranges u16 | key, lowest, highest: u64 each, ascending by key ... | Bloom filter
//! ```

use hashbrown::{HashMap, HashSet};

use crate::amqp::{BasicProperties, RawTable, RawValue};
use crate::message::Value;

use crate::broker::streams::stream_record::StreamRecord;
use crate::broker::topology::value_seen;

pub(crate) use run_condition::RunCondition;
use terms::{
    NUMBERS, TEXTS, TIMES, equal, equal_text, hash, number_of, order_of_number, order_of_text, order_of_time, present,
    property, time_of, topic,
};

mod run_condition;
mod terms;
#[cfg(test)]
mod tests;

/// The maximum number of ranges in a summary.
const RANGES_MAX: usize = 64;
/// The bits of the Bloom filter for each term, and the maximum size of the filter.
const BITS_PER_TERM: usize = 10;
const BLOOM_BYTES_MAX: usize = 8 * 1024;
/// The maximum number of terms of a run. One that has more is always read.
const TERMS_MAX: usize = 1 << 16;
/// The maximum length of a dotted name, and of the tables on its way. A run with a longer one is always read.
const NAME_BYTES_MAX: usize = 512;
const DEPTH_MAX: usize = 8;

const RANGE_BYTES: usize = 24;
const HEADER_BYTES: usize = 4;
/// The flag of a summary without some of the ranges.
const LACKS_RANGES: u8 = 1;

/// The values and ranges in the messages of a run.
#[derive(Debug, Default)]
pub(crate) struct SummaryBuilder {
    terms: HashSet<u64, foldhash::fast::FixedState>,
    ranges: HashMap<u64, (u64, u64), foldhash::fast::FixedState>,
    lacks_ranges: bool,
    is_over: bool,
    name: String,
}

/// A summary that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary<'a> {
    lacks_ranges: bool,
    hashes: u8,
    ranges: &'a [u8],
    bloom: &'a [u8],
}

impl SummaryBuilder {
    /// Add what a message has.
    pub fn add(&mut self, record: &StreamRecord<'_>) {
        self.add_text(topic(), record.routing_key);
        let properties: &BasicProperties<'_> = &record.properties;
        for (name, value) in properties.headers().iter().flat_map(RawTable::iter).map_while(Result::ok) {
            self.add_named(name, value, 0);
        }
        let fields = properties.fields();
        for (name, text) in [
            ("content_type", fields.content_type),
            ("content_encoding", fields.content_encoding),
            ("correlation_id", fields.correlation_id),
            ("reply_to", fields.reply_to),
            ("expiration", fields.expiration),
            ("message_id", fields.message_id),
            ("type", fields.message_type),
            ("user_id", fields.user_id),
            ("app_id", fields.app_id),
            ("cluster_id", fields.cluster_id),
        ] {
            if let Some(text) = text {
                self.add_named(name, RawValue::Text(text.as_bytes()), 0);
            }
        }
        for (name, value) in [
            ("delivery_mode", fields.delivery_mode.map(RawValue::U8)),
            ("priority", fields.priority.map(RawValue::U8)),
            ("timestamp", fields.timestamp.map(RawValue::Timestamp)),
        ] {
            if let Some(value) = value {
                self.add_named(name, value, 0);
            }
        }
    }

    /// The summary, and an empty builder; None for a run that is always read.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let is_over = std::mem::take(&mut self.is_over);
        let encoded = (!is_over).then(|| self.encode());
        self.terms.clear();
        self.ranges.clear();
        self.lacks_ranges = false;
        encoded
    }

    fn encode(&self) -> Vec<u8> {
        let bits = (self.terms.len() * BITS_PER_TERM).next_power_of_two().clamp(64, BLOOM_BYTES_MAX * 8);
        // The number that gives the fewest false answers: bits per term * ln 2.
        let hashes = (bits * 7 / 10 / self.terms.len().max(1)).clamp(1, 8);
        let mut ranges: Vec<_> = self.ranges.iter().map(|(key, (low, high))| [*key, *low, *high]).collect();
        ranges.sort_unstable();
        let mut bytes = vec![if self.lacks_ranges { LACKS_RANGES } else { 0 }, hashes as u8];
        bytes.extend((ranges.len() as u16).to_le_bytes());
        ranges.iter().flatten().for_each(|word| bytes.extend(word.to_le_bytes()));
        let bloom = bytes.len();
        bytes.resize(bloom + bits / 8, 0);
        for term in &self.terms {
            for bit in bits_of(*term, hashes as u8, bits) {
                bytes[bloom + bit / 8] |= 1 << (bit % 8);
            }
        }
        bytes
    }

    fn add_named(&mut self, name: &str, value: RawValue<'_>, depth: usize) {
        let length = self.name.len();
        if length > 0 {
            self.name.push('.');
        }
        self.name.push_str(name);
        if depth > DEPTH_MAX || self.name.len() > NAME_BYTES_MAX {
            self.is_over = true;
        } else {
            self.add_value(property(&self.name), value, depth);
        }
        self.name.truncate(length);
    }

    fn add_value(&mut self, part: u64, value: RawValue<'_>, depth: usize) {
        self.add_term(present(part));
        match value {
            RawValue::Text(bytes) | RawValue::Bytes(bytes) => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    self.add_text(part, text);
                    if let Some(Value::Timestamp(micros) | Value::Day(micros)) = time_of(text) {
                        self.add_range(hash(TIMES, part), order_of_time(micros));
                    }
                }
            }
            RawValue::Array(_) if depth > DEPTH_MAX => self.is_over = true,
            RawValue::Array(array) => {
                array.iter().map_while(Result::ok).for_each(|element| self.add_value(part, element, depth + 1));
            }
            RawValue::Table(table) => {
                for (name, value) in table.iter().map_while(Result::ok) {
                    self.add_named(name, value, depth + 1);
                }
            }
            other => match value_seen(other) {
                Value::Timestamp(micros) => self.add_range(hash(TIMES, part), order_of_time(micros)),
                value => {
                    self.add_term(equal(part, &value));
                    if let Some(number) = number_of(&value).filter(|number| !number.is_nan()) {
                        self.add_range(hash(NUMBERS, part), order_of_number(number));
                    }
                }
            },
        }
    }

    fn add_text(&mut self, part: u64, text: &str) {
        self.add_term(equal_text(part, text));
        self.add_range(hash(TEXTS, part), order_of_text(text, 0));
    }

    fn add_term(&mut self, term: u64) {
        self.terms.insert(term);
        self.is_over |= self.terms.len() > TERMS_MAX;
        if self.is_over {
            self.terms.clear();
        }
    }

    fn add_range(&mut self, key: u64, order: u64) {
        if let Some((low, high)) = self.ranges.get_mut(&key) {
            (*low, *high) = ((*low).min(order), (*high).max(order));
        } else if self.ranges.len() < RANGES_MAX {
            self.ranges.insert(key, (order, order));
        } else {
            self.lacks_ranges = true;
        }
    }
}

impl<'a> Summary<'a> {
    /// The summary in these bytes; None when they are none.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, remaining) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let count = usize::from(u16::from_le_bytes([header[2], header[3]]));
        let (ranges, bloom) = remaining.split_at_checked(count * RANGE_BYTES)?;
        let is_filter = (bloom.len() * 8).is_power_of_two() && bloom.len() >= 8 && header[1] > 0;
        is_filter.then_some(Self { lacks_ranges: header[0] & LACKS_RANGES != 0, hashes: header[1], ranges, bloom })
    }

    /// Whether a message of the run may meet the condition.
    pub fn may_meet(&self, condition: &RunCondition) -> bool {
        match condition {
            RunCondition::Never => false,
            RunCondition::Term(term) => self.has_term(*term),
            RunCondition::Range(key, low, high) => self.meets_range(*key, *low, *high),
            RunCondition::All(parts) => parts.iter().all(|part| self.may_meet(part)),
            RunCondition::Any(parts) => parts.iter().any(|part| self.may_meet(part)),
        }
    }

    fn has_term(&self, term: u64) -> bool {
        bits_of(term, self.hashes, self.bloom.len() * 8).all(|bit| self.bloom[bit / 8] & 1 << (bit % 8) != 0)
    }

    fn meets_range(&self, key: u64, low: u64, high: u64) -> bool {
        let (words, _) = self.ranges.as_chunks::<8>();
        let (ranges, _) = words.as_chunks::<3>();
        match ranges.binary_search_by_key(&key, |range| u64::from_le_bytes(range[0])) {
            Ok(index) => {
                let [_, lowest, highest] = ranges[index].map(u64::from_le_bytes);
                low <= highest && lowest <= high
            }
            Err(_) => self.lacks_ranges,
        }
    }
}

/// The bits of a term in a filter of this size, a power of two.
fn bits_of(term: u64, hashes: u8, bits: usize) -> impl Iterator<Item = usize> {
    let (first, step) = (term as u32, (term >> 32) as u32 | 1);
    (0..u32::from(hashes)).map(move |index| first.wrapping_add(step.wrapping_mul(index)) as usize & (bits - 1))
}
