//! Tests reports on a few subscriptions, and on many random ones.

use std::sync::Arc;

use super::{IndexKind, Report, names};
use crate::expensive::{InjectedCost, Opaque};
use crate::index::{Engine, SubscriptionId};
use crate::query::Query;
use crate::query::expr::{Expr, Predicate};
use crate::query::selector::{SelectorDialect, parse};
use crate::testing::rounds;

fn query(text: &str) -> Query {
    parse(text, SelectorDialect::Jms).expect(text)
}

fn report(texts: &[&str]) -> Report {
    let engine = Engine::new();
    texts.iter().for_each(|text| _ = engine.add(Arc::new(query(text))));
    Report::of(&engine.subscriptions().expect("no snapshot, no damage"))
}

fn ids(ids: &[u64]) -> Vec<SubscriptionId> {
    ids.iter().copied().map(SubscriptionId).collect()
}

#[test]
fn an_engine_without_subscriptions_has_nothing_to_report() {
    assert_eq!(report(&[]), Report::default());
}

#[test]
fn what_is_the_same_is_counted_once() {
    let report = report(&["a = 1 AND b = 2", "a = 1", "a = 1 AND b = 2", "a = 1 OR a = 1", "a = 1.0"]);
    assert_eq!((report.subscriptions, report.distinct_queries), (5, 4));
    assert_eq!((report.predicates, report.distinct_predicates), (8, 3));
    assert_eq!(report.shared, [("a = 1".to_owned(), 4), ("b = 2".to_owned(), 2)]);
    assert_eq!(report.duplicates, [ids(&[0, 2])]);
}

#[test]
fn what_is_never_or_always_true_or_has_nothing_to_look_up_is_named() {
    let report = report(&["a = 1 AND NOT a = 1", "a = 1", "TRUE", "a > 1", "a IS NULL", "TRUE"]);
    assert_eq!(report.never_true, ids(&[0]));
    assert_eq!(report.always_true, ids(&[2, 5]));
    assert!([2, 4, 5].iter().all(|id| report.unindexable.contains(&SubscriptionId(*id))));
    assert!(!report.unindexable.contains(&SubscriptionId(1)));
    assert!(report.covered.is_empty(), "what is always true covers all and says nothing: {:?}", report.covered);
}

#[test]
fn each_subscription_counts_under_the_index_that_finds_it() {
    use IndexKind::{Nothing, Presence, Ranges, Summaries, Texts, Topics, Values};
    let some = [
        "TOPIC('a.#')",
        "a = 1 AND b > 2",
        "a IN (3, 4)",
        "a = 1 AND b > 2",
        "CONTAINS(body, 'frost')",
        "price BETWEEN 3 AND 9",
        "a = 5 OR price > 100",
        "x LIKE '_'",
        "TRUE",
        "a = 1 AND NOT a = 1",
    ];
    let few = [(Topics, 1), (Texts, 1), (Ranges, 3), (Presence, 1), (Summaries, 3), (Nothing, 1)];
    assert_eq!(report(&some).served_by, few, "so few values are not worth a table");
    let others: Vec<String> = (100..1_100).map(|value| format!("a = {value}")).collect();
    let texts: Vec<&str> = some.into_iter().chain(others.iter().map(String::as_str)).collect();
    let many = [(Topics, 1), (Values, 1_004), (Texts, 1), (Ranges, 2), (Presence, 1), (Nothing, 1)];
    assert_eq!(report(&texts).served_by, many);
}

#[test]
fn queries_on_attributes_that_few_ask_about_are_filed_by_their_values() {
    let equal = |number: usize, step: usize| format!("r{} = 'v{}'", number * step % 101, number * step / 101 % 20);
    let texts: Vec<String> =
        (0..2_020).map(|number| format!("{} AND {}", equal(number, 1), equal(number, 7))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(report(&texts).served_by, [(IndexKind::Values, 2_020)]);
}

#[test]
fn covered_queries_name_what_covers_them_and_equal_meanings_the_first() {
    let texts = ["a = 1 AND b = 2", "b = 2 AND a = 1", "b IN (2, 3)", "a = 1 AND b = 2", "c = 4", "b >= 2"];
    let report = report(&texts);
    let pairs = [(0, 2), (0, 5), (1, 0), (1, 2), (1, 5), (2, 5), (3, 2), (3, 5)];
    assert_eq!(report.covered, pairs.map(|(narrow, wide)| (SubscriptionId(narrow), SubscriptionId(wide))));
    assert_eq!(report.covered_subscriptions, 4);
    assert_eq!(report.candidates_left_out, 0);
}

#[test]
fn what_the_keys_find_is_what_comparing_every_two_finds() {
    let parts =
        ["a = 1", "a IN (1, 2)", "a > 0", "b = 'x'", "PREFIX(b, 'x')", "TOPIC('n.w')", "TOPIC('n.#')", "c", "NOT c"];
    let mut texts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    for (index, one) in parts.iter().enumerate() {
        for other in &parts[..index] {
            texts.extend([format!("{one} AND {other}"), format!("{one} OR {other}")]);
        }
    }
    let texts: Vec<&str> = rounds(&texts).map(String::as_str).collect();
    let report = report(&texts);
    let queries: Vec<Query> = texts.iter().map(|text| query(text)).collect();
    let is_usual = |query: &Query| !query.is_never_true() && !query.is_always_true();
    let mut covered = 0;
    for (index, narrow) in queries.iter().enumerate().filter(|(_, query)| is_usual(query)) {
        let covers = queries.iter().enumerate().filter(|(other, wide)| {
            *other != index
                && is_usual(wide)
                && narrow.is_covered_by(wide)
                && (*other < index || !wide.is_covered_by(narrow))
        });
        let count = covers.count();
        covered += usize::from(count > 0);
        let named = report.covered.iter().filter(|pair| pair.0 == SubscriptionId(index as u64)).count();
        assert_eq!(named, count.min(8), "{}", texts[index]);
    }
    assert_eq!(report.covered_subscriptions, covered);
    assert!(cfg!(miri) || covered > 50, "{covered}");
}

#[test]
fn names_are_those_of_properties_each_once() {
    let texts = ["a = 1 AND b.c > a", "topic = 'x' AND CONTAINS(body, 'y')", "EXISTS(\"d e\") OR ANYCASE(F) = 1"];
    let subscriptions: Vec<_> = (0..).map(SubscriptionId).zip(texts.map(|text| Arc::new(query(text)))).collect();
    assert_eq!(names(&subscriptions), ["a", "b.c", "d e"]);
}

#[test]
#[cfg_attr(miri, ignore = "looks at time")]
fn the_most_expensive_come_first_and_expensive_predicates_are_not_called() {
    let opaque = Opaque::new(InjectedCost::new("slow", 50_000_000.0, |_| Some(true)));
    let slow = Query::new(Expr::Predicate(Predicate::Opaque(opaque.clone()))).expect("within the limits");
    let engine = Engine::new();
    for text in ["a = 1", "REGEX(body, '(x+x+)+y') AND REGEX(body, 'z.*z')", "b = 1"] {
        engine.add(Arc::new(query(text)));
    }
    engine.add(Arc::new(slow));
    let report = Report::of(&engine.subscriptions().expect("no damage"));
    assert_eq!(report.most_expensive.iter().map(|expensive| expensive.id.0).take(2).collect::<Vec<_>>(), [3, 1]);
    assert!(report.most_expensive.iter().all(|expensive| expensive.cost_ns > 0.0));
    assert_eq!(report.most_expensive[0].cost_ns, 50_000_000.0);
    assert_eq!((report.opaque[0].name.as_str(), report.opaque[0].subscriptions), ("slow", 1));
    assert_eq!(opaque.counts().calls, 0);
}
