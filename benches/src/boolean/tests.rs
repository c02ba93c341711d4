//! Every algorithm agrees with brute force on filters and messages of every shape that the format has.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::BooleanMatcher;
use super::a_tree::ATree;
use super::access_predicate::AccessPredicate;
use super::bdd::Bdd;
use super::be_tree::BeTree;
use super::brute_force::FilterBruteForce;
use super::from_properties::FromProperties;
use super::grouped::{Grouped, GroupedInThreads};
use super::k_index::KIndex;
use super::measure::answer;
use super::tamis::FilterTamis;
use super::workload::Workload;
use crate::random::SplitMix64;

const FILTERS: usize = 600;
const MESSAGES: usize = 150;

fn agrees_with_brute_force<M: BooleanMatcher>() {
    let workload = workload(&mut SplitMix64::new(5));
    let brute_force = FilterBruteForce::build(&workload.filters, &workload.schema);
    let mut matcher = M::build(&workload.filters, &workload.schema);
    matcher.prepare(&workload.messages);
    let mut matches = 0;
    for message in &workload.messages {
        let expected = answer(&brute_force, message);
        assert_eq!(answer(&matcher, message), expected, "{}: {:?}", M::NAME, message.properties);
        matches += expected.len();
    }
    assert!(matches > MESSAGES, "too few matches to tell anything");
}

#[test]
fn tamis_agrees_with_brute_force() {
    agrees_with_brute_force::<FilterTamis>();
}

#[test]
fn one_access_predicate_agrees_with_brute_force() {
    agrees_with_brute_force::<AccessPredicate>();
    agrees_with_brute_force::<FromProperties>();
}

#[test]
fn the_k_index_agrees_with_brute_force() {
    agrees_with_brute_force::<KIndex>();
}

#[test]
fn the_be_tree_agrees_with_brute_force() {
    agrees_with_brute_force::<BeTree>();
}

#[test]
fn decision_diagrams_agree_with_brute_force() {
    agrees_with_brute_force::<Bdd>();
}

#[test]
fn groups_agree_with_brute_force() {
    agrees_with_brute_force::<Grouped>();
    agrees_with_brute_force::<GroupedInThreads>();
}

#[test]
fn the_a_tree_agrees_with_brute_force() {
    agrees_with_brute_force::<ATree>();
}

#[test]
fn a_line_that_is_no_filter_is_named() {
    let error = Workload::parse(SCHEMA, "{\"f\": [\"eq\", \"unknown\", 1]}", "").unwrap_err();
    assert_eq!(error, "filters.jsonl, line 1: not as expected");
}

const SCHEMA: &str = r#"{"id": {"type": "str", "card": 5000}, "city": {"type": "str", "card": 5}, "sold": {"type": "bool"},
    "price": {"type": "int"}, "count": {"type": "int"}}"#;

fn workload(random: &mut SplitMix64) -> Workload {
    let lines = |values: Vec<Json>| values.iter().map(Json::to_string).collect::<Vec<_>>().join("\n");
    let filters = (0..FILTERS).map(|id| json!({"id": id, "f": filter(random, 3)})).collect();
    let messages = (0..MESSAGES).map(|_| message(random)).collect();
    Workload::parse(SCHEMA, &lines(filters), &lines(messages)).expect("as the format wants it")
}

fn message(random: &mut SplitMix64) -> Json {
    let all = [
        ("id", json!(format!("I{}", random.below(8)))),
        ("city", json!(format!("C{}", random.below(5)))),
        ("sold", json!(random.percent(50))),
        ("price", json!(random.below(20))),
        ("count", json!(random.below(20))),
    ];
    let present: BTreeMap<_, _> = all.into_iter().filter(|_| random.percent(80)).collect();
    json!(present)
}

fn filter(random: &mut SplitMix64, depth: usize) -> Json {
    let operands = |random: &mut SplitMix64| -> Vec<Json> {
        (0..2 + random.below(2)).map(|_| filter(random, depth - 1)).collect()
    };
    match if depth == 0 { 9 } else { random.below(10) } {
        0..=3 => json!([&[json!("and")], &operands(random)[..]].concat()),
        4 | 5 => json!([&[json!("or")], &operands(random)[..]].concat()),
        6 => json!(["not", filter(random, depth - 1)]),
        _ => predicate(random),
    }
}

fn predicate(random: &mut SplitMix64) -> Json {
    let operator = *random.pick(&["eq", "ne"]);
    let listing = *random.pick(&["in", "nin"]);
    let ordering = *random.pick(&["lt", "le", "gt", "ge"]);
    let (first, second) = (random.below(20), random.below(20));
    let number = *random.pick(&["price", "count"]);
    match random.below(7) {
        0 => json!([operator, "id", format!("I{}", random.below(8))]),
        1 => json!([operator, "city", format!("C{}", random.below(5))]),
        2 => json!([listing, "city", [format!("C{}", random.below(3)), "C4", "C9"]]),
        3 => json!([operator, "sold", random.percent(50)]),
        4 => json!([ordering, number, first]),
        5 => json!([operator, number, first]),
        _ => json!(["between", number, first.min(second), first.max(second)]),
    }
}
