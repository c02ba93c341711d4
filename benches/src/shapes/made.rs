//! Makes the queries and messages of each shape from a seed.

use std::fmt::Write as _;
use std::sync::Arc;

use tamis_core::message::{Properties, Value};
use tamis_core::query::selector::{SelectorDialect, parse};

use super::Shape;
use crate::random::SplitMix64;

/// The number of messages of each shape.
const MESSAGES: usize = 100;

/// The name of a shape, its share of the number of queries (1 / n), and what makes one query and one message.
type Recipe = (&'static str, usize, fn(&mut SplitMix64, f64) -> String, fn(&mut SplitMix64) -> Properties);

const RECIPES: [Recipe; 35] = [
    ("rectangles", 1, rectangle, point),
    ("windows of one number", 1, window, number),
    ("windows of time", 1, time_window, instant),
    ("thresholds", 1, threshold, number),
    ("below one bound or above another", 1, outside, number),
    ("a range of either attribute", 1, either_range, point),
    ("a rectangle or a price", 1, rectangle_or_price, priced_point),
    ("ANDs of four ORs of bounds", 5, and_of_ors, thirty_numbers),
    ("the same, of 30 attributes", 5, wide_and_of_ors, thirty_numbers),
    ("deep trees of bounds and values", 5, deep_tree, numbers_and_symbols),
    ("only NOTs", 1, only_nots, symbols),
    ("IN with 1,100 values", 50, long_list, long_value),
    ("IN with 900 values", 50, shorter_list, long_value),
    ("a list in the message", 1, symbol_and_tag, tagged),
    ("attributes mostly absent", 1, rare_attributes, rare_message),
    ("five ranges of 30 attributes", 1, five_ranges, thirty_numbers),
    ("three wide ranges of 200 attributes", 1, wide_ranges, two_hundred_numbers),
    ("two wide ranges of 30 attributes", 1, wider_ranges, thirty_numbers),
    ("four ranges behind a hot equality", 1, hot_ranges, hot_message),
    ("ORs of ANDs with a range", 1, or_of_ands, priced_symbols),
    ("messages of 200 attributes", 1, wide_query, wide_message),
    ("regular expressions without a literal", 100, regex, code), // each compiles to a MiB
    ("one equality", 1, equality, symbols),
    ("an equality and a price", 1, equality_and_price, priced_symbols),
    ("three equalities", 1, three_equalities, symbols),
    ("IN with three values and a range", 1, short_list, priced_symbols),
    ("LIKE", 10, like, text),
    ("not one value", 1, not_one_value, symbols),
    ("a beginning", 10, beginning, text),
    ("a word", 10, one_word, words),
    ("a phrase", 10, phrase, words),
    ("two words near each other", 10, near, words),
    ("presence of a rare attribute", 1, presence, rare_message),
    ("absence of two usual attributes", 1, absence, symbols_but_two),
    ("boxes of three dimensions", 1, cuboid, three_numbers),
];

/// Every shape of about `count` queries, made from `seed`; then few queries of one shape.
pub fn shapes(count: usize, seed: u64, only: Option<&str>) -> impl Iterator<Item = Shape> {
    let wanted = only.map(str::to_owned);
    let all =
        RECIPES.into_iter().map(move |(name, share, query, message)| (name, (count / share).max(1), query, message));
    let few = [("1 query", 1), ("10 queries", 10), ("1,000 queries", 1_000)];
    let few = few.map(|(name, count)| {
        (name, count, equality_and_price as fn(&mut _, _) -> _, priced_symbols as fn(&mut _) -> _)
    });
    let all = all.chain(few).filter(move |(name, ..)| wanted.as_ref().is_none_or(|part| name.contains(part.as_str())));
    all.map(move |(name, count, query, message)| {
        let mut random = SplitMix64::new(seed);
        let size = count as f64;
        let compile = |text: String| Arc::new(parse(&text, SelectorDialect::Jms).expect("a selector"));
        let queries = (0..count).map(|_| compile(query(&mut random, size))).collect();
        Shape { name, queries, messages: (0..MESSAGES).map(|_| message(&mut random)).collect() }
    })
}

fn of<const COUNT: usize>(properties: [(&str, Value); COUNT]) -> Properties {
    properties.map(|(name, value)| (name.into(), value)).into_iter().collect()
}

fn word(random: &mut SplitMix64, words: usize) -> Value {
    Value::Text(format!("v{}", random.below(words)).into())
}

// ---- ranges --------------------------------------------------------------------------------------------------------

/// Sides so long that a point lies in about 30 rectangles.
fn rectangle(random: &mut SplitMix64, count: f64) -> String {
    let side = (30.0 / count).sqrt().min(1.0);
    let (lat, lon) = (random.unit() * 180.0 - 90.0, random.unit() * 360.0 - 180.0);
    let (height, width) = (180.0 * side * 2.0 * random.unit(), 360.0 * side * 2.0 * random.unit());
    format!("lat BETWEEN {lat:.5} AND {:.5} AND lon BETWEEN {lon:.5} AND {:.5}", lat + height, lon + width)
}

fn point(random: &mut SplitMix64) -> Properties {
    of([
        ("lat", Value::Float(random.unit() * 180.0 - 90.0)),
        ("lon", Value::Float(random.unit() * 360.0 - 180.0)),
        ("source", word(random, 5)),
    ])
}

fn window(random: &mut SplitMix64, count: f64) -> String {
    let low = random.unit() * 1e6;
    format!("x BETWEEN {low:.2} AND {:.2}", low + 1e6 * 57.0 / count * 2.0 * random.unit())
}

fn number(random: &mut SplitMix64) -> Properties {
    of([("x", Value::Float(random.unit() * 1e6)), ("source", word(random, 5))])
}

/// A year of seconds: windows of some minutes.
fn time_window(random: &mut SplitMix64, count: f64) -> String {
    let low = random.below(31_000_000) as i64;
    let high = low + 1 + (31e6 * 57.0 / count * 2.0 * random.unit()) as i64;
    format!("at BETWEEN TIMESTAMP '{}' AND TIMESTAMP '{}'", moment(low), moment(high))
}

/// A time of the year 2026 with months of 28 days.
fn moment(seconds: i64) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, day) = (2026 + day / 336, day % 336);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", 1 + day / 28, 1 + day % 28)
}

fn instant(random: &mut SplitMix64) -> Properties {
    let seconds = random.below(31_000_000) as i64;
    of([("at", Value::Text(moment(seconds).into())), ("source", word(random, 5))])
}

/// A quarter of the thresholds hold of the mean message.
fn threshold(random: &mut SplitMix64, _: f64) -> String {
    format!("x > {:.2}", (0.5 + random.unit()) * 1e6)
}

fn outside(random: &mut SplitMix64, _: f64) -> String {
    let (low, high) = (random.unit() * 1e4, 1e6 - random.unit() * 1e4);
    format!("x < {low:.2} OR x > {high:.2}")
}

fn either_range(random: &mut SplitMix64, count: f64) -> String {
    let (lat, lon, side) = (random.unit() * 180.0 - 90.0, random.unit() * 360.0 - 180.0, 10.0 / count);
    let (height, width) = (180.0 * side, 360.0 * side);
    format!("(lat BETWEEN {lat:.5} AND {:.5}) OR (lon BETWEEN {lon:.5} AND {:.5})", lat + height, lon + width)
}

fn and_of_ors(random: &mut SplitMix64, _: f64) -> String {
    ors_of_bounds(random, 8)
}

fn wide_and_of_ors(random: &mut SplitMix64, _: f64) -> String {
    ors_of_bounds(random, 30)
}

/// Each of four ORs holds of two thirds of the messages.
fn ors_of_bounds(random: &mut SplitMix64, attributes: usize) -> String {
    let mut or = || {
        let names = different(random, 2, attributes);
        format!("({} OR {})", bound(random, names[0]), bound(random, names[1]))
    };
    [or(), or(), or(), or()].join(" AND ")
}

/// A bound of one number, above or below.
fn bound(random: &mut SplitMix64, name: usize) -> String {
    let (sign, bound) = (if random.percent(50) { '<' } else { '>' }, random.unit() * 1_000.0);
    format!("n{name} {sign} {bound:.2}")
}

/// ANDs within ORs within ANDs, of bounds and values, some of them negated.
fn deep_tree(random: &mut SplitMix64, _: f64) -> String {
    let or = |random: &mut SplitMix64| format!("({} OR {} OR {})", pair(random), pair(random), pair(random));
    format!("{} AND {} AND NOT ({} AND {})", or(random), or(random), or(random), or(random))
}

/// Two conditions on one message in two or three each.
fn pair(random: &mut SplitMix64) -> String {
    let one = |random: &mut SplitMix64| match random.below(3) {
        0 => format!("NOT (s{} = 'v{}')", random.below(12), random.below(3)),
        1 => format!("s{} IN ('v0', 'v1')", random.below(12)),
        _ => {
            let name = random.below(8);
            bound(random, name)
        }
    };
    format!("({} AND {})", one(random), one(random))
}

fn numbers_and_symbols(random: &mut SplitMix64) -> Properties {
    let symbols: Vec<_> = (0..12).map(|number| (format!("s{number}").into(), word(random, 3))).collect();
    thirty_numbers(random).into_iter().chain(symbols).collect()
}

fn rectangle_or_price(random: &mut SplitMix64, count: f64) -> String {
    format!("({}) OR price > {:.2}", rectangle(random, count), 9_990.0 + random.unit() * 100.0)
}

fn priced_point(random: &mut SplitMix64) -> Properties {
    let price = Value::Float(random.unit() * 1e4);
    point(random).into_iter().chain([("price".into(), price)]).collect()
}

/// Sides so long that a point lies in about 30 boxes.
fn cuboid(random: &mut SplitMix64, count: f64) -> String {
    let width = (30.0 / count).cbrt().min(0.9);
    ranges(random, (0..3).map(|number| format!("n{number}")), width)
}

fn three_numbers(random: &mut SplitMix64) -> Properties {
    (0..3).map(|number| (format!("n{number}").into(), Value::Float(random.unit() * 1_000.0))).collect()
}

fn five_ranges(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 5, 30);
    ranges(random, names.into_iter().map(|number| format!("n{number}")), 0.3)
}

fn ranges(random: &mut SplitMix64, names: impl Iterator<Item = String>, width: f64) -> String {
    let mut range = |name: String| {
        let low = random.unit() * (1.0 - width) * 1_000.0;
        format!("{name} BETWEEN {low:.2} AND {:.2}", low + width * 1_000.0)
    };
    names.map(&mut range).collect::<Vec<_>>().join(" AND ")
}

fn thirty_numbers(random: &mut SplitMix64) -> Properties {
    (0..30).map(|number| (format!("n{number}").into(), Value::Float(random.unit() * 1_000.0))).collect()
}

fn wide_ranges(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 3, 200);
    ranges(random, names.into_iter().map(|number| format!("n{number}")), 0.5)
}

fn wider_ranges(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 2, 30);
    ranges(random, names.into_iter().map(|number| format!("n{number}")), 0.7)
}

fn two_hundred_numbers(random: &mut SplitMix64) -> Properties {
    (0..200).map(|number| (format!("n{number}").into(), Value::Float(random.unit() * 1_000.0))).collect()
}

/// Half of all ask for the one venue that all messages have.
fn hot_ranges(random: &mut SplitMix64, _: f64) -> String {
    let ranges = ranges(random, (0..4).map(|number| format!("n{number}")), 0.2);
    let venue = if random.percent(50) { 0 } else { random.below(50) };
    format!("venue = 'v{venue}' AND {ranges}")
}

fn hot_message(random: &mut SplitMix64) -> Properties {
    thirty_numbers(random)
        .into_iter()
        .take(6)
        .chain(of([("venue", Value::Text("v0".into()))]))
        .chain(thirty_numbers(random).into_iter().filter(|(name, _)| name.len() == 2))
        .collect()
}

// ---- values --------------------------------------------------------------------------------------------------------

/// Twelve attributes of 50 values.
fn symbols(random: &mut SplitMix64) -> Properties {
    (0..12).map(|number| (format!("s{number}").into(), word(random, 50))).collect()
}

fn priced_symbols(random: &mut SplitMix64) -> Properties {
    let price = Value::Float(random.unit() * 1_000.0);
    let symbol = word(random, 5_000);
    symbols(random).into_iter().chain([("price".into(), price), ("symbol".into(), symbol)]).collect()
}

fn only_nots(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 5, 12);
    let not = |name: usize, random: &mut SplitMix64| format!("NOT (s{name} = 'v{}')", random.below(50));
    names.into_iter().map(|name| not(name, random)).collect::<Vec<_>>().join(" AND ")
}

fn not_one_value(random: &mut SplitMix64, _: f64) -> String {
    format!("s{} <> 'v{}'", random.below(12), random.below(50))
}

fn presence(random: &mut SplitMix64, _: f64) -> String {
    format!("r{} IS NOT NULL", random.below(300))
}

fn absence(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 2, 12);
    format!("s{} IS NULL AND s{} IS NULL", names[0], names[1])
}

/// Ten of the twelve attributes.
fn symbols_but_two(random: &mut SplitMix64) -> Properties {
    let lacking = different(random, 2, 12).into_iter().map(|number| format!("s{number}")).collect::<Vec<_>>();
    symbols(random).into_iter().filter(|(name, _)| !lacking.iter().any(|other| **other == **name)).collect()
}

fn long_list(random: &mut SplitMix64, _: f64) -> String {
    list(random, 1_100)
}

fn shorter_list(random: &mut SplitMix64, _: f64) -> String {
    list(random, 900)
}

fn list(random: &mut SplitMix64, values: usize) -> String {
    let mut text = "code IN (".to_owned();
    for number in 0..values {
        let comma = if number == 0 { "" } else { ", " };
        write!(text, "{comma}'c{}'", random.below(1_000_000)).expect("a text");
    }
    text + ")"
}

fn long_value(random: &mut SplitMix64) -> Properties {
    of([("code", Value::Text(format!("c{}", random.below(1_000_000)).into())), ("source", word(random, 5))])
}

fn symbol_and_tag(random: &mut SplitMix64, _: f64) -> String {
    format!("symbol = 'v{}' AND tags = 'v{}'", random.below(5_000), random.below(50))
}

fn tagged(random: &mut SplitMix64) -> Properties {
    let tags = (0..5).map(|_| word(random, 50)).collect::<Vec<_>>();
    of([("symbol", word(random, 5_000)), ("tags", Value::List(tags)), ("source", word(random, 5))])
}

/// Three of 300 attributes of 20 values; a message has twelve.
fn rare_attributes(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 3, 300);
    let equal = |name: usize, random: &mut SplitMix64| format!("r{name} = 'v{}'", random.below(20));
    names.into_iter().map(|name| equal(name, random)).collect::<Vec<_>>().join(" AND ")
}

fn rare_message(random: &mut SplitMix64) -> Properties {
    different(random, 12, 300).into_iter().map(|name| (format!("r{name}").into(), word(random, 20))).collect()
}

fn or_of_ands(random: &mut SplitMix64, _: f64) -> String {
    let both = |random: &mut SplitMix64| {
        let (name, value, low) = (random.below(12), random.below(50), random.unit() * 900.0);
        format!("(s{name} = 'v{value}' AND price BETWEEN {low:.2} AND {:.2})", low + 20.0)
    };
    [both(random), both(random), both(random)].join(" OR ")
}

fn wide_query(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 4, 200);
    let equal = |name: usize, random: &mut SplitMix64| format!("w{name} = 'v{}'", random.below(10));
    names.into_iter().map(|name| equal(name, random)).collect::<Vec<_>>().join(" AND ")
}

fn wide_message(random: &mut SplitMix64) -> Properties {
    (0..200).map(|number| (format!("w{number}").into(), word(random, 10))).collect()
}

fn equality(random: &mut SplitMix64, count: f64) -> String {
    let values = (count / 30.0).max(50.0) as usize;
    format!("s{} = 'v{}'", random.below(12), random.below(values))
}

fn equality_and_price(random: &mut SplitMix64, _: f64) -> String {
    format!("symbol = 'v{}' AND price < {:.2}", random.below(5_000), random.unit() * 1_000.0)
}

fn three_equalities(random: &mut SplitMix64, _: f64) -> String {
    let names = different(random, 3, 12);
    let equal = |name: usize, random: &mut SplitMix64| format!("s{name} = 'v{}'", random.below(50));
    names.into_iter().map(|name| equal(name, random)).collect::<Vec<_>>().join(" AND ")
}

fn short_list(random: &mut SplitMix64, _: f64) -> String {
    let values: Vec<_> = (0..3).map(|_| format!("'v{}'", random.below(50))).collect();
    let low = random.unit() * 900.0;
    format!("s{} IN ({}) AND price BETWEEN {low:.2} AND {:.2}", random.below(12), values.join(", "), low + 50.0)
}

// ---- texts ---------------------------------------------------------------------------------------------------------

/// Expressions of classes only, of which no literal can be taken, each different.
fn regex(random: &mut SplitMix64, _: f64) -> String {
    let (letters, digits) = (2 + random.below(30), 1 + random.below(200));
    let first = char::from(b'A' + random.below(20) as u8);
    format!(r"REGEX(code, '^[{first}-Z][A-Z]{{{letters}}}\d{{{digits}}}$')")
}

/// Three letters or more, then digits.
fn code(random: &mut SplitMix64) -> Properties {
    let letters = 3 + random.below(4);
    let mut code: String = (0..letters).map(|_| char::from(b'A' + random.below(26) as u8)).collect();
    (0..1 + random.below(8)).for_each(|_| code.push(char::from(b'0' + random.below(10) as u8)));
    of([("code", Value::Text(code.into())), ("source", word(random, 5))])
}

fn like(random: &mut SplitMix64, _: f64) -> String {
    let mut letters = || (0..4).map(|_| char::from(b'a' + random.below(26) as u8)).collect::<String>();
    format!("text LIKE '%{}%'", letters())
}

fn beginning(random: &mut SplitMix64, _: f64) -> String {
    let mut letters = || (0..3).map(|_| char::from(b'a' + random.below(26) as u8)).collect::<String>();
    format!("text LIKE '{}%'", letters())
}

fn one_word(random: &mut SplitMix64, _: f64) -> String {
    format!("CONTAINS(text, '{}')", usual_word(random))
}

fn phrase(random: &mut SplitMix64, _: f64) -> String {
    format!("CONTAINS(text, '{} {}')", usual_word(random), usual_word(random))
}

fn near(random: &mut SplitMix64, _: f64) -> String {
    format!("NEAR(text, '{}', '{}', 5)", usual_word(random), usual_word(random))
}

fn words(random: &mut SplitMix64) -> Properties {
    let words: Vec<String> = (0..200).map(|_| usual_word(random)).collect();
    of([("text", Value::Text(words.join(" ").into())), ("source", word(random, 5))])
}

/// One of 19,999 words, as often as words of a language are used (Zipf's law): the n-th one n times as rarely as the first.
fn usual_word(random: &mut SplitMix64) -> String {
    format!("w{}", 20_000_f64.powf(random.unit()) as usize)
}

fn text(random: &mut SplitMix64) -> Properties {
    let letters = (0..200).map(|_| char::from(b'a' + random.below(26) as u8)).collect::<String>();
    of([("text", Value::Text(letters.into())), ("source", word(random, 5))])
}

/// `count` different numbers below `bound`.
fn different(random: &mut SplitMix64, count: usize, bound: usize) -> Vec<usize> {
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let number = random.below(bound);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}
