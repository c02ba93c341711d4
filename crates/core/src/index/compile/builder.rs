//! Building a segment: queries in, sections out.
//!
//! Identical queries are stored once. Each is filed under its rarest necessary keys, or in the common group when
//! nothing that it demands is rare. A group's queries are put in an order in which equal demands lie together, and cut
//! into leaves; groups of several leaves get *summary rows*, one bit a leaf: 0 where a value rules out the whole leaf.

use std::borrow::Borrow;
use std::ops::Range;

use hashbrown::HashTable;

use crate::expensive::OpaqueTable;
use crate::query::Query;
use crate::topic::TopicPattern;
use crate::topic::trie;

use crate::index::SubscriptionId;
use crate::index::codec::{encode, encode_opaques};
use crate::index::compile::clauses::{Key, Normal, Test, ask_for};
use crate::index::compile::cluster::cluster;
use crate::index::compile::interner::{AttributeId, Interner, NONE, Origin, Term};
use crate::index::compile::summary::Summary;
use crate::index::hash::hash_bytes;
use crate::index::layout::cpu::prefetch_all;
use crate::index::layout::header::{Section, Sections, extend_words};
use crate::index::leaf::{self, LEAF, LeafQuery};
use crate::index::segment::attributes::{AttributeInfo, encode_attributes};
use crate::index::segment::text_search::LISTED_WORDS_MAX;

/// Where a distinct query stands in a segment. 32 bits: 4 billion queries are plenty, for half the memory.
pub type Slot = u32;

/// Keys that more messages have than this are no better than the common group, whose rows look at all values at once.
const SHARE_MAX: f64 = 1.0 / 40.0;
/// The same of queries that have to be evaluated when they are candidates.
const SHARE_MAX_OF_REST: f64 = 1.0 / 4.0;
/// Demands are counted in at most this many queries, spread over all of them.
const SAMPLE: usize = 8_192;
/// Groups of more queries than this have summary rows; the leaves of others are looked at one by one.
const WIDE: usize = 4 * LEAF;

/// Records are asked for so many before they are copied: they are read in another order than they lie in memory.
const AHEAD: usize = 16;

/// One subscription on its way into a segment.
#[derive(Clone, Copy, Debug)]
pub struct Subscription<'a> {
    /// Its id.
    pub id: SubscriptionId,
    /// What was saved as its key, if it came from a snapshot or goes into one.
    pub key: Option<&'a [u8]>,
}

/// What a builder makes.
pub struct Built {
    /// The sections of a segment.
    pub sections: Sections,
    /// The expensive predicates that its records name.
    pub opaques: OpaqueTable,
    /// The slot of each query, in the order in which they were first added.
    pub slots: Vec<Slot>,
}

/// Collects queries, and lays them out.
pub struct Builder {
    interner: Interner,
    records: Vec<u8>,
    record_ends: Vec<usize>,
    by_record: HashTable<Slot>,
    normals: Vec<Normal>,
    /// The pure topic queries, by ascending slot: they are in no group.
    topics: Vec<(Slot, TopicPattern)>,
    is_fields: Vec<bool>,
    subscriptions: Vec<(Slot, SubscriptionId, u32)>,
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    opaques: OpaqueTable,
}

impl Builder {
    /// A builder of about `count` queries, which takes `queries` for what the others are like; see [`sample_step`].
    pub fn new<Q: Borrow<Query>>(count: usize, queries: impl Iterator<Item = Q>) -> Self {
        let mut interner = Interner::default();
        queries.for_each(|query| sample(query.borrow(), &mut interner));
        Self {
            interner,
            records: Vec::new(),
            record_ends: Vec::with_capacity(count),
            by_record: HashTable::with_capacity(count),
            normals: Vec::with_capacity(count),
            topics: Vec::new(),
            is_fields: Vec::with_capacity(count),
            subscriptions: Vec::with_capacity(count),
            keys: Vec::new(),
            key_ends: Vec::new(),
            opaques: OpaqueTable::default(),
        }
    }

    /// Add a query with those who subscribe to it. Returns its place in [`Built::slots`].
    pub fn add<'k>(&mut self, query: &Query, subscriptions: impl Iterator<Item = Subscription<'k>>) -> Slot {
        let start = self.records.len();
        encode(query, &mut self.records, &mut self.opaques);
        let hash = hash_bytes(0, &self.records[start..]);
        let Self { records, record_ends, by_record, .. } = self;
        let record = |slot: Slot| {
            let start = if slot == 0 { 0 } else { record_ends[slot as usize - 1] };
            &records[start..record_ends[slot as usize]]
        };
        let slot = match by_record.find(hash, |slot| record(*slot) == &records[start..]) {
            Some(known) => {
                let known = *known;
                self.records.truncate(start);
                known
            }
            None => {
                let slot = Slot::try_from(self.normals.len()).expect("fewer than 2^32 queries fit in memory");
                by_record.insert_unique(hash, slot, |slot| hash_bytes(0, record(*slot)));
                self.record_ends.push(self.records.len());
                match query.topic_pattern() {
                    Some(pattern) => {
                        self.topics.push((slot, pattern.clone()));
                        self.normals.push(Normal::never());
                    }
                    None => self.normals.push(Normal::of(query.expr(), false, &mut self.interner)),
                }
                self.is_fields.push(query.is_fields());
                slot
            }
        };
        for Subscription { id, key } in subscriptions {
            let key_index = key.map_or(NONE, |key| {
                self.keys.extend_from_slice(key);
                self.key_ends.push(self.keys.len());
                u32::try_from(self.key_ends.len() - 1).expect("fewer than 2^32 subscriptions fit in memory")
            });
            self.subscriptions.push((slot, id, key_index));
        }
        slot
    }

    /// Everything as the sections of a segment.
    pub fn finish(mut self) -> Built {
        let (mut table, places) = self.interner.lay_out();
        let (codes, symbols) = (self.interner.codes(), self.interner.symbols_by_code());
        let mut attributes = self.interner.attributes().iter().map(AttributeInfo::new).collect::<Vec<_>>();
        let layout = Layout::new(&self.normals, &self.topics, &self.interner);
        let mut sections = Sections::default();
        self.lay_out_topics(&places, &mut sections);
        self.lay_out_atoms(&layout, &places, &mut sections);
        let subscribers = self.subscribers(&layout.slots);
        let group_of = |group: &Group, leaf: &[Slot]| {
            ask_for(&self.normals, leaf);
            leaf.iter().map(|slot| self.leaf_query(*slot, group.key, &layout, &subscribers)).collect::<Vec<_>>()
        };
        let mut summary = Summary::new(layout.wide_leaf_count);
        let mut wide_sections = Vec::with_capacity(layout.wide_leaf_count);
        for (number, (group, leaf)) in layout.leaves().take(layout.wide_leaf_count).enumerate() {
            let sections = leaf::sections(&group_of(group, leaf), &codes);
            summary.add(number, &sections);
            wide_sections.push(sections);
        }
        let (rows, with_rows) = summary.finish(&mut attributes, |attribute, code, row| {
            table.set_row(places[symbols[attribute as usize][code as usize] as usize], row);
        });
        let (mut words, mut leaf_starts) = (Vec::new(), vec![0_u32]);
        let mut wide_sections = wide_sections.into_iter();
        for (group, leaf) in layout.leaves() {
            let queries = group_of(group, leaf);
            let all = leaf::everyone(queries.len());
            let leaf_sections = match wide_sections.next() {
                Some(mut sections) => {
                    sections.retain(|section| !(with_rows.contains(&section.attribute) && section.is_uniform(all)));
                    sections
                }
                None => leaf::sections(&queries, &codes),
            };
            leaf::encode(&queries, &leaf_sections, &codes, &mut words);
            leaf_starts.push(u32::try_from(words.len()).expect("leaves of fewer than 32 GiB fit in a segment"));
        }
        let mut first = 0;
        for (number, group) in (0_u32..).zip(&layout.groups) {
            let count = group.ends.len() as u32;
            extend_words(&mut sections[Section::Groups], [first, count]);
            first += count;
            match group.key {
                None => {}
                Some(Key::Symbol(symbol)) => {
                    table.set_group(places[symbol as usize], number);
                    attributes[self.interner.attribute_of(symbol) as usize].has_keys = true;
                }
                Some(Key::Presence(attribute)) => attributes[attribute as usize].group = number,
            }
        }
        sections[Section::Leaves] = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        extend_words(&mut sections[Section::LeafStarts], leaf_starts);
        let whole = [layout.wide_leaf_count as u64].into_iter().chain(rows.whole);
        sections[Section::Rows] = whole.flat_map(|word| word.to_le_bytes()).collect();
        extend_words(&mut sections[Section::RareRows], rows.rare);
        sections[Section::Attributes] = encode_attributes(&attributes);
        sections[Section::Table] = table.entries;
        sections[Section::Pool] = table.pool;
        self.lay_out_units(&layout, &mut sections);
        encode_opaques(self.opaques.as_slice(), &mut sections[Section::Opaques]);
        self.lay_out_records(&layout.slots, &mut sections);
        self.lay_out_subscriptions(subscribers, &mut sections);
        Built { sections, opaques: self.opaques, slots: layout.slots }
    }

    /// The trie of all patterns: first the pure queries, which have the first slots, then those that are symbols.
    fn lay_out_topics(&self, places: &[u32], sections: &mut Sections) {
        let mut patterns: Vec<_> = self.topics.iter().map(|(_, pattern)| pattern.clone()).collect();
        for (symbol, _, term) in self.interner.atoms() {
            if let Term::Pattern(dialect, text) = term {
                patterns.push(TopicPattern::new(text, dialect));
                extend_words(&mut sections[Section::Patterns], [places[symbol as usize]]);
            }
        }
        if !patterns.is_empty() {
            sections[Section::Topics] = trie::build(&patterns.iter().collect::<Vec<_>>());
        }
    }

    /// What texts are looked through for: all needles, and the words of bodies where those are few.
    fn lay_out_atoms(&self, layout: &Layout, places: &[u32], sections: &mut Sections) {
        let mut atoms: Vec<(AttributeId, u32)> = Vec::new();
        let attribute_of = |symbol| self.interner.attribute_of(symbol);
        let is_word = |origin| origin == Origin::BodyWords;
        let word_count = self.interner.atoms().filter(|(_, origin, _)| is_word(*origin)).count();
        for (symbol, origin, term) in self.interner.atoms() {
            let is_listed = matches!(term, Term::Needle(..)) || is_word(origin) && word_count <= LISTED_WORDS_MAX;
            if is_listed && !layout.is_unread(attribute_of(symbol)) {
                atoms.push((attribute_of(symbol), places[symbol as usize]));
            }
        }
        atoms.sort_unstable();
        extend_words(
            &mut sections[Section::Atoms],
            atoms.into_iter().flat_map(|(attribute, place)| [attribute, place]),
        );
    }

    /// Put the subscriptions in the order of their places: by the final `slots` of their queries, then by id.
    fn subscribers(&mut self, slots: &[Slot]) -> Subscribers {
        self.subscriptions.iter_mut().for_each(|(slot, ..)| *slot = slots[*slot as usize]);
        self.subscriptions.sort_unstable();
        let mut ends = vec![0_u32; slots.len()];
        self.subscriptions.iter().for_each(|(slot, ..)| ends[*slot as usize] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        Subscribers { ids: self.subscriptions.iter().map(|(_, id, _)| *id).collect(), ends }
    }

    /// A query as the leaves of the group `key` take it: without what the key already says, and without what no message
    /// is asked for.
    fn leaf_query<'b>(
        &'b self,
        slot: Slot,
        key: Option<Key>,
        layout: &Layout,
        subscribers: &'b Subscribers,
    ) -> LeafQuery<'b> {
        let normal = &self.normals[slot as usize];
        let is_said = |test: &Test| match key {
            Some(Key::Symbol(symbol)) => {
                test.holds_for_elements
                    && !test.is_open()
                    && test.attribute == self.interner.attribute_of(symbol)
                    && test.admits(symbol)
            }
            _ => false,
        };
        let is_unread = |test: &Test| layout.is_unread(test.attribute);
        let slot = layout.slots[slot as usize];
        let places = subscribers.places(slot);
        let mut query = LeafQuery {
            slot,
            ranges: &normal.ranges,
            has_rest: normal.has_rest || !normal.units.is_empty(),
            place: u32::try_from(places.start).expect("fewer than 2^32 subscriptions fit in memory"),
            ids: &subscribers.ids[places],
            ..LeafQuery::default()
        };
        for test in normal.rows.iter().filter(|test| !is_said(test)) {
            if is_unread(test) { query.has_rest = true } else { query.rows.push(test) }
        }
        for tests in normal.slots.iter().filter(|tests| !tests.iter().any(is_said)) {
            if tests.iter().any(is_unread) { query.has_rest = true } else { query.slots.push(tests) }
        }
        query
    }

    /// The units, and those of each query, the cheapest first; [`NONE`] where the whole query has to be evaluated.
    fn lay_out_units(&mut self, layout: &Layout, sections: &mut Sections) {
        let units = self.interner.units();
        if units.is_empty() {
            return;
        }
        for unit in units {
            encode(unit, &mut sections[Section::Units], &mut self.opaques);
            let end = sections[Section::Units].len() as u64;
            sections[Section::UnitEnds].extend(end.to_le_bytes());
        }
        let mut rests = vec![Vec::new(); layout.slots.len()];
        for (normal, slot) in self.normals.iter().zip(&layout.slots) {
            let is_unread = |test: &Test| layout.is_unread(test.attribute);
            let is_whole = normal.has_rest
                || leaf::is_cut(normal.rows.len(), normal.slots.len(), normal.ranges.len())
                || normal.rows.iter().chain(normal.slots.iter().flatten()).any(is_unread);
            let mut rest = if is_whole { vec![NONE] } else { normal.units.to_vec() };
            if !is_whole {
                let cost = |unit: &u32| units[*unit as usize].expr().cost_ns();
                rest.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.cmp(b)));
            }
            rests[*slot as usize] = rest;
        }
        let mut end = 0;
        for rest in rests {
            end += u32::try_from(rest.len()).expect("a query has few units");
            extend_words(&mut sections[Section::RestEnds], [end]);
            extend_words(&mut sections[Section::Rests], rest);
        }
    }

    fn lay_out_records(&self, slots: &[Slot], sections: &mut Sections) {
        let mut order: Vec<usize> = vec![0; slots.len()];
        slots.iter().enumerate().for_each(|(old, new)| order[*new as usize] = old);
        let record = |old: usize| {
            let start = if old == 0 { 0 } else { self.record_ends[old - 1] };
            &self.records[start..self.record_ends[old]]
        };
        sections[Section::Records].reserve_exact(self.records.len());
        for (slot, &old) in (0_u32..).zip(&order) {
            if let Some(later) = order.get(slot as usize + AHEAD) {
                prefetch_all(record(*later));
            }
            sections[Section::Records].extend_from_slice(record(old));
            let end = sections[Section::Records].len() as u64;
            sections[Section::RecordEnds].extend(end.to_le_bytes());
            if self.is_fields[old] {
                extend_words(&mut sections[Section::Fields], [slot]);
            }
        }
    }

    /// Subscriptions by place; and in the order of their ids.
    fn lay_out_subscriptions(&self, subscribers: Subscribers, sections: &mut Sections) {
        let has_keys = !self.key_ends.is_empty();
        for (_, id, key) in &self.subscriptions {
            sections[Section::Ids].extend(id.0.to_le_bytes());
            if has_keys {
                let end = self.key_ends.get(*key as usize).copied().unwrap_or_default();
                let start = if *key == 0 || *key == NONE { 0 } else { self.key_ends[*key as usize - 1] };
                sections[Section::Keys].extend_from_slice(&self.keys[start..end]);
                let end = sections[Section::Keys].len() as u64;
                sections[Section::KeyEnds].extend(end.to_le_bytes());
            }
        }
        if self.subscriptions.len() != subscribers.ends.len() {
            extend_words(&mut sections[Section::SlotEnds], subscribers.ends);
        }
        let mut by_id: Vec<_> = (0_u32..).zip(&self.subscriptions).map(|(place, (_, id, _))| (*id, place)).collect();
        by_id.sort_unstable();
        extend_words(&mut sections[Section::ById], by_id.into_iter().map(|(_, place)| place));
    }
}

/// Who subscribes to which query.
struct Subscribers {
    /// By place.
    ids: Vec<SubscriptionId>,
    /// Where the places of each slot end.
    ends: Vec<u32>,
}

impl Subscribers {
    fn places(&self, slot: Slot) -> Range<usize> {
        let start = (slot as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[slot as usize] as usize
    }
}

/// Of so many queries, each how many-th is enough to know what they are like.
#[must_use]
pub fn sample_step(queries: usize) -> usize {
    queries.div_ceil(SAMPLE).max(1)
}

fn sample(query: &Query, interner: &mut Interner) {
    if query.topic_pattern().is_some() {
        return;
    }
    let normal = Normal::of(query.expr(), false, interner);
    let tests = || normal.rows.iter().chain(normal.slots.iter().flatten());
    let demanded = tests().filter(|test| !test.is_open()).flat_map(|test| test.symbols.iter().copied());
    interner.sample(tests().map(|test| test.attribute), demanded);
}

/// A key's queries, in the order of their leaves.
struct Group {
    key: Option<Key>,
    queries: Vec<Slot>,
    /// Where its leaves end, among its queries.
    ends: Vec<usize>,
}

impl Group {
    fn of(key: Option<Key>, queries: Vec<Slot>) -> Self {
        let ends = Vec::new();
        Self { key, queries, ends }
    }

    /// Order the queries and cut them into leaves.
    fn cut(&mut self, normals: &[Normal], interner: &Interner) {
        if self.queries.len() <= LEAF {
            self.ends.extend((!self.queries.is_empty()).then_some(self.queries.len()));
            return;
        }
        (self.queries, self.ends) = cluster(&self.queries, normals, interner);
    }

    fn leaves(&self) -> impl Iterator<Item = &[Slot]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.queries[start..*end])
    }
}

/// Which query goes where.
struct Layout {
    /// Those of several leaves first; the common group, if there is one, before all others.
    groups: Vec<Group>,
    wide_leaf_count: usize,
    /// The final slot of each query.
    slots: Vec<Slot>,
    /// What would have to be looked for in bodies, and no query is filed under: it is left to evaluation, so that no
    /// body is looked through for nothing.
    unread: Vec<AttributeId>,
}

impl Layout {
    /// Every leaf with its group.
    fn leaves(&self) -> impl Iterator<Item = (&Group, &[Slot])> {
        self.groups.iter().flat_map(|group| group.leaves().map(move |leaf| (group, leaf)))
    }

    fn new(normals: &[Normal], topics: &[(Slot, TopicPattern)], interner: &Interner) -> Self {
        let mut common = Vec::new();
        let mut filed: Vec<(Key, Slot)> = Vec::new();
        for (slot, normal) in (0..).zip(normals).filter(|(_, normal)| !normal.is_never) {
            match normal.access.as_ref().filter(|access| is_worth(access.share, normal, interner)) {
                None => common.push(slot),
                Some(access) => filed.extend(access.keys.iter().map(|key| (*key, slot))),
            }
        }
        // In the order of keys, so that equal queries give equal files, byte for byte.
        filed.sort_unstable();
        let of_key = |filed: &[(Key, Slot)]| Group::of(Some(filed[0].0), filed.iter().map(|(_, slot)| *slot).collect());
        let filed: Vec<_> = filed.chunk_by(|a, b| a.0 == b.0).map(of_key).collect();
        let filed_under = |id: AttributeId| {
            filed.iter().any(|group| matches!(group.key, Some(Key::Symbol(s)) if interner.attribute_of(s) == id))
        };
        let bodies = (0..).zip(interner.attributes()).filter(|(_, attribute)| attribute.origin.is_of_body());
        let unread = bodies.map(|(id, _)| id).filter(|id| !filed_under(*id)).collect();
        let (mut wide, small): (Vec<_>, Vec<_>) = filed.into_iter().partition(|group| group.queries.len() > WIDE);
        // The common group is always the first, be it empty: nobody has to ask whether it is there.
        wide.insert(0, Group::of(None, common));
        let wide_count = wide.len();
        let mut groups: Vec<_> = wide.into_iter().chain(small).collect();
        groups.iter_mut().for_each(|group| group.cut(normals, interner));
        let wide_leaf_count = groups[..wide_count].iter().map(|group| group.ends.len()).sum();
        let slots = number(topics, &groups, normals.len());
        Self { groups, wide_leaf_count, slots, unread }
    }

    fn is_unread(&self, attribute: AttributeId) -> bool {
        self.unread.contains(&attribute)
    }
}

/// True when a query is better filed than left to the rows of the common group. Of what messages have several of, rows
/// rule out little.
fn is_worth(share: f64, normal: &Normal, interner: &Interner) -> bool {
    let is_single = |test: &Test| !interner.attributes()[test.attribute as usize].origin.is_several();
    let is_pruned = normal.rows.iter().any(|test| !test.is_open() && is_single(test))
        || normal.slots.iter().any(|tests| tests.iter().all(is_single));
    share <= if normal.has_rest || !normal.units.is_empty() || !is_pruned { SHARE_MAX_OF_REST } else { SHARE_MAX }
}

/// New numbers for queries, pure topic queries first, then in the order of the leaves, so that what lies together is
/// found together.
fn number(topics: &[(Slot, TopicPattern)], groups: &[Group], count: usize) -> Vec<Slot> {
    let mut slots = vec![NONE; count];
    let mut next = 0;
    let unfiled = (0..).take(count);
    let filed = groups.iter().flat_map(|group| group.queries.iter().copied());
    for slot in topics.iter().map(|(slot, _)| *slot).chain(filed).chain(unfiled) {
        let number = &mut slots[slot as usize];
        if *number == NONE {
            *number = next;
            next += 1;
        }
    }
    slots
}
