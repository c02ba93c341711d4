//! Matchers that are specialised in queries of one shape.
//!
//! A grid, buckets, sorted bounds, lists of the excluded, one automaton. They say how far the engine is from the best that
//! is possible; none of them could take a query of another shape.

use std::hash::Hash;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use hashbrown::{HashMap, HashSet};
use regex::{RegexSet, RegexSetBuilder};
use tamis_core::message::{Properties, Value};
use tamis_core::query::Query;
use tamis_core::query::expr::{Comparison, Expr, Operand, Predicate, Reference};

use super::baselines::{Baseline, demands, name, number, parts, range, text};
use crate::stamps::Stamps;

/// The special thing for the shape `name` of `queries`, where there is one: ids may come in any order.
#[must_use]
pub fn special(shape: &str, queries: &[Arc<Query>]) -> Option<Box<dyn Baseline>> {
    Some(match shape {
        "rectangles" => Box::new(Grid::new(numbered(queries).filter_map(conjunction))),
        "windows of one number" | "windows of time" => Box::new(Buckets::new(&ranges_of(queries))),
        "thresholds" => Box::new(SortedBounds::new(&ranges_of(queries))),
        "below one bound or above another" => Box::new(SortedBounds::new(&ranges_of(queries))),
        "a range of either attribute" => Box::new(Once::new(queries.len(), by_name(queries, Buckets::new))),
        "a rectangle or a price" => {
            let grid: Box<dyn Baseline> =
                Box::new(Grid::new(branches(queries).filter(|(_, ranges)| ranges.len() == 2)));
            let prices = branches(queries).filter(|(_, ranges)| ranges.len() == 1);
            let prices: Vec<_> = prices.map(|(id, ranges)| (id, ranges[0].clone())).collect();
            Box::new(Once::new(queries.len(), vec![grid, Box::new(SortedBounds::new(&prices))]))
        }
        "only NOTs" | "not one value" => Box::new(Excluded::new(queries)),
        "IN with 1,100 values" | "IN with 900 values" | "one equality" => Box::new(OneHash::new(queries)),
        "a list in the message" => Box::new(Pairs::new(queries)),
        "three equalities" | "attributes mostly absent" => Box::new(Triples::new(queries)),
        "four ranges behind a hot equality"
        | "an equality and a price"
        | "IN with three values and a range"
        | "ORs of ANDs with a range"
        | "1 query"
        | "10 queries"
        | "1,000 queries" => Box::new(Once::new(queries.len(), vec![Box::new(HashOfRanges::new(queries))])),
        "regular expressions without a literal" => Box::new(Sets::new(queries)),
        "LIKE" => Box::new(OneAutomaton::new(queries)),
        "a word" | "a phrase" | "two words near each other" => Box::new(WordPairs::new(queries)),
        _ => return None,
    })
}

/// The range of a property: both bounds included.
type NamedRange = (Box<str>, f64, f64);

fn numbered(queries: &[Arc<Query>]) -> impl Iterator<Item = (u32, &Expr)> {
    (0..).zip(queries).map(|(id, query)| (id, query.expr()))
}

/// The ranges of an AND.
fn conjunction((id, expr): (u32, &Expr)) -> Option<(u32, Vec<NamedRange>)> {
    let ranges = parts(expr).iter().filter_map(range).map(|(name, low, high)| (name.into(), low, high));
    Some((id, ranges.collect()))
}

/// The ranges of every branch of the queries' ORs.
fn branches(queries: &[Arc<Query>]) -> impl Iterator<Item = (u32, Vec<NamedRange>)> {
    numbered(queries)
        .flat_map(|(id, expr)| alternatives(expr).iter().map(move |branch| (id, branch)))
        .filter_map(conjunction)
}

fn alternatives(expr: &Expr) -> &[Expr] {
    if let Expr::Or(branches) = expr { branches } else { std::slice::from_ref(expr) }
}

/// The one range of every branch.
fn ranges_of(queries: &[Arc<Query>]) -> Vec<(u32, NamedRange)> {
    branches(queries).map(|(id, mut ranges)| (id, ranges.remove(0))).collect()
}

/// One thing for each property that branches have their range of.
fn by_name<B: Baseline + 'static>(
    queries: &[Arc<Query>],
    new: impl Fn(&[(u32, NamedRange)]) -> B,
) -> Vec<Box<dyn Baseline>> {
    let mut all: HashMap<Box<str>, Vec<(u32, NamedRange)>> = HashMap::new();
    ranges_of(queries).into_iter().for_each(|one| all.entry(one.1.0.clone()).or_default().push(one));
    all.values().map(|ranges| Box::new(new(ranges)) as Box<dyn Baseline>).collect()
}

fn number_of(properties: &Properties, name: &str) -> Option<f64> {
    properties.get(name).and_then(number)
}

/// Several things that may find the same query: each once.
struct Once(Vec<Box<dyn Baseline>>, Stamps, usize);

impl Once {
    fn new(count: usize, all: Vec<Box<dyn Baseline>>) -> Self {
        Self(all, Stamps::default(), count)
    }
}

impl Baseline for Once {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Self(all, seen, count) = self;
        let start = found.len();
        all.iter_mut().for_each(|one| one.match_into(properties, found));
        seen.begin(*count);
        let mut kept = start;
        for index in start..found.len() {
            if seen.insert(found[index]) {
                found[kept] = found[index];
                kept += 1;
            }
        }
        found.truncate(kept);
    }
}

// ---- ranges --------------------------------------------------------------------------------------------------------

/// The bounds of ranges, cut into equal cells.
#[derive(Clone, Copy)]
struct Axis {
    least: f64,
    width: f64,
    cells: usize,
}

impl Axis {
    fn new(ranges: impl Iterator<Item = (f64, f64)>, cells: usize) -> Self {
        let (least, most) =
            ranges.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (low, high)| (a.min(low), b.max(high)));
        Self { least, width: ((most - least) / cells as f64).max(f64::MIN_POSITIVE), cells }
    }

    fn cell(self, number: f64) -> usize {
        (((number - self.least) / self.width) as usize).min(self.cells - 1)
    }
}

/// Windows of one property: each in every bucket that it meets.
struct Buckets {
    name: Box<str>,
    axis: Axis,
    buckets: Vec<Vec<(f64, f64, u32)>>,
}

impl Buckets {
    fn new(ranges: &[(u32, NamedRange)]) -> Self {
        let axis =
            Axis::new(ranges.iter().map(|(_, (_, low, high))| (*low, *high)), (ranges.len() / 16).clamp(1, 30_000));
        let mut buckets = vec![Vec::new(); axis.cells];
        for (id, (_, low, high)) in ranges {
            buckets[axis.cell(*low)..=axis.cell(*high)].iter_mut().for_each(|bucket| bucket.push((*low, *high, *id)));
        }
        Self { name: ranges[0].1.0.clone(), axis, buckets }
    }
}

impl Baseline for Buckets {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Some(number) = number_of(properties, &self.name) else { return };
        let bucket = &self.buckets[self.axis.cell(number)];
        found.extend(bucket.iter().filter(|(low, high, _)| number >= *low && number <= *high).map(|(.., id)| id));
    }
}

/// Thresholds of one property: those below a number lie together when they are sorted, and those above.
struct SortedBounds {
    name: Box<str>,
    lows: (Vec<f64>, Vec<u32>),
    highs: (Vec<f64>, Vec<u32>),
}

impl SortedBounds {
    fn new(ranges: &[(u32, NamedRange)]) -> Self {
        let sorted = |mut bounds: Vec<(f64, u32)>| {
            bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
            bounds.into_iter().unzip()
        };
        let (lows, highs): (Vec<_>, Vec<_>) = ranges.iter().partition(|(_, (_, _, high))| *high == f64::INFINITY);
        Self {
            name: ranges[0].1.0.clone(),
            lows: sorted(lows.into_iter().map(|(id, (_, low, _))| (*low, *id)).collect()),
            highs: sorted(highs.into_iter().map(|(id, (.., high))| (*high, *id)).collect()),
        }
    }
}

impl Baseline for SortedBounds {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Some(number) = number_of(properties, &self.name) else { return };
        found.extend(&self.lows.1[..self.lows.0.partition_point(|low| *low <= number)]);
        found.extend(&self.highs.1[self.highs.0.partition_point(|high| *high < number)..]);
    }
}

/// Rectangles: each in every cell of a grid that it meets.
struct Grid {
    names: [Box<str>; 2],
    axes: [Axis; 2],
    cells: Vec<Vec<([f64; 4], u32)>>,
}

impl Grid {
    fn new(rectangles: impl Iterator<Item = (u32, Vec<NamedRange>)>) -> Self {
        let all: Vec<_> = rectangles.collect();
        let side = ((all.len() as f64).sqrt() as usize).clamp(1, 512);
        let axes = [0, 1].map(|at| Axis::new(all.iter().map(|(_, ranges)| (ranges[at].1, ranges[at].2)), side));
        let mut cells = vec![Vec::new(); side * side];
        for (id, ranges) in &all {
            let [x, y] = [0, 1].map(|at| axes[at].cell(ranges[at].1)..=axes[at].cell(ranges[at].2));
            for column in x {
                for cell in &mut cells[column * side..][y.clone()] {
                    cell.push(([ranges[0].1, ranges[0].2, ranges[1].1, ranges[1].2], *id));
                }
            }
        }
        Self { names: [0, 1].map(|at| all[0].1[at].0.clone()), axes, cells }
    }
}

impl Baseline for Grid {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let [Some(x), Some(y)] = [0, 1].map(|at| number_of(properties, &self.names[at])) else { return };
        let cell = &self.cells[self.axes[0].cell(x) * self.axes[0].cells + self.axes[1].cell(y)];
        let holds = |[west, east, south, north]: [f64; 4]| x >= west && x <= east && y >= south && y <= north;
        found.extend(cell.iter().filter(|(sides, _)| holds(*sides)).map(|(_, id)| id));
    }
}

// ---- values --------------------------------------------------------------------------------------------------------

/// A value of a property.
type Key = (Box<str>, Box<str>);

#[derive(Hash, PartialEq, Eq)]
struct KeyRef<'a>(&'a str, &'a str);

impl hashbrown::Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.0 == *key.0 && *self.1 == *key.1
    }
}

/// The texts of a message, those of its lists too.
fn keys_of(properties: &Properties) -> impl Iterator<Item = KeyRef<'_>> {
    properties.iter().flat_map(|(name, value)| {
        let values = if let Value::List(values) = value { values } else { std::slice::from_ref(value) };
        values.iter().filter_map(move |value| Some(KeyRef(name, text(value)?)))
    })
}

/// Each query under the values that it asks for: a hit is a match.
struct OneHash(HashMap<Key, Vec<u32>>);

impl OneHash {
    fn new(queries: &[Arc<Query>]) -> Self {
        let mut filed: HashMap<Key, Vec<u32>> = HashMap::new();
        for (id, query) in (0..).zip(queries) {
            let (name, values) = demands(query.expr()).remove(0);
            for value in values {
                let ids = filed.entry((name.into(), value.into())).or_default();
                if ids.last() != Some(&id) {
                    ids.push(id);
                }
            }
        }
        Self(filed)
    }
}

impl Baseline for OneHash {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        keys_of(properties).for_each(|key| found.extend(self.0.get(&key).into_iter().flatten()));
    }
}

/// Under the first value of each query: who asks for it, and the second.
struct Pairs(HashMap<Key, Vec<(Key, u32)>>);

impl Pairs {
    fn new(queries: &[Arc<Query>]) -> Self {
        let mut filed: HashMap<Key, Vec<(Key, u32)>> = HashMap::new();
        for (id, query) in (0..).zip(queries) {
            let mut keys = demands(query.expr()).into_iter().map(|(name, values)| (name.into(), values[0].into()));
            let (first, second) = (keys.next().expect("a symbol"), keys.next().expect("a tag"));
            filed.entry(first).or_default().push((second, id));
        }
        Self(filed)
    }
}

impl Baseline for Pairs {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let has = |(name, value): &Key| match properties.get(name) {
            Some(Value::List(values)) => values.iter().any(|one| text(one) == Some(value)),
            one => one.and_then(text) == Some(value),
        };
        for key in keys_of(properties) {
            found.extend(self.0.get(&key).into_iter().flatten().filter(|(second, _)| has(second)).map(|(_, id)| id));
        }
    }
}

/// Three values make one key: a message asks for all its triples.
struct Triples {
    numbers: HashMap<Key, u32>,
    filed: HashMap<[u32; 3], Vec<u32>>,
}

impl Triples {
    fn new(queries: &[Arc<Query>]) -> Self {
        let mut all = Self { numbers: HashMap::new(), filed: HashMap::new() };
        for (id, query) in (0..).zip(queries) {
            let mut triple = [0; 3];
            for (place, (name, values)) in triple.iter_mut().zip(demands(query.expr())) {
                let next = all.numbers.len() as u32;
                *place = *all.numbers.entry((name.into(), values[0].into())).or_insert(next);
            }
            triple.sort_unstable();
            all.filed.entry(triple).or_default().push(id);
        }
        all
    }
}

impl Baseline for Triples {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let mut numbers: Vec<u32> = keys_of(properties).filter_map(|key| self.numbers.get(&key).copied()).collect();
        numbers.sort_unstable();
        for (first, a) in numbers.iter().enumerate() {
            for (second, b) in numbers.iter().enumerate().skip(first + 1) {
                for c in &numbers[second + 1..] {
                    found.extend(self.filed.get(&[*a, *b, *c]).into_iter().flatten());
                }
            }
        }
    }
}

/// Under each value: the ranges of those who ask for it, side by side.
struct HashOfRanges(HashMap<Key, Vec<(Vec<NamedRange>, u32)>>);

impl HashOfRanges {
    fn new(queries: &[Arc<Query>]) -> Self {
        let mut filed: HashMap<Key, Vec<(Vec<NamedRange>, u32)>> = HashMap::new();
        for (id, expr) in numbered(queries) {
            for branch in alternatives(expr) {
                let ranges = conjunction((id, branch)).expect("ranges").1;
                let (name, values) = demands(branch).remove(0);
                for value in values {
                    filed.entry((name.into(), value.into())).or_default().push((ranges.clone(), id));
                }
            }
        }
        Self(filed)
    }
}

impl Baseline for HashOfRanges {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        for key in keys_of(properties) {
            let Some(filed) = self.0.get(&key) else { continue };
            let Some((first, _)) = filed.first() else { continue };
            // All have ranges of the same properties.
            let numbers: Vec<_> =
                first.iter().map(|(name, ..)| number_of(properties, name).unwrap_or(f64::NAN)).collect();
            let holds = |ranges: &[NamedRange]| {
                ranges.iter().zip(&numbers).all(|((_, low, high), number)| number >= low && number <= high)
            };
            found.extend(filed.iter().filter(|(ranges, _)| holds(ranges)).map(|(_, id)| id));
        }
    }
}

/// The queries that each value excludes, and those that a missing property does: all others match.
struct Excluded {
    by_value: HashMap<Key, Vec<u32>>,
    by_name: Vec<(Box<str>, Vec<u32>)>,
    out: Vec<bool>,
}

impl Excluded {
    fn new(queries: &[Arc<Query>]) -> Self {
        let mut by_value: HashMap<Key, Vec<u32>> = HashMap::new();
        let mut names: HashMap<Box<str>, HashSet<u32>> = HashMap::new();
        for (id, expr) in numbered(queries) {
            for (name, value) in parts(expr).iter().filter_map(excluded) {
                by_value.entry((name.into(), value.into())).or_default().push(id);
                names.entry(name.into()).or_default().insert(id);
            }
        }
        let by_name = names.into_iter().map(|(name, ids)| (name, ids.into_iter().collect())).collect();
        Self { by_value, by_name, out: vec![false; queries.len()] }
    }
}

/// The value that a part of an AND excludes.
fn excluded(part: &Expr) -> Option<(&str, &str)> {
    let (predicate, wanted) = match part {
        Expr::Not(inner) => (&**inner, Comparison::Equal),
        plain => (plain, Comparison::NotEqual),
    };
    match predicate {
        Expr::Predicate(Predicate::Compare(Operand::Reference(a), is, Operand::Literal(b))) if *is == wanted => {
            Some((name(a)?, text(b)?))
        }
        _ => None,
    }
}

impl Baseline for Excluded {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Self { by_value, by_name, out } = self;
        out.fill(false);
        let absent = by_name.iter().filter(|(name, _)| !properties.contains_key(name)).map(|(_, ids)| ids);
        let excluding = keys_of(properties).filter_map(|key| by_value.get(&key));
        absent.chain(excluding).flatten().for_each(|id| out[*id as usize] = true);
        found.extend((0..).zip(&*out).filter(|(_, out)| !**out).map(|(id, _): (u32, _)| id));
    }
}

// ---- texts ---------------------------------------------------------------------------------------------------------

/// Regular expressions of one property, at most 500 to an automaton, each with the number of its first.
struct Sets(Box<str>, Vec<(usize, RegexSet)>);

const SET: usize = 500;
/// Ten times the limit of the library. Where 500 expressions exceed it, they are divided.
const SET_BYTES_MAX: usize = 100 << 20;

impl Sets {
    fn new(queries: &[Arc<Query>]) -> Self {
        let pattern = |query: &Arc<Query>| match query.expr() {
            Expr::Predicate(Predicate::Regex(Reference::Property(name), pattern)) => {
                (name.text.as_ref().into(), pattern.as_str().to_owned())
            }
            _ => panic!("expected a regular expression"),
        };
        let (names, patterns): (Vec<Box<str>>, Vec<String>) = queries.iter().map(pattern).unzip();
        let mut sets = Self(names[0].clone(), Vec::new());
        patterns.chunks(SET).enumerate().for_each(|(number, patterns)| sets.add(number * SET, patterns));
        sets
    }

    fn add(&mut self, first: usize, patterns: &[String]) {
        match RegexSetBuilder::new(patterns).size_limit(SET_BYTES_MAX).build() {
            Ok(set) => self.1.push((first, set)),
            Err(error) if patterns.len() == 1 => panic!("an expression that the engine takes: {error}"),
            Err(_) => {
                let (left, right) = patterns.split_at(patterns.len() / 2);
                self.add(first, left);
                self.add(first + left.len(), right);
            }
        }
    }
}

impl Baseline for Sets {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Some(text) = properties.get(&self.0).and_then(text) else { return };
        for (first, set) in &self.1 {
            found.extend(set.matches(text).into_iter().map(|index| (first + index) as u32));
        }
    }
}

/// What LIKE looks for anywhere in one property, in one automaton.
struct OneAutomaton(Box<str>, AhoCorasick, Vec<Vec<u32>>);

impl OneAutomaton {
    fn new(queries: &[Arc<Query>]) -> Self {
        let (mut property, mut ids): (Box<str>, HashMap<String, Vec<u32>>) = Default::default();
        for (id, expr) in numbered(queries) {
            let Expr::Predicate(Predicate::Like(Operand::Reference(reference), pattern)) = expr else {
                panic!("expected LIKE")
            };
            property = name(reference).expect("a property").into();
            ids.entry(pattern.pattern().trim_matches('%').to_owned()).or_default().push(id);
        }
        let (needles, ids): (Vec<_>, Vec<_>) = ids.into_iter().unzip();
        Self(property, AhoCorasick::new(needles).expect("short needles"), ids)
    }
}

impl Baseline for OneAutomaton {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Some(text) = properties.get(&self.0).and_then(text) else { return };
        let (start, mut needles) = (found.len(), HashSet::new());
        for hit in self.1.find_overlapping_iter(text) {
            if needles.insert(hit.pattern()) {
                found.extend(&self.2[hit.pattern().as_usize()]);
            }
        }
        found[start..].sort_unstable();
    }
}

/// The ids of queries about a pair of words of one property, each with how far the second is from the first at most.
///
/// A single word is a pair with itself, at no distance.
#[derive(Default)]
struct WordPairs {
    property: Box<str>,
    words: HashMap<Box<str>, u32>,
    filed: HashMap<(u32, u32), Vec<(u32, usize)>>,
    distance_max: usize,
    query_count: usize,
    seen: Stamps,
    found: Vec<Option<u32>>,
}

impl WordPairs {
    fn new(queries: &[Arc<Query>]) -> Self {
        let mut all = Self { query_count: queries.len(), ..Self::default() };
        for (id, expr) in numbered(queries) {
            match expr {
                Expr::Predicate(Predicate::Contains(reference, phrase)) => {
                    let (first, last) = (&phrase.words()[0], &phrase.words()[phrase.words().len() - 1]);
                    all.file(reference, (first, last), phrase.words().len() - 1, id);
                }
                Expr::Predicate(Predicate::Near(reference, a, b, distance)) => {
                    let (a, b) = (&a.words()[0], &b.words()[0]);
                    all.file(reference, (a, b), *distance as usize, id);
                    all.file(reference, (b, a), *distance as usize, id);
                }
                _ => panic!("expected words"),
            }
        }
        all
    }

    fn file(&mut self, reference: &Reference, (first, second): (&str, &str), distance: usize, id: u32) {
        self.property = name(reference).expect("a property").into();
        let mut number = |word: &str| {
            let next = self.words.len() as u32;
            *self.words.entry(word.into()).or_insert(next)
        };
        let pair = (number(first), number(second));
        self.filed.entry(pair).or_default().push((id, distance));
        self.distance_max = self.distance_max.max(distance);
    }
}

impl Baseline for WordPairs {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Some(text) = properties.get(&self.property).and_then(text) else { return };
        self.seen.begin(self.query_count);
        self.found.clear();
        self.found.extend(text.split(' ').map(|word| self.words.get(word).copied()));
        for (start, first) in self.found.iter().enumerate() {
            let Some(first) = first else { continue };
            let nearest = usize::from(self.distance_max > 0);
            for (gap, second) in self.found[start..].iter().enumerate().take(self.distance_max + 1).skip(nearest) {
                let Some(ids) = second.and_then(|second| self.filed.get(&(*first, second))) else { continue };
                found.extend(
                    ids.iter().filter(|(_, most)| gap <= *most).map(|(id, _)| *id).filter(|id| self.seen.insert(*id)),
                );
            }
        }
    }
}
