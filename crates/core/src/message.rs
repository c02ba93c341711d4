//! Messages and the values of their properties.

use std::cell::{OnceCell, RefCell};
use std::cmp::Ordering;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::allowance::{Allowance, ELEMENT_NS, SIGNATURE_NS, words_ns};
use crate::instant;
use crate::name_hash::NameHashing;
use crate::query::truth::Truth;
use crate::text::{Signature, SignatureMemo};

/// The properties of a message: name → value, in no particular order.
pub type Properties = HashMap<Box<str>, Value, NameHashing>;

/// The maximum nesting of lists and mappings in a message; deeper values are refused where messages enter.
pub const NESTING_MAX: usize = 100;

/// The value of a property.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Present in the message, but null: comparisons are unknown.
    Null,
    /// A field without a value: present, and unknown in comparisons.
    Present,
    /// True or false; not a number.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// Text, ordered by code point.
    Text(Box<str>),
    /// An instant: microseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// The midnight UTC that begins a day, in the same microseconds: a DATE literal of a query, or how a text that is a date
    /// reads. No property is one.
    Day(i64),
    /// A list: a predicate is true of it when it is true of an element.
    List(Vec<Value>),
    /// A mapping, reached by dotted names.
    Map(Properties),
}

impl Value {
    /// Compares two scalars; None for values of unlike types, NaN, and values that are no scalars. Integers and floats
    /// compare by exact value.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) | (Self::Timestamp(a) | Self::Day(a), Self::Timestamp(b) | Self::Day(b)) => {
                Some(a.cmp(b))
            }
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Int(a), Self::Float(b)) => compare_int_float(*a, *b),
            (Self::Float(a), Self::Int(b)) => compare_int_float(*b, *a).map(Ordering::reverse),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// True for an instant or a day.
    #[must_use]
    pub fn is_time(&self) -> bool {
        matches!(self, Self::Timestamp(_) | Self::Day(_))
    }

    /// The time that a text reads as: an instant, if it is an RFC 3339 date-time; a day, if it is a date. None for any other
    /// text, and for what is no text. Constant time.
    #[must_use]
    pub fn as_time(&self) -> Option<Self> {
        let Self::Text(text) = self else { return None };
        instant::instant(text).map(Self::Timestamp).or_else(|| instant::day(text).map(Self::Day))
    }

    /// The time that a text reads as beside `time`, with which it is compared: a date is a time beside a day only.
    #[must_use]
    pub fn as_time_beside(&self, time: &Self) -> Option<Self> {
        if !time.is_time() {
            return None;
        }
        self.as_time().filter(|read| read.is_comparable_beside(time))
    }

    /// True when this time, read from a text, is one beside `time`, with which it is compared.
    pub(crate) fn is_comparable_beside(&self, time: &Self) -> bool {
        !matches!((self, time), (Self::Day(_), Self::Timestamp(_)))
    }

    /// True for null and for a field without a value, which make any comparison unknown.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Null | Self::Present)
    }
}

/// Compares exactly: converting the integer to a float rounds beyond 2^53.
#[inline]
fn compare_int_float(int: i64, float: f64) -> Option<Ordering> {
    const TWO_53: u64 = 1 << 53;
    if int.unsigned_abs() <= TWO_53 { (int as f64).partial_cmp(&float) } else { compare_long_int_float(int, float) }
}

fn compare_long_int_float(int: i64, float: f64) -> Option<Ordering> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        return None;
    }
    if float >= TWO_63 {
        return Some(Ordering::Less);
    }
    if float < -TWO_63 {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "within the range of i64, checked above")]
    let order = int.cmp(&(whole as i64));
    Some(order.then_with(|| 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal)))
}

/// The body of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// There is no body: predicates on it are unknown.
    Absent,
    /// Text, or bytes that are valid UTF-8.
    Text(&'a str),
    /// Bytes that are not UTF-8: the body exists, but every predicate on its text is unknown.
    Binary(&'a [u8]),
}

impl<'a> Body<'a> {
    /// Makes a body of `bytes`: text if they are UTF-8, else [`Body::Binary`].
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        std::str::from_utf8(bytes).map_or(Self::Binary(bytes), Self::Text)
    }
}

/// A message to be matched, with borrowed parts. It also keeps what is computed at most once: the signatures of its
/// texts, and the answers of expensive predicates.
#[derive(Debug)]
pub struct Message<'a> {
    /// The topic, in dotted words; never unknown.
    pub topic: &'a str,
    /// The properties.
    pub properties: &'a Properties,
    /// The body.
    pub body: Body<'a>,
    given: Option<&'a Signature>,
    /// The signature of every word of the body.
    full: OnceCell<Signature>,
    /// The signatures of other texts; no memory before the first.
    texts: OnceCell<Box<SignatureMemo>>,
    /// The time that matching it may still take.
    allowance: Allowance,
    /// The answers of expensive predicates by their serial number; no memory before the first.
    answers: RefCell<HashMap<u64, Truth, FixedState>>,
}

impl<'a> Message<'a> {
    /// A message from its parts.
    #[must_use]
    pub fn new(topic: &'a str, properties: &'a Properties, body: Body<'a>) -> Self {
        Self {
            topic,
            properties,
            body,
            given: None,
            full: OnceCell::new(),
            texts: OnceCell::new(),
            allowance: Allowance::unlimited(),
            answers: RefCell::new(HashMap::with_hasher(FixedState::default())),
        }
    }

    /// A message from a record: its keys `topic` and `body` are the parts, unless they are given. They remain properties.
    ///
    /// Only texts are parts, and for the body what bytes without text became, [`Value::Present`]. A record without a key
    /// `body` has its body under one that differs in case only, if there is one: the PNNL paper's `Body`.
    #[must_use]
    pub fn of_record(properties: &'a Properties, topic: Option<&'a str>, body: Option<Body<'a>>) -> Self {
        let topic = topic.or_else(|| match properties.get("topic") {
            Some(Value::Text(topic)) => Some(topic),
            _ => None,
        });
        let body = body.unwrap_or_else(|| match body_of(properties) {
            Some(Value::Text(body)) => Body::Text(body),
            Some(Value::Present) => Body::Binary(&[]),
            _ => Body::Absent,
        });
        Self::new(topic.unwrap_or_default(), properties, body)
    }

    /// Adds a signature of the body that an adapter has already made.
    #[must_use]
    pub fn with_signature(mut self, signature: &'a Signature) -> Self {
        self.given = Some(signature);
        self
    }

    /// Limits the time that matching it may take.
    #[must_use]
    pub fn with_allowance(mut self, ns: u64) -> Self {
        self.allowance = Allowance::new(ns);
        self
    }

    /// The time that matching it may still take.
    #[must_use]
    #[inline]
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// The signature of `body`: the one that came with the message, else made on first use. Nobody may ask for it that has
    /// not asked [`Self::can_read_words`].
    #[must_use]
    pub fn signature(&self, body: &str) -> &Signature {
        self.given.unwrap_or_else(|| self.full_signature(body))
    }

    /// Whether the allowance covers the signature of `body`, which the first to ask pays for.
    #[must_use]
    pub fn can_read_words(&self, body: &str) -> bool {
        self.given.is_some() || self.full.get().is_some() || self.allowance.spend(body.len(), words_ns(body))
    }

    /// Call `read` with the signature of `text`, a part of this message that is not its body. The first to ask pays for it.
    /// None when the allowance does not cover it.
    pub fn with_signature_of<R>(&self, text: &str, read: impl FnOnce(&Signature) -> R) -> Option<R> {
        let can_make = || self.allowance.spend(text.len(), words_ns(text)) && self.allowance.spend(1, SIGNATURE_NS);
        self.texts.get_or_init(Box::default).with(text, can_make, read)
    }

    /// The value that a dotted name reaches, as [`lookup`] or, `any_case`, as [`lookup_any_case`]. None, too, when the
    /// allowance is over: a list of mappings takes time for each of them.
    #[must_use]
    pub fn look_up(&self, name: &str, any_case: bool) -> Option<Resolved<'a>> {
        let find = if any_case { lookup_any_case } else { lookup };
        let reached = find(self.properties, name, &self.allowance);
        reached.filter(|_| !self.allowance.is_over())
    }

    /// The signature of every word of `body`, for words that a stop list excluded from [`Self::signature`].
    #[must_use]
    pub fn full_signature(&self, body: &str) -> &Signature {
        self.full.get_or_init(|| Signature::of(body))
    }

    /// The remembered answer of the expensive predicate with this serial number, if it was called.
    pub(crate) fn remembered(&self, serial: u64) -> Option<Truth> {
        self.answers.borrow().get(&serial).copied()
    }

    /// Remembers the answer of an expensive predicate.
    pub(crate) fn remember(&self, serial: u64, truth: Truth) {
        self.answers.borrow_mut().insert(serial, truth);
    }
}

/// The value of a record that is its body: that of `body`, or of a key that differs in case only, the first in code points.
fn body_of(properties: &Properties) -> Option<&Value> {
    let is_alike = |name: &str| name.len() == 4 && name.eq_ignore_ascii_case("body");
    properties.get("body").or_else(|| {
        let alike = properties.iter().filter(|(name, _)| is_alike(name));
        alike.min_by_key(|(name, _)| &***name).map(|(_, value)| value)
    })
}

/// The maximum length of a name whose prefixes are looked up; longer names have more prefixes than most mappings keys.
const PREFIXES_TRIED_BYTES_MAX: usize = 256;

/// The value that a dotted name reaches in `properties`, or None when it is absent.
///
/// A literal dotted key wins over nesting, the longest first. Through a list of mappings, a name collects the list of
/// the values that it reaches. An empty list is absent.
#[must_use]
pub fn lookup<'a>(properties: &'a Properties, name: &str, allowance: &Allowance) -> Option<Resolved<'a>> {
    if name.len() > PREFIXES_TRIED_BYTES_MAX {
        return lookup_long(properties, name, allowance);
    }
    if let Some(value) = properties.get(name) {
        return Resolved::paid(value, allowance);
    }
    let mut end = name.len();
    while let Some(dot) = name[..end].rfind('.') {
        let through = |value| descend(value, &name[dot + 1..], lookup, allowance);
        if let Some(value) = properties.get(&name[..dot]).and_then(through) {
            return Some(value);
        }
        end = dot;
    }
    None
}

/// [`lookup`] for long names. It compares each key with the name, which is linear in the keys; hashing each prefix would
/// be quadratic in the name.
#[cold]
fn lookup_long<'a>(properties: &'a Properties, name: &str, allowance: &Allowance) -> Option<Resolved<'a>> {
    lookup_in_keys(properties, name, |key| name.starts_with(key).then_some(key.len()), lookup, allowance)
}

/// The value that `name` reaches through keys of `properties`; `fit` returns the length of the part of `name` that a key
/// matches. The longest key wins, then the first in code points.
fn lookup_in_keys<'a>(
    properties: &'a Properties,
    name: &str,
    fit: impl Fn(&str) -> Option<usize>,
    find: Lookup,
    allowance: &Allowance,
) -> Option<Resolved<'a>> {
    if !allowance.spend(properties.len(), ELEMENT_NS) {
        return None;
    }
    let is_whole_part = |length: usize| name[length..].is_empty() || name[length..].starts_with('.');
    let mut ways: Vec<(usize, &str, &Value)> = properties
        .iter()
        .filter_map(|(key, value)| Some((fit(key).filter(|length| is_whole_part(*length))?, &**key, value)))
        .collect();
    ways.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ways.dedup_by_key(|(length, ..)| *length);
    match ways.first() {
        Some((length, _, value)) if *length == name.len() => Resolved::paid(value, allowance),
        _ => ways.into_iter().find_map(|(length, _, value)| descend(value, &name[length + 1..], find, allowance)),
    }
}

/// [`lookup`] without regard to the case of letters, also in nested names; the exact name wins.
///
/// Visits the keys of each mapping on the way. Of keys that differ in case only, the first in code points is taken. Where
/// there is no `author`, it is the property `From`, as the PNNL paper calls it.
#[must_use]
pub fn lookup_any_case<'a>(properties: &'a Properties, name: &str, allowance: &Allowance) -> Option<Resolved<'a>> {
    let folded = name.to_lowercase();
    let other_name = OTHER_NAMES.iter().find(|(ours, _)| *ours == folded).map(|(_, other)| *other);
    lookup(properties, name, allowance)
        .or_else(|| lookup_folded(properties, &folded, allowance))
        .or_else(|| lookup_folded(properties, other_name?, allowance))
}

/// Names without regard to case that mean another one where there is none: ours, and that of the PNNL paper.
pub const OTHER_NAMES: [(&str, &str); 1] = [("author", "from")];

fn lookup_folded<'a>(properties: &'a Properties, folded: &str, allowance: &Allowance) -> Option<Resolved<'a>> {
    let fit = |key: &str| {
        let key = key.to_lowercase();
        folded.starts_with(&key).then_some(key.len())
    };
    lookup_in_keys(properties, folded, fit, lookup_folded, allowance)
}

/// The values that a name reaches: one value of the message, or several collected through a list.
#[derive(Clone, Debug)]
pub enum Resolved<'a> {
    /// One value that is no list.
    One(&'a Value),
    /// The elements of a list; never empty.
    Many(Vec<&'a Value>),
}

impl<'a> Resolved<'a> {
    /// The value as predicates see it; None for a list without elements.
    #[must_use]
    pub fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::List(elements) => Self::many(elements),
            scalar => Some(Self::One(scalar)),
        }
    }

    /// [`Self::of`], paid for by the number of elements.
    #[inline]
    fn paid(value: &'a Value, allowance: &Allowance) -> Option<Self> {
        match value {
            Value::List(elements) if !allowance.spend(elements.len(), ELEMENT_NS) => None,
            value => Self::of(value),
        }
    }

    fn many(elements: &'a [Value]) -> Option<Self> {
        let mut flat = Vec::with_capacity(elements.len());
        flatten(elements, &mut flat);
        (!flat.is_empty()).then_some(Self::Many(flat))
    }
}

fn flatten<'a>(elements: &'a [Value], flat: &mut Vec<&'a Value>) {
    for element in elements {
        match element {
            Value::List(inner) => flatten(inner, flat),
            scalar => flat.push(scalar),
        }
    }
}

/// A function that looks up a name in a mapping.
type Lookup = for<'a> fn(&'a Properties, &str, &Allowance) -> Option<Resolved<'a>>;

fn descend<'a>(value: &'a Value, name: &str, find: Lookup, allowance: &Allowance) -> Option<Resolved<'a>> {
    match value {
        Value::Map(inner) => find(inner, name, allowance),
        Value::List(elements) if !allowance.spend(elements.len(), 2 * ELEMENT_NS) => None,
        Value::List(elements) => {
            let mut flat = Vec::new();
            for element in elements {
                match descend(element, name, find, allowance) {
                    Some(Resolved::One(value)) => flat.push(value),
                    Some(Resolved::Many(values)) => flat.extend(values),
                    None => {}
                }
            }
            (!flat.is_empty()).then_some(Resolved::Many(flat))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rounds;

    #[test]
    fn integers_and_floats_compare_by_exact_value() {
        let big = (1_i64 << 53) + 1;
        assert_eq!(Value::Int(big).compare(&Value::Float(9_007_199_254_740_992.0)), Some(Ordering::Greater));
        assert_eq!(Value::Int(i64::MAX).compare(&Value::Float(9_223_372_036_854_775_808.0)), Some(Ordering::Less));
        assert_eq!(Value::Float(-0.5).compare(&Value::Int(0)), Some(Ordering::Less));
        assert_eq!(Value::Float(-1.5).compare(&Value::Int(-1)), Some(Ordering::Less));
        assert_eq!(Value::Int(1).compare(&Value::Float(f64::NAN)), None);
        assert_eq!(Value::Int(1).compare(&Value::Bool(true)), None);
    }

    /// Mappings in mappings whose keys are `letter` once or more, with dots between, so that many prefixes lead somewhere.
    fn nested(letter: &str, state: &mut u64, depth: usize) -> Value {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = *state >> 33;
        if depth == 0 || drawn.is_multiple_of(5) {
            return Value::Int(i64::try_from(drawn).unwrap_or_default());
        }
        let mut inner = || nested(letter, state, depth - 1);
        if drawn.is_multiple_of(7) {
            return Value::List(vec![inner(), inner()]);
        }
        Value::Map((1..=drawn % 4).map(|parts| (dotted(letter, parts).into(), inner())).collect())
    }

    fn dotted(letter: &str, parts: u64) -> String {
        (0..parts).map(|_| letter).collect::<Vec<_>>().join(".")
    }

    /// The integers that are reached; None for a mapping.
    fn integers(values: Option<Resolved<'_>>) -> Option<Vec<Option<i64>>> {
        let integer = |value: &Value| if let Value::Int(integer) = value { Some(*integer) } else { None };
        Some(match values? {
            Resolved::One(value) => vec![integer(value)],
            Resolved::Many(values) => values.into_iter().map(integer).collect(),
        })
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn a_long_name_reaches_what_a_short_one_of_the_same_shape_does() {
        let long = "x".repeat(PREFIXES_TRIED_BYTES_MAX + 1);
        let (mut reached, free) = (0, Allowance::unlimited());
        for seed in rounds(0..300) {
            let [short, long] = ["x", long.as_str()].map(|letter| {
                let properties: Properties = (1..3)
                    .map(|parts| (dotted(letter, parts).into(), nested(letter, &mut (seed + parts), 5)))
                    .collect();
                let each = (1..12).map(|parts| {
                    let name = dotted(letter, parts);
                    let values = integers(lookup(&properties, &name, &free));
                    assert_eq!(integers(lookup_any_case(&properties, &name.to_uppercase(), &free)), values);
                    values
                });
                each.collect::<Vec<_>>()
            });
            reached += short.iter().flatten().count();
            assert_eq!(short, long);
        }
        assert!(reached > 600 || cfg!(miri));
    }

    #[test]
    fn names_without_regard_to_case_reach_into_mappings() {
        let free = Allowance::unlimited();
        let inner: Properties = [("Name".into(), Value::Int(1))].into_iter().collect();
        let message: Properties =
            [("Author".into(), Value::List(vec![Value::Map(inner)])), ("x".into(), Value::Int(2))]
                .into_iter()
                .collect();
        assert!(
            matches!(lookup_any_case(&message, "author.name", &free), Some(Resolved::Many(values)) if values == [&Value::Int(1)])
        );
        assert!(matches!(lookup_any_case(&message, "x", &free), Some(Resolved::One(Value::Int(2)))));
        assert!(lookup_any_case(&message, "author.other", &free).is_none());
    }
}
