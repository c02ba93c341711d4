//! What occurs in the headers of a run of messages, in a few kilobytes, so that a reader's query can pass over the run.
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
use crate::index::hash::hash_bytes;
use crate::message::Value;
use crate::query::implication::{Necessity, Part, Sought};

use crate::broker::streams::stream_record::StreamRecord;
use crate::broker::topology::value_seen;

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

/// The kinds of terms and ranges: seeds of their hashes, which are on disk.
const TOPIC: u64 = 1;
const PROPERTY: u64 = 2;
const PRESENT: u64 = 3;
const TEXT: u64 = 4;
const NUMBER: u64 = 5;
const BOOL: u64 = 6;
const NUMBERS: u64 = 7;
const TIMES: u64 = 8;
const TEXTS: u64 = 9;

/// What is gathered of the messages of a run.
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

/// What a run must have to be read.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// No message satisfies the query.
    Never,
    /// This term.
    Term(u64),
    /// Something in this range.
    Range(u64, u64, u64),
    /// All of these.
    All(Vec<Self>),
    /// One of these.
    Any(Vec<Self>),
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
            for bit in places(*term, hashes as u8, bits) {
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
                        self.add_range(hash(TIMES, part), place_of_time(micros));
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
                Value::Timestamp(micros) => self.add_range(hash(TIMES, part), place_of_time(micros)),
                value => {
                    self.add_term(equal(part, &value));
                    if let Some(number) = number_of(&value).filter(|number| !number.is_nan()) {
                        self.add_range(hash(NUMBERS, part), place_of_number(number));
                    }
                }
            },
        }
    }

    fn add_text(&mut self, part: u64, text: &str) {
        self.add_term(equal_text(part, text));
        self.add_range(hash(TEXTS, part), place_of_text(text, 0));
    }

    fn add_term(&mut self, term: u64) {
        self.terms.insert(term);
        self.is_over |= self.terms.len() > TERMS_MAX;
        if self.is_over {
            self.terms.clear();
        }
    }

    fn add_range(&mut self, key: u64, place: u64) {
        if let Some((low, high)) = self.ranges.get_mut(&key) {
            (*low, *high) = ((*low).min(place), (*high).max(place));
        } else if self.ranges.len() < RANGES_MAX {
            self.ranges.insert(key, (place, place));
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
    pub fn may_meet(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Never => false,
            Condition::Term(term) => self.has_term(*term),
            Condition::Range(key, low, high) => self.meets_range(*key, *low, *high),
            Condition::All(parts) => parts.iter().all(|part| self.may_meet(part)),
            Condition::Any(parts) => parts.iter().any(|part| self.may_meet(part)),
        }
    }

    fn has_term(&self, term: u64) -> bool {
        places(term, self.hashes, self.bloom.len() * 8).all(|bit| self.bloom[bit / 8] & 1 << (bit % 8) != 0)
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

impl Condition {
    /// What a run must have for a query to be true of one of its messages; None when any run may do.
    pub fn of(necessity: &Necessity) -> Option<Self> {
        Some(match necessity {
            Necessity::Nothing => return None,
            Necessity::Impossible => Self::Never,
            // Such names are internal: they are not those of headers.
            Necessity::Has(Part::Property(name), _) if name.starts_with('\0') => return None,
            Necessity::Has(part, sought) => {
                let part = match part {
                    Part::Topic => topic(),
                    Part::Property(name) => property(name),
                };
                match sought {
                    Sought::Any => Self::Term(present(part)),
                    Sought::Value(Value::Text(text)) => Self::Term(equal_text(part, text)),
                    Sought::Value(value) => Self::Term(equal(part, value)),
                    Sought::Number(low, high) => {
                        Self::Range(hash(NUMBERS, part), place_of_number(*low), place_of_number(*high))
                    }
                    Sought::Time(low, high) => {
                        Self::Range(hash(TIMES, part), place_of_time(*low), place_of_time(*high))
                    }
                    Sought::Beginning(text) => {
                        Self::Range(hash(TEXTS, part), place_of_text(text, 0), place_of_text(text, u8::MAX))
                    }
                }
            }
            Necessity::All(parts) => {
                let mut parts: Vec<Self> = parts.iter().filter_map(Self::of).collect();
                match parts.len() {
                    0 => return None,
                    1 => parts.remove(0),
                    _ => Self::All(parts),
                }
            }
            Necessity::Any(parts) => Self::Any(parts.iter().map(Self::of).collect::<Option<_>>()?),
        })
    }
}

/// The bits of a term in a filter of this size, a power of two.
fn places(term: u64, hashes: u8, bits: usize) -> impl Iterator<Item = usize> {
    let (first, step) = (term as u32, (term >> 32) as u32 | 1);
    (0..u32::from(hashes)).map(move |index| first.wrapping_add(step.wrapping_mul(index)) as usize & (bits - 1))
}

fn hash(kind: u64, part: u64) -> u64 {
    hash_bytes(kind, &part.to_le_bytes())
}

fn topic() -> u64 {
    hash_bytes(TOPIC, b"")
}

fn property(name: &str) -> u64 {
    hash_bytes(PROPERTY, name.as_bytes())
}

fn present(part: u64) -> u64 {
    hash(PRESENT, part)
}

fn equal_text(part: u64, text: &str) -> u64 {
    hash(part, hash_bytes(TEXT, text.as_bytes()))
}

/// The term of a number or Boolean; of any other value, which equals nothing, one that nobody seeks.
fn equal(part: u64, value: &Value) -> u64 {
    match (value, number_of(value)) {
        (Value::Bool(truth), _) => hash(part, hash(BOOL, u64::from(*truth))),
        (_, Some(number)) => hash(part, hash(NUMBER, (number + 0.0).to_bits())), // -0.0 + 0.0 is 0.0
        _ => present(part),
    }
}

/// A number as the nearest float: equal numbers have the same one.
fn number_of(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "rounding keeps the order of numbers")]
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

fn time_of(text: &str) -> Option<Value> {
    // A quick look that tells most texts from times.
    if !matches!(text.as_bytes(), [b'0'..=b'9', _, _, _, b'-', _, _, b'-', _, _, ..]) {
        return None;
    }
    crate::instant::instant(text).map(Value::Timestamp).or_else(|| crate::instant::day(text).map(Value::Day))
}

/// The place of a number among all numbers.
fn place_of_number(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn place_of_time(micros: i64) -> u64 {
    micros.cast_unsigned() ^ 1 << 63
}

/// The place of a text among all texts: its first eight bytes, with `rest` for those that it lacks.
fn place_of_text(text: &str, rest: u8) -> u64 {
    let mut bytes = [rest; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::{FieldValue, PropertyFields, Table};
    use crate::broker::topology::{ConsumerFilter, StoredQuery, View, ViewScratch};
    use crate::hierarchy::{Hierarchies, Hierarchy};
    use crate::testing::{Random, fewer};

    /// A message as it was published: routing key, properties, body.
    type Published = (String, Vec<u8>, Vec<u8>);

    const TIMES: [&str; 4] =
        ["2002-08-22", "2002-08-22T00:00:00Z", "2002-08-22T18:26:25Z", "2002-08-22T20:26:25+02:00"];

    impl Random {
        fn header_value(&mut self, depth: usize) -> FieldValue {
            let text = |text: &str| FieldValue::Text(text.as_bytes().into());
            match self.below(18) {
                0..3 => FieldValue::I32(self.below(5) as i32 - 1),
                3 => FieldValue::F64(self.pick(&[-0.0, 1.0, 2.5, 3.0, f64::NAN, f64::INFINITY, 9e15])),
                4..7 => text(self.pick(&["x", "xy", "xylophone 1", "xylophone 2", "y", "", "3", "\u{e9}"])),
                7 => text(self.pick(&TIMES)),
                8 => FieldValue::Timestamp(1_029_974_400 + self.below(2) as u64 * 66_385),
                9 => FieldValue::Bool(self.one_in(2)),
                10 => FieldValue::Void,
                11 => FieldValue::Text(Box::from(&b"\xff"[..])),
                12 => FieldValue::I64(self.pick(&[i64::MAX, i64::MIN, (1 << 53) + 1, 3])),
                13 => FieldValue::Decimal { scale: 1, unscaled: 25 },
                14 if depth > 0 => {
                    FieldValue::Array((0..self.below(3)).map(|_| self.header_value(depth - 1)).collect())
                }
                15 if depth > 0 => FieldValue::Table(self.header_table(depth - 1)),
                _ => FieldValue::Bytes(Box::from(&b"xy"[..])),
            }
        }

        fn header_table(&mut self, depth: usize) -> Table {
            let names = ["a", "b", "b.c", "c", "priority", "user_id", "A", "body", "timestamp"];
            (0..self.below(4)).map(|_| (self.pick(&names), self.header_value(depth))).collect()
        }

        fn published(&mut self) -> Published {
            let headers = self.header_table(2).to_bytes();
            let fields = PropertyFields {
                headers: (!self.one_in(5)).then_some(RawTable::new(&headers)),
                priority: self.one_in(4).then_some(3),
                app_id: self.one_in(4).then_some("xy"),
                timestamp: self.one_in(4).then_some(1_029_974_400),
                ..PropertyFields::default()
            };
            let mut properties = Vec::new();
            fields.encode(&mut properties);
            let key = self.pick(&["a", "a.b", "a.b.c", "b.a", "", "eu.xylophone.1"]);
            (key.to_owned(), properties, self.pick(&[&br#"{"a": 1, "c": "xy"}"#[..], b"xy", b""]).to_vec())
        }

        fn asked(&mut self, depth: usize) -> String {
            match self.below(if depth == 0 { 1 } else { 4 }) {
                0 => self.predicate_of_part(),
                1 => format!("({} AND {})", self.asked(depth - 1), self.asked(depth - 1)),
                2 => format!("({} OR {})", self.asked(depth - 1), self.asked(depth - 1)),
                _ => format!("NOT ({})", self.asked(depth - 1)),
            }
        }

        fn predicate_of_part(&mut self) -> String {
            let name = self.pick(&["a", "b", "b.c", "c", "a.b", "b.a", "priority", "app_id", "timestamp", "user_id"]);
            let of = self.pick(&[name, name, name, "topic", "body.a", "body"]);
            let constant = |random: &mut Self| match random.below(9) {
                0..3 => random.pick(&["0", "1", "2.5", "3", "-1", "9007199254740993"]).to_owned(),
                3..6 => random.pick(&["'x'", "'xy'", "'xylophone 2'", "'a.b'", "'3'", "''"]).to_owned(),
                6 => format!("TIMESTAMP '{}'", random.pick(&TIMES[1..3])),
                7 => "DATE '2002-08-22'".to_owned(),
                _ => format!("'{}'", random.pick(&TIMES)),
            };
            let op = self.pick(&["=", "=", "<>", "<", "<=", ">", ">="]);
            match self.below(14) {
                0..4 => format!("{of} {op} {}", constant(self)),
                4 => format!("{} {op} {name}", constant(self)),
                5 => format!("{of} BETWEEN {} AND {}", constant(self), constant(self)),
                6 => format!("{of} IN ({}, {})", constant(self), constant(self)),
                7 => format!("{of} LIKE '{}'", self.pick(&["x%", "xylophone %", "%y", "x_", "xy", "a.%", "2002%"])),
                8 => format!("PREFIX({of}, '{}')", self.pick(&["x", "xylophone 2", "", "a.b"])),
                9 => format!("TOPIC('{}')", self.pick(&["a.#", "a.b", "*.b", "#", "eu.xylophone.*", "b.*"])),
                10 => format!("{of} IS {}NULL", self.pick(&["", "NOT "])),
                11 => format!("EXISTS({name})"),
                12 => self
                    .pick(&["a = b", "a + 1 > b", "-a < 2", "a UNDER 'x'", "b.c", "CONTAINS(a, 'xylophone')"])
                    .into(),
                _ => format!("REGEX({of}, '{}')", self.pick(&["x.*", "[0-9]+"])),
            }
        }
    }

    fn filter(query: &str, language: &str, hierarchies: &Hierarchies) -> Option<ConsumerFilter> {
        let text = |text: &str| FieldValue::Text(text.as_bytes().into());
        let arguments =
            [("x-query", text(query)), ("x-query-body", text("json")), ("x-query-language", text(language))];
        let bytes = arguments.into_iter().collect::<Table>().to_bytes();
        let find = &mut |_: &str| -> Result<StoredQuery, String> { Err("none".to_owned()) };
        ConsumerFilter::parse(RawTable::new(&bytes), find, hierarchies).ok()?
    }

    fn record(message: &Published) -> StreamRecord<'_> {
        let (routing_key, properties, body) = message;
        let properties = BasicProperties::parse(properties).expect("properties");
        StreamRecord { exchange: "", routing_key, properties, body }
    }

    /// The counts of rounds that no message satisfies, and of those among them that are passed over; an error where a round
    /// is passed over that a message satisfies. The last message is not in the summary where `lacks_one`.
    fn compare(seed: u64, lacks_one: bool) -> Result<(usize, usize), String> {
        let hierarchies: Hierarchies = [("a".to_owned(), Hierarchy::default())].into_iter().collect();
        let mut random = Random(seed);
        let (mut unsatisfied, mut skipped) = (0, 0);
        let mut builder = SummaryBuilder::default();
        for _ in 0..fewer(300) {
            let messages: Vec<Published> = (0..=random.below(3)).map(|_| random.published()).collect();
            messages[usize::from(lacks_one)..].iter().for_each(|message| builder.add(&record(message)));
            let bytes = builder.take().expect("a small run");
            let summary = Summary::decode(&bytes).expect("a summary");
            for _ in 0..10 {
                let language = random.pick(&["selector", "selector", "selector", "cbm"]);
                let text = random.asked(2);
                let Some(filter) = filter(&text, language, &hierarchies) else { continue };
                let condition = Condition::of(&filter.query().necessity());
                let is_read = condition.is_none_or(|condition| summary.may_meet(&condition));
                let satisfies = |message: &&Published| {
                    let record = record(message);
                    let mut room = ViewScratch::default();
                    let mut view = View::new(&mut room, record.properties, record.body);
                    filter.is_match(record.routing_key, &mut view, &hierarchies)
                };
                match messages.iter().find(satisfies) {
                    Some(message) if !is_read => return Err(format!("{text} is true of {message:?}")),
                    Some(_) => {}
                    None => (unsatisfied, skipped) = (unsatisfied + 1, skipped + usize::from(!is_read)),
                }
            }
        }
        Ok((unsatisfied, skipped))
    }

    #[test]
    fn what_is_passed_over_satisfies_no_query() {
        let (mut unsatisfied, mut skipped) = (0, 0);
        for seed in 1..=fewer(60) as u64 {
            let counts = compare(seed, false).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
            (unsatisfied, skipped) = (unsatisfied + counts.0, skipped + counts.1);
        }
        assert!(skipped > unsatisfied / 3, "{skipped} of {unsatisfied} are passed over");
    }

    #[test]
    #[cfg_attr(miri, ignore = "a control of another test's answers")]
    fn a_summary_that_lacks_a_message_is_caught() {
        assert!((1..20).any(|seed| compare(seed, true).is_err()));
    }

    #[test]
    fn a_run_with_more_than_a_summary_holds_is_read() {
        let with = |headers: Table| {
            let headers = headers.to_bytes();
            let mut properties = Vec::new();
            PropertyFields { headers: Some(RawTable::new(&headers)), ..Default::default() }.encode(&mut properties);
            (String::new(), properties, Vec::new())
        };
        let mut builder = SummaryBuilder::default();
        let long = "n".repeat(200);
        let mut deep = FieldValue::I32(1);
        for _ in 0..5 {
            deep = FieldValue::Table([(&*long, deep)].into_iter().collect());
        }
        builder.add(&record(&with([("a", deep)].into_iter().collect())));
        assert!(builder.take().is_none(), "a long name");
        let names: Vec<String> = (0..2 * RANGES_MAX).map(|number| format!("n{number}")).collect();
        builder.add(&record(&with(names.iter().map(|name| (&**name, FieldValue::I32(5))).collect())));
        let bytes = builder.take().expect("a summary");
        let summary = Summary::decode(&bytes).expect("a summary");
        let hierarchies = Hierarchies::default();
        for name in &names {
            let query = filter(&format!("{name} > 4"), "selector", &hierarchies).expect("a query");
            assert!(summary.may_meet(&Condition::of(&query.query().necessity()).expect("a condition")), "{name}");
        }
        for length in 0..bytes.len() {
            _ = Summary::decode(&bytes[..length]); // and does not panic
        }
        for number in 0..=TERMS_MAX as i32 {
            builder.add(&record(&with([("a", FieldValue::I32(number))].into_iter().collect())));
        }
        assert!(builder.take().is_none(), "too many values");
    }

    #[test]
    fn the_terms_are_part_of_the_file_format() {
        let number = Value::Int(3);
        assert_eq!(equal(property("a"), &number), equal(property("a"), &Value::Float(3.0)));
        let terms = [equal_text(property("a"), "x"), equal(property("a"), &number)];
        assert_eq!(terms, [16_146_822_591_886_710_497, 3_631_376_366_907_445_538]);
        let in_order = [f64::NEG_INFINITY, -2.0, -0.0, 1e-300, 1.0, f64::INFINITY].map(place_of_number);
        assert!(in_order.is_sorted() && place_of_number(-0.0) == place_of_number(0.0));
        assert!([i64::MIN, -1, 0, i64::MAX].map(place_of_time).is_sorted());
    }
}
