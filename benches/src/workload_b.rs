//! Workload B: filters and messages with the proportions that the ITMO paper prints.
//!
//! | the paper | here |
//! |---|---|
//! | "most objects do not pass the deleted filter" | half of all messages are deleted, or nine tenths |
//! | "50 % of all objects do not pass the CFI filter" | two of four codes |
//! | "30 % are in the group" | two of six groups, each with 15 % of the messages |
//! | "30 % are traded" | `tradingEnabled` is true of 30 % |
//! | "no more than 100 starting predicates" | `deleted = FALSE`, and 99 values of other attributes |
//! | "dynamic groupings" | `group UNDER ..`: a tree of groups, of which two leaves change places at every change |
//! | predicates of "10 to 500 nanoseconds" | 10 % of the filters, one of [`EXPENSIVE_COUNT`] each, log-uniform in cost |
//! | at best 10 % of the messages need complex conditions | those that are not deleted, where nine tenths are |
//! | parameters and instruments are two messages | a fifth of the messages have other attributes |
//!
//! The paper does not say how many filters name an identifier, nor what makes its filters differ ("a complex
//! criterion"): here 40 % name a symbol, and all have a price band of their own. Without groupings and expensive
//! predicates the same filters are a workload in the neutral format, for algorithms that have neither.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value as Json, json};
use tamis_core::expensive::{InjectedCost, Opaque};
use tamis_core::hierarchy::Hierarchy;
use tamis_core::message::{Message, Value};
use tamis_core::query::Query;
use tamis_core::query::expr::{Expr, Predicate};
use tamis_core::query::selector::{self, SelectorDialect};

use crate::boolean::workload::{Workload, selector_text};
use crate::random::SplitMix64;

/// How many expensive predicates there are: filters share them, as traders share their strategies' tests.
pub const EXPENSIVE_COUNT: usize = 200;
/// The paper: 10,000 messages a minute; the groupings change ten times a second.
pub const MESSAGES_PER_CHANGE: usize = 17;

const SYMBOLS: usize = 20_000;
const CFI: [&str; 4] = ["OXXXX", "FXXXX", "EXXXX", "DXXXX"];
const GROUPS: [&str; 6] = ["American", "European", "Bermudan", "Asian", "Barrier", "Digital"];
const LEAVES: usize = 20;
const LEAVES_PER_GROUP: usize = 3;
/// Attributes whose values are starting predicates, and how many values each has: 99 in all.
const STARTS: [(&str, usize); 5] = [("exchange", 50), ("currency", 30), ("sector", 12), ("status", 5), ("source", 2)];

/// Filters, messages, and the tree of groups.
#[derive(Debug)]
pub struct WorkloadB {
    filters: Vec<WorkloadBFilter>,
    messages: Vec<Json>,
    /// By group: its leaves.
    groups: [[usize; LEAVES_PER_GROUP]; GROUPS.len()],
}

/// One filter: all of `before`, then one of two groups, then all of `after`, then an expensive predicate.
#[derive(Debug)]
struct WorkloadBFilter {
    before: Vec<Json>,
    groups: Option<[usize; 2]>,
    after: Vec<Json>,
    expensive: Option<usize>,
}

impl WorkloadB {
    /// The number of filters, and of messages, of which half are deleted.
    #[must_use]
    pub fn new(filters: usize, messages: usize, seed: u64) -> Self {
        Self::with_deleted(filters, messages, seed, 50)
    }

    /// The same with another share of deleted messages.
    #[must_use]
    pub fn with_deleted(filters: usize, messages: usize, seed: u64, deleted_percent: usize) -> Self {
        let mut random = SplitMix64::new(seed);
        let messages = (0..messages).map(|_| message(&mut random, deleted_percent)).collect();
        let filters = (0..filters).map(|_| filter(&mut random)).collect();
        let groups = std::array::from_fn(|group| std::array::from_fn(|leaf| group * LEAVES_PER_GROUP + leaf));
        Self { filters, messages, groups }
    }

    /// The queries, as selector text with what no text can say: their expensive predicates.
    #[must_use]
    pub fn queries(&self, expensive: &ExpensivePredicates) -> Vec<Arc<Query>> {
        self.filters.iter().map(|filter| Arc::new(filter.query(expensive))).collect()
    }

    /// The messages.
    ///
    /// # Panics
    /// Never: they are flat.
    #[must_use]
    pub fn messages(&self) -> Vec<tamis_core::message::Properties> {
        let read = Workload::from_json(&schema(), &[], &self.messages).expect("as the format wants it");
        read.messages.into_iter().map(|message| message.properties).collect()
    }

    /// The tree of groups as it is now.
    ///
    /// # Panics
    /// Never: the tree has two levels.
    #[must_use]
    pub fn hierarchy(&self) -> Hierarchy {
        let mut parents: HashMap<String, Option<String>> = (0..LEAVES).map(|number| (leaf(number), None)).collect();
        for (name, leaves) in GROUPS.iter().zip(&self.groups) {
            parents.insert((*name).to_owned(), None);
            parents.extend(leaves.iter().map(|number| (leaf(*number), Some((*name).to_owned()))));
        }
        Hierarchy::new(parents).expect("two levels, all declared")
    }

    /// Let a leaf of one group and a leaf of another change places.
    pub fn change_hierarchy(&mut self, random: &mut SplitMix64) {
        let (first, step) = (random.below(GROUPS.len()), 1 + random.below(GROUPS.len() - 1));
        let second = (first + step) % GROUPS.len();
        let place = random.below(LEAVES_PER_GROUP);
        let leaf = self.groups[first][place];
        self.groups[first][place] = std::mem::replace(&mut self.groups[second][place], leaf);
    }

    /// The same in the neutral format: each group is a list of its leaves, and expensive predicates are left out.
    ///
    /// # Panics
    /// Never: it is written as the format wants it.
    #[must_use]
    pub fn neutral(&self) -> Workload {
        self.neutral_with(|pair| pair.iter().flat_map(|group| self.groups[*group]).map(leaf).collect())
    }

    /// The same with the groups' names in the filters, for matchers that look up the group of a message's leaf.
    ///
    /// # Panics
    /// Never: it is written as the format wants it.
    #[must_use]
    pub fn neutral_with_groups(&self) -> Workload {
        self.neutral_with(|pair| pair.iter().map(|group| GROUPS[*group].to_owned()).collect())
    }

    fn neutral_with(&self, wanted: impl Fn([usize; 2]) -> Vec<String>) -> Workload {
        let filters: Vec<Json> = self.filters.iter().map(|filter| json!({"f": filter.neutral(&wanted)})).collect();
        Workload::from_json(&schema(), &filters, &self.messages).expect("as the format wants it")
    }

    /// Each leaf that is in a group, and the group's name, as they are now.
    pub fn leaves(&self) -> impl Iterator<Item = (String, &'static str)> {
        let of_group =
            |(name, leaves): (&'static str, &[usize; LEAVES_PER_GROUP])| leaves.map(|number| (leaf(number), name));
        GROUPS.into_iter().zip(&self.groups).flat_map(of_group)
    }

    /// By filter: its expensive predicate, if it has one.
    #[must_use]
    pub fn expensive_of_filters(&self, expensive: &ExpensivePredicates) -> Vec<Option<Expr>> {
        let expr = |number: usize| Predicate::Opaque(expensive.predicates[number].clone()).into();
        self.filters.iter().map(|filter| filter.expensive.map(expr)).collect()
    }
}

impl WorkloadBFilter {
    fn query(&self, expensive: &ExpensivePredicates) -> Query {
        let mut parts: Vec<String> = self.before.iter().map(selector_text).collect();
        if let Some(groups) = self.groups {
            let [first, second] = groups.map(|group| GROUPS[group]);
            parts.push(format!("(group UNDER '{first}' OR group UNDER '{second}')"));
        }
        parts.extend(self.after.iter().map(selector_text));
        let query = selector::parse(&parts.join(" AND "), SelectorDialect::Jms).expect("a selector that we wrote");
        let Some(number) = self.expensive else { return query };
        let last = Predicate::Opaque(expensive.predicates[number].clone());
        Query::new(Expr::and(vec![query.expr().clone(), last.into()])).expect("a short query")
    }

    fn neutral(&self, wanted: impl Fn([usize; 2]) -> Vec<String>) -> Json {
        let mut parts = vec![json!("and")];
        parts.extend(self.before.iter().cloned());
        if let Some(pair) = self.groups {
            parts.push(json!(["in", "group", wanted(pair)]));
        }
        parts.extend(self.after.iter().cloned());
        Json::Array(parts)
    }
}

/// The expensive predicates, and whether any was asked where `deleted` had decided.
#[derive(Debug)]
pub struct ExpensivePredicates {
    predicates: Vec<Opaque>,
    asked_when_deleted: Arc<AtomicU64>,
}

impl ExpensivePredicates {
    /// Each costs 10 to 500 ns and is true of one message in ten.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let asked_when_deleted = Arc::new(AtomicU64::new(0));
        let mut random = SplitMix64::new(seed);
        let predicates = (0..EXPENSIVE_COUNT).map(|number| {
            let (cost_ns, asked) = (10.0 * 50_f64.powf(random.unit()), Arc::clone(&asked_when_deleted));
            Opaque::new(InjectedCost::new(&format!("expensive{number}"), cost_ns, move |message: &Message<'_>| {
                if message.properties.get("deleted") == Some(&Value::Bool(true)) {
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                match message.properties.get("price") {
                    Some(Value::Int(price)) => Some((price + number as i64) % 10 == 0),
                    _ => None,
                }
            }))
        });
        Self { predicates: predicates.collect(), asked_when_deleted }
    }

    /// How often they have been asked; a remembered answer is not asked for.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.predicates.iter().map(|predicate| predicate.counts().calls).sum()
    }

    /// How often of a message that was deleted: every filter with an expensive predicate wants messages that are not, so
    /// each of these calls would have been for nothing.
    #[must_use]
    pub fn calls_when_deleted(&self) -> u64 {
        self.asked_when_deleted.load(Ordering::Relaxed)
    }
}

fn filter(random: &mut SplitMix64) -> WorkloadBFilter {
    let kind = random.below(100);
    let expensive = random.percent(10).then(|| random.below(EXPENSIVE_COUNT));
    let not_deleted = json!(["eq", "deleted", false]);
    let mut before = Vec::new();
    if kind < 5 {
        before.extend([not_deleted, json!(["eq", "riskGroup", format!("R{:02}", random.below(25))])]);
        let after = vec![json!(["gt", "marginPct", random.below(100)])];
        return WorkloadBFilter { before, groups: None, after, expensive };
    }
    if kind < 45 {
        before.push(json!(["eq", "symbol", symbol(random)]));
        if expensive.is_some() || random.percent(50) {
            before.push(not_deleted);
        }
        return WorkloadBFilter { before, groups: None, after: vec![price_band(random, 4)], expensive };
    }
    if kind >= 78 {
        let (name, values) = start(random);
        before.push(json!(["eq", name, values]));
    }
    before.push(not_deleted);
    let [first, second] = two_of(CFI.len(), random).map(|code| json!(["eq", "cfi", CFI[code]]));
    before.push(json!(["or", first, second]));
    let groups = Some(two_of(GROUPS.len(), random));
    let after = vec![json!(["eq", "tradingEnabled", true]), price_band(random, 20)];
    WorkloadBFilter { before, groups, after, expensive }
}

/// One of the 99 starting predicates that are not `deleted = FALSE`.
fn start(random: &mut SplitMix64) -> (&'static str, String) {
    let mut number = random.below(STARTS.iter().map(|(_, values)| values).sum());
    for (name, values) in STARTS {
        if number < values {
            return (name, format!("{name}{number:02}"));
        }
        number -= values;
    }
    unreachable!("the number is below the sum")
}

/// One in `parts` of the prices, which are uniform in their logarithm.
fn price_band(random: &mut SplitMix64, parts: usize) -> Json {
    let low = random.unit() * (1.0 - 1.0 / parts as f64);
    json!(["between", "price", price(low), price(low + 1.0 / parts as f64)])
}

/// From 10 to 1,000,000.
fn price(unit: f64) -> i64 {
    (10.0 * 100_000_f64.powf(unit)) as i64
}

fn two_of(count: usize, random: &mut SplitMix64) -> [usize; 2] {
    let first = random.below(count);
    [first, (first + 1 + random.below(count - 1)) % count]
}

fn symbol(random: &mut SplitMix64) -> String {
    let skewed = random.unit() * random.unit(); // some are traded, and asked for, more often
    format!("S{:05}", (skewed * SYMBOLS as f64) as usize)
}

fn leaf(number: usize) -> String {
    format!("leaf{number:02}")
}

fn message(random: &mut SplitMix64, deleted_percent: usize) -> Json {
    let mut message = Map::new();
    message.insert("symbol".into(), json!(symbol(random)));
    message.insert("deleted".into(), json!(random.percent(deleted_percent)));
    message.insert("tradingEnabled".into(), json!(random.percent(30)));
    if random.percent(20) {
        message.insert("riskGroup".into(), json!(format!("R{:02}", random.below(25))));
        message.insert("marginPct".into(), json!(random.below(100)));
        return Json::Object(message);
    }
    message.insert("cfi".into(), json!(random.pick(&CFI)));
    message.insert("group".into(), json!(leaf(random.below(LEAVES))));
    message.insert("price".into(), json!(price(random.unit())));
    for (name, values) in STARTS {
        message.insert(name.into(), json!(format!("{name}{:02}", random.below(values))));
    }
    Json::Object(message)
}

fn schema() -> Json {
    let mut schema = json!({
        "symbol": {"type": "str", "card": SYMBOLS}, "deleted": {"type": "bool"}, "tradingEnabled": {"type": "bool"},
        "cfi": {"type": "str", "card": CFI.len()}, "group": {"type": "str", "card": LEAVES}, "price": {"type": "int"},
        "riskGroup": {"type": "str", "card": 25}, "marginPct": {"type": "int"},
    });
    for (name, values) in STARTS {
        schema[name] = json!({"type": "str", "card": values});
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(messages: &[Json], is_true: impl Fn(&Json) -> bool) -> f64 {
        messages.iter().filter(|message| is_true(message)).count() as f64 / messages.len() as f64
    }

    #[test]
    fn the_selectivities_are_those_of_the_paper() {
        let workload = WorkloadB::new(2_000, 5_000, 1);
        let near = |share: f64, wanted: f64| assert!((share - wanted).abs() < 0.03, "{share} is not {wanted}");
        near(share(&workload.messages, |message| message["deleted"] == true), 0.5);
        near(share(&workload.messages, |message| message["tradingEnabled"] == true), 0.3);
        let instruments: Vec<Json> = workload.messages.iter().filter(|m| m.get("cfi").is_some()).cloned().collect();
        near(share(&instruments, |message| message["cfi"] == "OXXXX" || message["cfi"] == "FXXXX"), 0.5);
        let hierarchy = workload.hierarchy();
        let is_in = |message: &Json, group| hierarchy.is_under(message["group"].as_str().unwrap_or(""), group);
        near(share(&instruments, |message| is_in(message, "American") || is_in(message, "European")), 0.3);
        let most = WorkloadB::with_deleted(0, 5_000, 1, 90);
        near(share(&most.messages, |message| message["deleted"] == true), 0.9);
        near(workload.filters.iter().filter(|filter| filter.expensive.is_some()).count() as f64 / 2_000.0, 0.1);
    }

    #[test]
    fn a_change_of_the_hierarchy_keeps_its_shares() {
        let mut workload = WorkloadB::new(0, 0, 1);
        let mut random = SplitMix64::new(2);
        for _ in 0..100 {
            workload.change_hierarchy(&mut random);
        }
        let mut leaves: Vec<usize> = workload.groups.concat();
        leaves.sort_unstable();
        assert_eq!(leaves, (0..GROUPS.len() * LEAVES_PER_GROUP).collect::<Vec<_>>());
    }

    #[test]
    fn no_expensive_predicate_is_asked_of_a_deleted_message() {
        let workload = WorkloadB::new(300, 200, 3);
        let expensive = ExpensivePredicates::new(4);
        let hierarchies = [("group".to_owned(), workload.hierarchy())].into_iter().collect();
        let messages = workload.messages();
        for query in workload.queries(&expensive) {
            for properties in &messages {
                let message = Message::new("", properties, tamis_core::message::Body::Absent);
                let _ = query.evaluate(&message, Some(&hierarchies));
            }
        }
        assert_eq!(expensive.calls_when_deleted(), 0);
        assert!(expensive.calls() > 0);
    }
}
