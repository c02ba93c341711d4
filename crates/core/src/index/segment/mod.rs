//! A segment: an immutable part of an engine, the same whether it was built in memory or mapped from a file.
//!
//! A message is first put in codes; then the groups of its keys and the common group are looked through, leaf by leaf;
//! what is left is a match, or is evaluated. A query is decoded when it is first needed, and kept.

pub mod attributes;
pub mod text_search;
pub mod tombstones;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::EngineError;
use crate::expensive::Opaque;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::message::{Body, Message, Resolved, Value, lookup_any_case};
use crate::query::Query;
use crate::topic::TopicPattern;
use crate::topic::trie::TopicTrie;

use crate::index::SubscriptionId;
use crate::index::codec::decode;
use crate::index::compile::builder::Slot;
use crate::index::compile::interner::{AttributeId, Known, NONE, Scalar, Term, find, find_hashed, prefetch_hashed};
use crate::index::compile::shared_predicates::UnitMemo;
use crate::index::compile::summary::RARE;
use crate::index::layout::cpu::{Work, at_full_width, prefetch};
use crate::index::layout::header::{Section, Sections};
use crate::index::layout::store::Store;
use crate::index::leaf::{Candidates, Word, ones, prefetch_end};
use crate::index::matching::field_hits::FieldsIndex;
use crate::index::matching::hashed_message::{Seen, SeenMessage, SeenProperty, SeenScalar};
use crate::index::matching::id_set::Unordered;
use crate::index::matching::scratch::{Code, Scratch};
use crate::index::segment::attributes::{AttributeInfo, Attributes, Named, TextAtoms};
use crate::index::segment::text_search::{Atoms, symbol_at, words_of};
use crate::index::segment::tombstones::Removed;
use crate::index::topics::automata::TrieId;
use crate::index::topics::lookup::{TopicSymbols, Topics};

/// Decoded queries are kept in chunks of this many, made when one is needed: opening allocates next to nothing.
const CHUNK: usize = 64;

/// A leaf is asked for while so many before it are looked through,
const AHEAD: usize = 4;
/// and so many of its cache lines; its end, which the head leads to, one leaf before.
const LINES_AHEAD: usize = 4;

/// Looking a name up in a message costs so many times what it costs to see that a property of a message is none that
/// the segment knows.
const LOOK_UP_COST: usize = 4;

type Chunk = Box<[OnceLock<Arc<Query>>]>;

/// The state that a message sees.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// The hierarchies as they are.
    pub hierarchies: &'a Hierarchies,
    /// The version's number: what was removed later is still there.
    pub version: u64,
}

/// Subscriptions, and an index over their queries.
#[derive(Debug)]
pub struct Segment {
    store: Store,
    attributes: Attributes,
    atoms: Atoms,
    opaques: Vec<Opaque>,
    /// Of its topic patterns.
    pub trie_id: TrieId,
    queries: Vec<OnceLock<Chunk>>,
    units: Vec<OnceLock<Query>>,
    place_count: usize,
    slot_count: usize,
    wide_leaf_count: usize,
    row_words: usize,
    /// What has been removed from it.
    pub removed: Removed,
    /// For hit counts; made when they are first asked for.
    pub fields_index: OnceLock<FieldsIndex>,
}

impl Segment {
    /// A segment of what a builder made.
    ///
    /// # Panics
    /// Never: a builder's sections are whole.
    pub fn of(sections: Sections, opaques: Vec<Opaque>) -> Self {
        Self::new(Store::Memory(sections), opaques).expect("a builder's sections are whole")
    }

    /// A segment of sections in memory or in a file.
    ///
    /// # Errors
    /// Damage in what is read at once: the names of attributes.
    pub fn new(store: Store, opaques: Vec<Opaque>) -> Result<Self, EngineError> {
        let attributes = Attributes::decode(store.whole(Section::Attributes)?)
            .map_err(|reason| store.damaged(&format!("its attributes cannot be read: {reason}")))?;
        let slot_count = store.length(Section::RecordEnds) / 8;
        let place_count = store.length(Section::Ids) / 8;
        let wide_leaf_count = usize::try_from(store.word(Section::Rows, 0)?).unwrap_or(usize::MAX);
        if wide_leaf_count > store.length(Section::LeafStarts) / 4 {
            return Err(store.damaged("its summary rows cover more leaves than there are"));
        }
        Ok(Self {
            attributes,
            atoms: Atoms::default(),
            opaques,
            trie_id: TrieId::default(),
            queries: (0..slot_count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(),
            units: (0..store.length(Section::UnitEnds) / 8).map(|_| OnceLock::new()).collect(),
            place_count,
            slot_count,
            wide_leaf_count,
            row_words: wide_leaf_count.div_ceil(64),
            removed: Removed::new(place_count),
            fields_index: OnceLock::new(),
            store,
        })
    }

    /// Add the ids of the subscriptions that are true of `message` to those of `scratch`, some perhaps twice: all but the
    /// pure topic queries. `topic` is what the topic is to the segment, as its functions for that found.
    ///
    /// # Errors
    /// A damaged file.
    pub fn match_into(
        &self,
        seen: &mut SeenMessage<'_, '_>,
        topic: &[(AttributeId, Known)],
        moment: Moment<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), EngineError> {
        self.encode(seen, topic, moment.hierarchies, scratch)?;
        let message = seen.message;
        let index = Index::of(&self.store)?;
        at_full_width(Scan { segment: self, index: &index, version: moment.version, scratch })?;
        let Scratch { codes, unsure, units, ids, .. } = scratch;
        units.begin(self.units.len());
        for &slot in &*unsure {
            // Of a list clauses say too little.
            let is_true = match self.rest(slot)? {
                Some(rest) if !codes.has_list => self.are_true(rest, message, moment.hierarchies, units)?,
                _ => self.query(slot)?.is_true(message, Some(moment.hierarchies)),
            };
            if is_true {
                let pushed = self.push_ids(&index, slot, moment.version, |id| ids.push(id));
                pushed.ok_or_else(|| self.contradiction())?;
            }
        }
        Ok(())
    }

    /// The units that decide a query whose clauses hold; None when the whole query has to be evaluated.
    fn rest(&self, slot: Slot) -> Result<Option<&[[u8; 4]]>, EngineError> {
        let (ends, rests) = (self.store.numbers(Section::RestEnds)?, self.store.numbers(Section::Rests)?);
        if ends.is_empty() {
            return Ok(None);
        }
        let slot = slot as usize;
        let end = |slot: usize| ends.get(slot).map(|end| u32::from_le_bytes(*end) as usize);
        let start = if slot == 0 { Some(0) } else { end(slot - 1) };
        let rest = start.zip(end(slot)).and_then(|(start, end)| rests.get(start..end));
        let rest = rest.ok_or_else(|| self.contradiction())?;
        Ok(Some(rest).filter(|rest| !rest.is_empty() && *rest != [NONE.to_le_bytes()]))
    }

    /// True when all of `units` are, each evaluated once for a message.
    fn are_true(
        &self,
        units: &[[u8; 4]],
        message: &Message<'_>,
        hierarchies: &Hierarchies,
        memo: &mut UnitMemo,
    ) -> Result<bool, EngineError> {
        for unit in units {
            let unit = u32::from_le_bytes(*unit);
            let evaluate = || Ok::<_, EngineError>(self.unit(unit)?.is_true(message, Some(hierarchies)));
            if !memo.is_true(unit, evaluate)?.ok_or_else(|| self.contradiction())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A unit, decoded the first time and kept.
    fn unit(&self, unit: u32) -> Result<&Query, EngineError> {
        let cell = self.units.get(unit as usize).ok_or_else(|| self.contradiction())?;
        if let Some(query) = cell.get() {
            return Ok(query);
        }
        let query = decode(self.store.item(Section::UnitEnds, Section::Units, unit as usize)?, &self.opaques)
            .map_err(|reason| self.store.damaged(&format!("the predicate {unit} cannot be read: {reason}")))?;
        Ok(cell.get_or_init(|| query))
    }

    /// Look through the leaves that are left: ids of queries that are decided go to `ids`, the others to `unsure`.
    #[inline(always)]
    fn scan_leaves(&self, index: &Index<'_>, version: u64, scratch: &mut Scratch) -> Result<(), EngineError> {
        let Scratch { codes, leaves, unsure, ids, .. } = scratch;
        unsure.clear();
        let is_whole = self.removed.count() == 0;
        for (number, &leaf) in leaves.iter().enumerate() {
            if let Some(later) = leaves.get(number + AHEAD) {
                prefetch::<LINES_AHEAD>(index.leaf(*later).unwrap_or_default());
            }
            if let Some(next) = leaves.get(number + 1).and_then(|next| index.leaf(*next)) {
                prefetch_end(next);
            }
            let Some(words) = index.leaf(leaf) else { return Err(self.contradiction()) };
            let Some(mut candidates) = Candidates::of(words, codes) else { return Err(self.contradiction()) };
            let Some(()) = candidates.compare(codes) else { return Err(self.contradiction()) };
            if candidates.alive == 0 {
                continue;
            }
            if codes.has_list {
                candidates.verify = u64::MAX;
            }
            let Some(()) = self.push_alive(index, &candidates, is_whole, version, unsure, ids) else {
                return Err(self.contradiction());
            };
        }
        Ok(())
    }

    /// Add the ids of a leaf's queries that are decided to `ids`, and the slots of the others to `unsure`.
    #[inline(always)]
    fn push_alive(
        &self,
        index: &Index<'_>,
        candidates: &Candidates<'_>,
        is_whole: bool,
        version: u64,
        unsure: &mut Vec<Slot>,
        ids: &mut Unordered,
    ) -> Option<()> {
        let (sure, answers) = (candidates.alive & !candidates.verify, candidates.answers()?);
        for bit in ones(candidates.alive & candidates.verify) {
            unsure.push(answers.slot(bit)?);
        }
        if is_whole {
            ids.push_chosen(sure & !answers.several, answers.numbers())?;
            for bit in ones(sure & answers.several) {
                match answers.list(bit)? {
                    Some(list) => ids.extend_narrow(list),
                    None => self.push_ids(index, answers.slot(bit)?, version, |id| ids.push(id))?,
                }
            }
            return Some(());
        }
        for bit in ones(sure) {
            match answers.placed(bit)? {
                (place, Some(list)) => {
                    let live = (place..).zip(list).filter(|(place, _)| self.removed.is_live(*place, version));
                    live.for_each(|(_, id)| ids.push_narrow(u32::from_le_bytes(*id)));
                }
                (_, None) => self.push_ids(index, answers.slot(bit)?, version, |id| ids.push(id))?,
            }
        }
        Some(())
    }

    #[inline(always)]
    fn push_ids(
        &self,
        index: &Index<'_>,
        slot: Slot,
        version: u64,
        mut push: impl FnMut(SubscriptionId),
    ) -> Option<()> {
        let places = index.places(slot)?;
        let is_whole = self.removed.count() == 0;
        for (place, id) in places.clone().zip(index.ids.get(places)?) {
            if is_whole || self.removed.is_live(place, version) {
                push(SubscriptionId(u64::from_le_bytes(*id)));
            }
        }
        Some(())
    }

    /// Its sections as slices.
    ///
    /// # Errors
    /// A damaged file.
    pub fn index(&self) -> Result<Index<'_>, EngineError> {
        Index::of(&self.store)
    }

    /// Say the ids of the live subscriptions to a query, ascending.
    ///
    /// # Errors
    /// A damaged file.
    pub fn for_each_id(
        &self,
        index: &Index<'_>,
        slot: Slot,
        version: u64,
        say: impl FnMut(SubscriptionId),
    ) -> Result<(), EngineError> {
        self.push_ids(index, slot, version, say).ok_or_else(|| self.contradiction())
    }

    /// True when there is something to be found about a topic alone.
    pub fn asks_about_topics(&self) -> bool {
        self.store.length(Section::Topics) > 0 || self.has_topic_symbols()
    }

    /// True when the topic may have symbols.
    pub fn has_topic_symbols(&self) -> bool {
        self.attributes.patterns.is_some() || !self.attributes.topic_atoms.is_empty()
    }

    /// True when there are queries that [`Self::match_into`] may find.
    pub fn has_leaves(&self) -> bool {
        self.store.length(Section::Leaves) > 0
    }

    /// How many bytes its topic patterns take.
    pub fn topic_bytes(&self) -> usize {
        self.store.length(Section::Topics)
    }

    /// Its topic patterns as a trie.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn trie(&self) -> Result<TopicTrie<'_>, EngineError> {
        TopicTrie::new(self.store.whole(Section::Topics)?).map_err(|reason| self.store.damaged(&reason))
    }

    /// Its topic patterns, and what each of them says.
    ///
    /// # Errors
    /// A damaged file.
    pub fn patterns(&self) -> Result<Patterns<'_>, EngineError> {
        let trie = self.trie()?;
        let parts = self.store.numbers(Section::Patterns)?;
        let pure = (trie.pattern_count() as usize).checked_sub(parts.len()).ok_or_else(|| self.contradiction())?;
        Ok(Patterns { segment: self, trie, index: Index::of(&self.store)?, parts, pure })
    }

    /// What a topic says that matches some of its patterns: append the ids of the pure topic queries to `ids`, in no
    /// particular order, and other patterns to `symbols`.
    ///
    /// # Errors
    /// A damaged file.
    pub fn find_patterns(
        &self,
        topic: &str,
        version: u64,
        work: &mut Topics,
        ids: &mut Vec<SubscriptionId>,
        symbols: &mut TopicSymbols,
    ) -> Result<(), EngineError> {
        if self.topic_bytes() == 0 {
            return Ok(());
        }
        let patterns = self.patterns()?;
        work.walk(self.trie_id, &patterns.trie, topic).map_err(|reason| self.store.damaged(&reason))?;
        patterns.meanings(&work.patterns, version, ids, symbols)
    }

    /// True when [`Self::find_in_topic`] may find something.
    pub fn looks_into_topics(&self) -> bool {
        !self.attributes.topic_atoms.is_empty()
    }

    /// Append all that stands in a topic to `symbols`.
    ///
    /// # Errors
    /// A damaged file.
    pub fn find_in_topic(&self, topic: &str, work: &mut Topics, symbols: &mut TopicSymbols) -> Result<(), EngineError> {
        let TextAtoms { needles, words } = self.attributes.topic_atoms;
        if let Some(needles) = needles {
            let mut add = |known| symbols.push((needles, known));
            self.atoms.needles(&self.store, needles, topic, &mut work.needles, &mut add)?;
        }
        if let Some(words) = words {
            words_of(&self.store, words, topic, &mut |known| symbols.push((words, known)))?;
        }
        Ok(())
    }

    fn contradiction(&self) -> EngineError {
        self.store.damaged("its index contradicts itself")
    }

    // ---- the message in codes -------------------------------------------------------------------------------------

    fn encode(
        &self,
        seen: &mut SeenMessage<'_, '_>,
        topic_symbols: &[(AttributeId, Known)],
        hierarchies: &Hierarchies,
        scratch: &mut Scratch,
    ) -> Result<(), EngineError> {
        let message = seen.message;
        scratch.codes.begin(self.attributes.all.len());
        scratch.groups.clear();
        let known = &self.attributes;
        if let Some(topic) = known.topic {
            self.encode_scalar(topic, &seen.topic, scratch)?;
        }
        topic_symbols.iter().for_each(|(attribute, known)| scratch.add(*attribute, *known));
        if known.name_count() * LOOK_UP_COST > message.properties.len() {
            let mut asked = std::mem::take(&mut scratch.asked);
            self.ask_for(seen.properties(), &mut asked)?;
            for (property, named) in &asked {
                self.encode_seen(*named, &seen.properties()[*property].seen, hierarchies, scratch)?;
            }
            scratch.asked = asked;
            // A literal name wins over what it reaches in a mapping; it has been seen above.
            for (name, named) in known.dotted().filter(|(name, _)| !message.properties.contains_key(*name)) {
                if let Some(seen) = seen.look_up(name) {
                    self.encode_seen(named, &seen, hierarchies, scratch)?;
                }
            }
        } else {
            for (name, named) in known.names() {
                if let Some(seen) = seen.look_up(name) {
                    self.encode_seen(named, &seen, hierarchies, scratch)?;
                }
            }
        }
        for (name, named) in &known.any_case {
            if let Some(found) = lookup_any_case(message.properties, name) {
                self.encode_seen(*named, &found.into(), hierarchies, scratch)?;
            }
        }
        if let Body::Text(body) = message.body {
            if let Some(needles) = known.body_atoms.needles {
                self.encode_needles(needles, body, scratch)?;
            }
            if let Some(words) = known.body_atoms.words {
                self.atoms.body_words(&self.store, words, message, body, &mut |known| scratch.add(words, known))?;
            }
        }
        scratch.codes.sort_several();
        Ok(())
    }

    /// Which of `properties` the segment knows, and as what. Their symbols lie all over the table: all are asked for
    /// before the first of them is looked up.
    #[inline]
    fn ask_for(&self, properties: &[SeenProperty<'_>], asked: &mut Vec<(usize, Named)>) -> Result<(), EngineError> {
        asked.clear();
        for (place, property) in properties.iter().enumerate() {
            let Some(named) = self.attributes.find(property.name, property.name_hash) else { continue };
            if let (Some(attribute), Some(scalar)) = (named.property, &property.seen.scalar) {
                prefetch_hashed(&self.store, attribute, scalar.hash())?;
            }
            asked.push((place, named));
        }
        Ok(())
    }

    #[inline]
    fn encode_seen(
        &self,
        named: Named,
        seen: &Seen<'_>,
        hierarchies: &Hierarchies,
        scratch: &mut Scratch,
    ) -> Result<(), EngineError> {
        if let Some(property) = named.property {
            self.encode_property(property, seen, scratch)?;
        }
        if !named.atoms.is_empty() {
            self.encode_texts(named.atoms, &seen.found, scratch)?;
        }
        let Some(ancestors) = named.ancestors else { return Ok(()) };
        let Some(hierarchy) = hierarchies.get(&*self.attributes.all[ancestors as usize].name) else { return Ok(()) };
        match &seen.found {
            Resolved::One(value) => self.encode_ancestors(ancestors, value, hierarchy, scratch),
            Resolved::Many(values) => {
                values.iter().try_for_each(|value| self.encode_ancestors(ancestors, value, hierarchy, scratch))
            }
        }
    }

    /// What stands in the texts of a property.
    fn encode_texts(
        &self,
        TextAtoms { needles, words }: TextAtoms,
        found: &Resolved<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), EngineError> {
        let values = match found {
            Resolved::One(value) => std::slice::from_ref(value),
            Resolved::Many(values) => values.as_slice(),
        };
        let texts = || {
            values.iter().filter_map(|value| match value {
                Value::Text(text) => Some(&**text),
                _ => None,
            })
        };
        if let Some(needles) = needles {
            texts().try_for_each(|text| self.encode_needles(needles, text, scratch))?;
        }
        if let Some(words) = words {
            let mut add = |known| scratch.add(words, known);
            texts().try_for_each(|text| words_of(&self.store, words, text, &mut add))?;
        }
        Ok(())
    }

    fn encode_needles(&self, attribute: AttributeId, text: &str, scratch: &mut Scratch) -> Result<(), EngineError> {
        let mut work = std::mem::take(&mut scratch.needles);
        let mut add = |known| scratch.add(attribute, known);
        let found = self.atoms.needles(&self.store, attribute, text, &mut work, &mut add);
        scratch.needles = work;
        found
    }

    #[inline]
    fn encode_property(
        &self,
        attribute: AttributeId,
        seen: &Seen<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), EngineError> {
        let info = &self.attributes.all[attribute as usize];
        if info.group != NONE {
            scratch.groups.push(info.group);
        }
        match &seen.found {
            Resolved::One(Value::Null) => scratch.codes.set(attribute, Code::Null),
            Resolved::One(Value::Present) => scratch.codes.set(attribute, Code::Valueless),
            Resolved::One(value) => {
                match &seen.scalar {
                    Some(scalar) => self.encode_scalar(attribute, scalar, scratch)?,
                    None => scratch.codes.set(attribute, Code::Other),
                }
                if info.has_ranges {
                    encode_number(attribute, value, scratch);
                }
            }
            Resolved::Many(values) => {
                for scalar in values.iter().filter_map(|value| Scalar::of(value)) {
                    if let Some(Known { group, .. }) = find(&self.store, attribute, scalar)?.filter(|s| s.group != NONE)
                    {
                        scratch.groups.push(group);
                    }
                }
                scratch.codes.set(attribute, Code::List);
            }
        }
        Ok(())
    }

    #[inline]
    fn encode_scalar(
        &self,
        attribute: AttributeId,
        seen: &SeenScalar<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), EngineError> {
        match find_hashed(&self.store, attribute, seen.scalar, seen.hash())? {
            None => scratch.codes.set(attribute, Code::Other),
            Some(known) => {
                scratch.codes.set_symbol(attribute, known);
                if known.group != NONE {
                    scratch.groups.push(known.group);
                }
            }
        }
        Ok(())
    }

    /// Everything that `value` is or is below. Cost: its depth.
    fn encode_ancestors(
        &self,
        attribute: AttributeId,
        value: &Value,
        hierarchy: &Hierarchy,
        scratch: &mut Scratch,
    ) -> Result<(), EngineError> {
        let Value::Text(text) = value else { return Ok(()) };
        for name in hierarchy.lineage(text) {
            if let Some(known) = find(&self.store, attribute, Scalar::Text(name))? {
                scratch.add(attribute, known);
            }
        }
        Ok(())
    }

    // ---- groups and leaves ----------------------------------------------------------------------------------------

    /// The leaves in which something can be true: those of the message's groups, but for what summary rows rule out.
    #[inline(always)]
    fn select_leaves(&self, index: &Index<'_>, scratch: &mut Scratch) -> Result<(), EngineError> {
        scratch.leaves.clear();
        scratch.groups.push(0);
        if scratch.groups.len() > 2 {
            scratch.groups.sort_unstable();
            scratch.groups.dedup();
        }
        self.collect_rows(index, scratch)?;
        for place in 0..scratch.groups.len() {
            let (first, end) = index.group(scratch.groups[place]).ok_or_else(|| self.contradiction())?;
            if end as usize <= self.wide_leaf_count {
                self.select_wide(index, first, end, scratch).ok_or_else(|| self.contradiction())?;
            } else {
                scratch.leaves.extend(first..end);
            }
        }
        Ok(())
    }

    /// The summary rows of the message: one for each attribute that rules leaves out.
    fn collect_rows(&self, index: &Index<'_>, scratch: &mut Scratch) -> Result<(), EngineError> {
        scratch.rows.clear();
        scratch.joined.clear();
        for &attribute in &self.attributes.with_rows {
            let info = &self.attributes.all[attribute as usize];
            let row = match scratch.codes.get(attribute) {
                None | Some(Code::List) => NONE,
                Some(Code::Absent) => info.rows[0],
                Some(Code::Null) => info.rows[1],
                Some(Code::Valueless) => info.rows[2],
                Some(Code::Other) => info.rows[3],
                Some(Code::Symbol(_)) => row_of(scratch.codes.row(attribute), info),
                Some(Code::Several(_)) => {
                    self.join_rows(index, attribute, info, scratch).ok_or_else(|| self.contradiction())?;
                    NONE
                }
            };
            if row == NONE {
                continue;
            }
            if row & RARE == 0 {
                scratch.rows.push(row);
            } else {
                self.build_row(index, row, info, &mut scratch.joined).ok_or_else(|| self.contradiction())?;
            }
        }
        Ok(())
    }

    /// Append the row of a rare value to `joined`.
    fn build_row(&self, index: &Index<'_>, row: u32, info: &AttributeInfo, joined: &mut Vec<u64>) -> Option<()> {
        let start = joined.len();
        joined.extend(
            index.row(info.rows[3], self.row_words, 0, self.row_words)?.iter().copied().map(u64::from_le_bytes),
        );
        for leaf in index.rare_row(row)? {
            let leaf = u32::from_le_bytes(*leaf);
            *joined[start..].get_mut(leaf as usize / 64)? ^= 1 << (leaf % 64);
        }
        Some(())
    }

    /// Several values of one attribute let in what any of them does.
    fn join_rows(
        &self,
        index: &Index<'_>,
        attribute: AttributeId,
        info: &AttributeInfo,
        scratch: &mut Scratch,
    ) -> Option<()> {
        let start = scratch.joined.len();
        scratch.joined.resize(start + self.row_words, 0);
        for row in scratch.codes.several(attribute).map(|known| row_of(known.row, info)).chain([info.rows[3]]) {
            if row == NONE {
                scratch.joined.truncate(start); // one that rules out nothing
                return Some(());
            }
            let joined = &mut scratch.joined[start..];
            if row & RARE == 0 {
                let row = index.row(row, self.row_words, 0, self.row_words)?;
                joined.iter_mut().zip(row).for_each(|(joined, word)| *joined |= u64::from_le_bytes(*word));
            } else {
                // What it rules out and other values do not is let in by those, which are joined too.
                for leaf in index.rare_row(row)? {
                    let leaf = u32::from_le_bytes(*leaf);
                    *joined.get_mut(leaf as usize / 64)? |= 1 << (leaf % 64);
                }
            }
        }
        Some(())
    }

    #[inline(always)]
    fn select_wide(&self, index: &Index<'_>, first: u32, end: u32, scratch: &mut Scratch) -> Option<()> {
        if first == end {
            return Some(());
        }
        let (from, to) = (first as usize / 64, (end as usize).div_ceil(64));
        let Scratch { rows, joined, left, leaves, .. } = scratch;
        left.clear();
        left.resize(to - from, u64::MAX);
        left[0] &= u64::MAX << (first % 64);
        if !end.is_multiple_of(64) {
            left[to - from - 1] &= u64::MAX >> (64 - end % 64);
        }
        for row in &*rows {
            let row = index.row(*row, self.row_words, from, to - from)?;
            left.iter_mut().zip(row).for_each(|(left, word)| *left &= u64::from_le_bytes(*word));
        }
        for row in joined.chunks(self.row_words) {
            left.iter_mut().zip(&row[from..to]).for_each(|(left, word)| *left &= word);
        }
        for (word, left) in (0_u32..).zip(left) {
            while *left != 0 {
                leaves.push((from as u32 + word) * 64 + left.trailing_zeros());
                *left &= *left - 1;
            }
        }
        Some(())
    }

    // ---- subscriptions and their queries ----------------------------------------------------------------------------

    /// How many subscriptions there are, removed ones included.
    pub fn place_count(&self) -> usize {
        self.place_count
    }

    /// How many distinct queries there are.
    pub fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// The places of the subscriptions to a query.
    ///
    /// # Errors
    /// A damaged file.
    pub fn places(&self, slot: Slot) -> Result<Range<usize>, EngineError> {
        let places = Index::of(&self.store)?.places(slot);
        places.filter(|places| places.end <= self.place_count).ok_or_else(|| self.contradiction())
    }

    /// The query that the subscription at `place` subscribes to.
    ///
    /// # Errors
    /// A damaged file.
    pub fn slot_of(&self, place: usize) -> Result<Slot, EngineError> {
        let fits = |slot| Slot::try_from(slot).map_err(|_| self.store.damaged("too many queries"));
        if self.store.length(Section::SlotEnds) == 0 {
            return fits(place);
        }
        fits(self.search(self.slot_count, |slot| Ok(self.store.number(Section::SlotEnds, slot)? as usize <= place))?)
    }

    /// How many of the first of `count` things `is_before`. Cost: a binary search.
    fn search(
        &self,
        count: usize,
        is_before: impl Fn(usize) -> Result<bool, EngineError>,
    ) -> Result<usize, EngineError> {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle)? { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// The id of the subscription at `place`.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn id(&self, place: usize) -> Result<SubscriptionId, EngineError> {
        Ok(SubscriptionId(self.store.word(Section::Ids, place)?))
    }

    /// The place of `id`, removed or not. Cost: a binary search, where there are ids on both sides of it.
    ///
    /// # Errors
    /// A damaged file.
    pub fn find(&self, id: SubscriptionId) -> Result<Option<usize>, EngineError> {
        let place = |rank| Ok::<_, EngineError>(self.store.number(Section::ById, rank)? as usize);
        let Some(last) = self.place_count.checked_sub(1) else { return Ok(None) };
        if id < self.id(place(0)?)? || id > self.id(place(last)?)? {
            return Ok(None);
        }
        let rank = self.search(self.place_count, |rank| Ok(self.id(place(rank)?)? < id))?;
        if rank == self.place_count {
            return Ok(None); // of a damaged file
        }
        let place = place(rank)?;
        Ok((self.id(place)? == id).then_some(place))
    }

    /// Every place, by ascending id.
    pub fn places_by_id(&self) -> impl Iterator<Item = Result<usize, EngineError>> {
        (0..self.place_count).map(|rank| Ok(self.store.number(Section::ById, rank)? as usize))
    }

    /// The query of a slot, decoded the first time and kept.
    ///
    /// # Errors
    /// A damaged file.
    pub fn query(&self, slot: Slot) -> Result<&Arc<Query>, EngineError> {
        let place = slot as usize;
        let beyond = || self.store.damaged("a slot is beyond its count");
        let chunk = self.queries.get(place / CHUNK).ok_or_else(beyond)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        let cell = &chunk[place % CHUNK];
        if let Some(query) = cell.get() {
            return Ok(query);
        }
        let query = Arc::new(self.decode(slot)?);
        Ok(cell.get_or_init(|| query))
    }

    /// The query of a slot, if it has been kept.
    pub fn kept(&self, slot: Slot) -> Option<&Arc<Query>> {
        self.queries.get(slot as usize / CHUNK)?.get()?[slot as usize % CHUNK].get()
    }

    /// Keep the queries that it was made of, so that they need not be decoded when it is merged. Worth it for a few.
    pub fn keep<'q>(&self, queries: impl Iterator<Item = (Slot, &'q Arc<Query>)>) {
        for (slot, query) in queries {
            let slot = slot as usize;
            let chunk = self.queries[slot / CHUNK].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
            _ = chunk[slot % CHUNK].set(Arc::clone(query)); // an equal one may be there
        }
    }

    /// The query of a slot, decoded and not kept.
    ///
    /// # Errors
    /// A damaged file.
    pub fn decode(&self, slot: Slot) -> Result<Query, EngineError> {
        decode(self.store.item(Section::RecordEnds, Section::Records, slot as usize)?, &self.opaques)
            .map_err(|reason| self.store.damaged(&format!("the query in slot {slot} cannot be read: {reason}")))
    }

    /// The key that was saved for the subscription at `place`; None when there are no keys.
    ///
    /// # Errors
    /// A damaged file.
    pub fn key(&self, place: usize) -> Result<Option<&[u8]>, EngineError> {
        if self.store.length(Section::KeyEnds) == 0 {
            return Ok(None);
        }
        self.store.item(Section::KeyEnds, Section::Keys, place).map(Some)
    }

    /// Slots of the fields queries, ascending.
    ///
    /// # Errors
    /// A damaged file.
    pub fn fields(&self) -> Result<impl Iterator<Item = Slot>, EngineError> {
        Ok(self.store.whole(Section::Fields)?.as_chunks::<4>().0.iter().map(|slot| Slot::from_le_bytes(*slot)))
    }

    /// Where its bytes are.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

/// The topic patterns of a segment: first those of its pure topic queries, which have the first slots, then those that
/// are a part of a query, each a symbol.
pub struct Patterns<'a> {
    segment: &'a Segment,
    trie: TopicTrie<'a>,
    index: Index<'a>,
    /// Places in the table.
    parts: &'a [[u8; 4]],
    pure: usize,
}

impl Patterns<'_> {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.trie.pattern_count()
    }

    fn symbol(&self, part: usize) -> Result<(Option<Term<'_>>, Known), EngineError> {
        symbol_at(&self.segment.store, u32::from_le_bytes(self.parts[part]))
    }

    /// The pattern with this number, which is less than their count.
    ///
    /// # Errors
    /// A damaged file.
    pub fn pattern(&self, number: u32) -> Result<TopicPattern, EngineError> {
        let pattern = match (number as usize).checked_sub(self.pure) {
            None => match self.segment.kept(number) {
                Some(query) => query.topic_pattern().cloned(),
                None => self.segment.decode(number)?.topic_pattern().cloned(),
            },
            Some(part) => match self.symbol(part)?.0 {
                Some(Term::Pattern(dialect, text)) => Some(TopicPattern::new(text, dialect)),
                _ => None,
            },
        };
        pattern.ok_or_else(|| self.segment.contradiction())
    }

    /// Append what the patterns with these numbers say.
    ///
    /// # Errors
    /// A damaged file.
    pub fn meanings(
        &self,
        numbers: &[u32],
        version: u64,
        ids: &mut Vec<SubscriptionId>,
        symbols: &mut TopicSymbols,
    ) -> Result<(), EngineError> {
        let before = ids.len();
        for &number in numbers {
            self.meaning(number, version, ids, symbols)?;
            if ids.len() - before > self.segment.place_count {
                return Err(self.segment.contradiction()); // places that belong to several queries
            }
        }
        Ok(())
    }

    /// Append what the pattern with this number says: ids, or a symbol.
    ///
    /// # Errors
    /// A damaged file.
    pub fn meaning(
        &self,
        number: u32,
        version: u64,
        ids: &mut Vec<SubscriptionId>,
        symbols: &mut TopicSymbols,
    ) -> Result<(), EngineError> {
        match (number as usize).checked_sub(self.pure) {
            None => self.segment.for_each_id(&self.index, number, version, |id| ids.push(id)),
            Some(part) => {
                let (_, known) = self.symbol(part)?;
                symbols.extend(self.segment.attributes.patterns.map(|attribute| (attribute, known)));
                Ok(())
            }
        }
    }
}

/// The part of a match that takes the time.
struct Scan<'a> {
    segment: &'a Segment,
    index: &'a Index<'a>,
    version: u64,
    scratch: &'a mut Scratch,
}

impl Work for Scan<'_> {
    type Output = Result<(), EngineError>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Self { segment, index, version, scratch } = self;
        segment.select_leaves(index, scratch)?;
        segment.scan_leaves(index, version, scratch)
    }
}

/// What a match goes through, as plain slices. Offsets may be damaged: each is checked when it is used.
pub struct Index<'a> {
    groups: &'a [Word],
    leaf_starts: &'a [[u8; 4]],
    leaves: &'a [Word],
    /// The count of leaves that rows cover, and the rows.
    rows: &'a [Word],
    rare_rows: &'a [[u8; 4]],
    slot_ends: &'a [[u8; 4]],
    ids: &'a [Word],
}

impl<'a> Index<'a> {
    #[inline]
    fn of(store: &'a Store) -> Result<Self, EngineError> {
        Ok(Self {
            groups: store.words(Section::Groups)?,
            leaf_starts: store.numbers(Section::LeafStarts)?,
            leaves: store.words(Section::Leaves)?,
            rows: store.words(Section::Rows)?,
            rare_rows: store.numbers(Section::RareRows)?,
            slot_ends: store.numbers(Section::SlotEnds)?,
            ids: store.words(Section::Ids)?,
        })
    }

    /// The first leaf of a group, and where its leaves end.
    #[inline(always)]
    fn group(&self, group: u32) -> Option<(u32, u32)> {
        let both = u64::from_le_bytes(*self.groups.get(group as usize)?);
        #[expect(clippy::cast_possible_truncation, reason = "two halves")]
        let (first, count) = (both as u32, (both >> 32) as u32);
        let end = first.checked_add(count)?;
        (end as usize <= self.leaf_starts.len()).then_some((first, end))
    }

    #[inline(always)]
    fn leaf(&self, leaf: u32) -> Option<&'a [Word]> {
        let leaf = leaf as usize;
        let (start, end) = (self.leaf_starts.get(leaf)?, self.leaf_starts.get(leaf + 1)?);
        self.leaves.get(u32::from_le_bytes(*start) as usize..u32::from_le_bytes(*end) as usize)
    }

    /// `count` words of a summary row of `row_words`, from word `first` on.
    #[inline(always)]
    fn row(&self, row: u32, row_words: usize, first: usize, count: usize) -> Option<&'a [Word]> {
        let start = (row as usize).checked_mul(row_words)?.checked_add(first + 1)?;
        self.rows.get(start..start.checked_add(count)?)
    }

    /// The leaves that set the row of a rare value apart.
    #[inline(always)]
    fn rare_row(&self, row: u32) -> Option<&'a [[u8; 4]]> {
        let start = (row & !RARE) as usize;
        let count = u32::from_le_bytes(*self.rare_rows.get(start)?) as usize;
        self.rare_rows.get(start + 1..(start + 1).checked_add(count)?)
    }

    #[inline(always)]
    fn places(&self, slot: Slot) -> Option<Range<usize>> {
        let slot = slot as usize;
        if self.slot_ends.is_empty() {
            return Some(slot..slot + 1);
        }
        let start = if slot == 0 { 0 } else { u32::from_le_bytes(*self.slot_ends.get(slot - 1)?) };
        Some(start as usize..u32::from_le_bytes(*self.slot_ends.get(slot)?) as usize)
    }
}

fn row_of(row: u32, info: &AttributeInfo) -> u32 {
    if row == NONE { info.rows[3] } else { row }
}

fn encode_number(attribute: AttributeId, value: &Value, scratch: &mut Scratch) {
    #[expect(clippy::cast_precision_loss, reason = "bounds are below 2^53, and rounding keeps a value on its side")]
    match value {
        Value::Int(value) => scratch.codes.set_number(attribute, false, *value as f64),
        Value::Float(value) => scratch.codes.set_number(attribute, false, *value),
        Value::Timestamp(micros) => scratch.codes.set_number(attribute, true, *micros as f64),
        _ => {}
    }
}
