//! The part of an engine that is mapped from a snapshot: read in place, never changed; a removed subscription is only
//! marked. A query is decoded when it is first a candidate, and kept.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::EngineError;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::message::Message;
use crate::query::Query;

use super::SubscriptionId;
use super::access::probe;
use super::codec::{Reader, decode};
use super::format::{Extent, HEADER_BYTES, Header, Section, TABLE_ENTRY_BYTES, word};
use super::map::map_file;
use super::pages::Pages;
use super::postings::Slot;
use super::scratch::Scratch;
use super::snapshot::in_snapshot;

/// Decoded queries are kept in chunks of this many, made when one is needed: opening allocates next to nothing.
const CHUNK: usize = 64;

type Chunk = Box<[OnceLock<Arc<Query>>]>;

/// Subscriptions in a mapped file.
#[derive(Debug)]
pub struct Base {
    pages: Pages,
    header: Header,
    queries: Vec<OnceLock<Chunk>>,
    /// By slot; empty until the first removal.
    removed: Vec<bool>,
    removed_count: usize,
}

impl Base {
    /// Map the file at `path` and check magic, version, length and the header's checksum; with `verify`, everything.
    ///
    /// # Errors
    /// A file that is no snapshot, is of another version or damaged, or that cannot be read.
    pub fn open(path: &Path, verify: bool) -> Result<Self, EngineError> {
        let refuse = |reason: &str| EngineError::Snapshot(format!("'{}' {reason}", path.display()));
        let file = std::fs::File::open(path).map_err(|error| in_snapshot("open", path, &error))?;
        let metadata = file.metadata().map_err(|error| in_snapshot("open", path, &error))?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(refuse("is no snapshot of tamis: it is empty, or no file"));
        }
        let map = map_file(&file).map_err(|error| in_snapshot("map", path, &error))?;
        let header = Header::decode(&map).map_err(|reason| refuse(&reason))?;
        let queries = (0..header.count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        let pages = Pages::new(map, path, HEADER_BYTES, header.body_end());
        let base = Self { pages, header, queries, removed: Vec::new(), removed_count: 0 };
        if verify {
            base.verify()?;
        }
        Ok(base)
    }

    /// Check every page, and that every query can be read.
    fn verify(&self) -> Result<(), EngineError> {
        self.pages.check_all()?;
        self.live().try_for_each(|slot| self.decode(slot).map(|_| ()))
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header.count - self.removed_count
    }

    /// The id that the next new subscription gets.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.header.next_id
    }

    /// Slots of the subscriptions that have not been removed, ascending, and so are their ids.
    pub fn live(&self) -> impl Iterator<Item = Slot> {
        #[expect(clippy::cast_possible_truncation, reason = "the count is checked to fit when opening")]
        let count = self.header.count as Slot;
        (0..count).filter(|slot| !self.is_removed(*slot))
    }

    fn is_removed(&self, slot: Slot) -> bool {
        self.removed.get(slot as usize).copied().unwrap_or(false)
    }

    /// Mark a subscription as removed.
    pub fn remove(&mut self, slot: Slot) {
        if self.removed.is_empty() {
            self.removed = vec![false; self.header.count];
        }
        let mark = &mut self.removed[slot as usize];
        self.removed_count += usize::from(!*mark);
        *mark = true;
    }

    /// The id of a slot.
    ///
    /// # Errors
    /// A damaged file.
    pub fn id(&self, slot: Slot) -> Result<SubscriptionId, EngineError> {
        Ok(SubscriptionId(self.word(Section::Ids, slot as usize)?))
    }

    /// The slot of `id`, removed or not. Cost: a binary search.
    ///
    /// # Errors
    /// A damaged file.
    pub fn find(&self, id: SubscriptionId) -> Result<Option<Slot>, EngineError> {
        let (mut low, mut high) = (0, self.header.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.word(Section::Ids, middle)? < id.0 { low = middle + 1 } else { high = middle }
        }
        let found = low < self.header.count && self.word(Section::Ids, low)? == id.0;
        Ok(found.then(|| Slot::try_from(low).expect("the count is checked to fit when opening")))
    }

    /// The slot of `id`, if it has not been removed.
    ///
    /// # Errors
    /// A damaged file.
    pub fn find_live(&self, id: SubscriptionId) -> Result<Option<Slot>, EngineError> {
        Ok(self.find(id)?.filter(|slot| !self.is_removed(*slot)))
    }

    /// The query of a slot, decoded the first time and kept.
    ///
    /// # Errors
    /// A damaged file.
    pub fn query(&self, slot: Slot) -> Result<&Arc<Query>, EngineError> {
        let place = slot as usize;
        let chunk = self.queries.get(place / CHUNK).ok_or_else(|| self.pages.damaged("a slot is beyond its count"))?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        let cell = &chunk[place % CHUNK];
        if let Some(query) = cell.get() {
            return Ok(query);
        }
        let query = Arc::new(self.decode(slot)?);
        Ok(cell.get_or_init(|| query))
    }

    /// The query of a slot, decoded and not kept.
    ///
    /// # Errors
    /// A damaged file.
    pub fn decode(&self, slot: Slot) -> Result<Query, EngineError> {
        decode(self.item(Section::RecordEnds, Section::Records, slot)?, &[])
            .map_err(|reason| self.pages.damaged(&format!("the query in slot {slot} cannot be read: {reason}")))
    }

    /// The key that was saved for a slot.
    ///
    /// # Errors
    /// A damaged file.
    pub fn key(&self, slot: Slot) -> Result<&[u8], EngineError> {
        self.item(Section::KeyEnds, Section::Keys, slot)
    }

    /// The hierarchies that were saved. Cost: linear in them.
    ///
    /// # Errors
    /// A damaged file.
    pub fn hierarchies(&self) -> Result<Hierarchies, EngineError> {
        let Extent { length, .. } = self.header.extent(Section::Hierarchies);
        let mut reader = Reader::new(self.part(Section::Hierarchies, 0, length)?, &[]);
        let mut hierarchies = Hierarchies::new();
        while !reader.rest.is_empty() {
            let (attribute, hierarchy) = self.hierarchy(&mut reader)?;
            hierarchies.insert(attribute, hierarchy);
        }
        Ok(hierarchies)
    }

    fn hierarchy(&self, reader: &mut Reader<'_>) -> Result<(String, Hierarchy), EngineError> {
        let mut read = || -> Result<_, String> {
            let attribute = reader.text()?.to_owned();
            let mut parents = std::collections::HashMap::new();
            for _ in 0..reader.count()? {
                let value = reader.text()?.to_owned();
                let parent = if reader.flag()? { Some(reader.text()?.to_owned()) } else { None };
                parents.insert(value, parent);
            }
            Ok((attribute, parents))
        };
        let damaged = |reason: &str| self.pages.damaged(&format!("its hierarchies cannot be read: {reason}"));
        let (attribute, parents) = read().map_err(|reason| damaged(&reason))?;
        let hierarchy = Hierarchy::new(parents).map_err(|error| damaged(&error.to_string()))?;
        Ok((attribute, hierarchy))
    }

    /// Append the ids of the subscriptions that `is_true` accepts, in no particular order, each once.
    ///
    /// # Errors
    /// A damaged file.
    pub fn match_into(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
        is_true: impl Fn(&Query) -> bool,
    ) -> Result<(), EngineError> {
        scratch.begin(self.header.count);
        probe(message, self.header.attribute_count, self.attributes()?, &mut scratch.probes)?;
        for index in 0..scratch.probes.len() {
            if let Some((start, count)) = self.list(scratch.probes[index])? {
                scratch.add_candidates(self.slots(Section::Postings, start, count)?);
            }
        }
        let common = self.whole(Section::Common)?;
        for slot in scratch.candidates.iter().copied().chain(common).filter(|slot| !self.is_removed(*slot)) {
            if is_true(self.query(slot)?) {
                matched.push(self.id(slot)?);
            }
        }
        Ok(())
    }

    /// Call `visit` with each fields query, in no particular order.
    ///
    /// # Errors
    /// A damaged file.
    pub fn visit_fields_queries(&self, mut visit: impl FnMut(SubscriptionId, &Query)) -> Result<(), EngineError> {
        for slot in self.whole(Section::Fields)?.filter(|slot| !self.is_removed(*slot)) {
            visit(self.id(slot)?, self.query(slot)?);
        }
        Ok(())
    }

    /// Names of the properties that access keys ask about.
    fn attributes(&self) -> Result<impl Iterator<Item = Result<&str, EngineError>>, EngineError> {
        let Extent { length, .. } = self.header.extent(Section::Attributes);
        let mut reader = Reader::new(self.part(Section::Attributes, 0, length)?, &[]);
        let read =
            move |_| reader.text().map_err(|reason| self.pages.damaged(&format!("the names of properties: {reason}")));
        Ok((0..self.header.attribute_count).map(read))
    }

    /// Where the slots filed under `hash` are in the postings: the first one's place, and how many.
    fn list(&self, hash: u64) -> Result<Option<(usize, usize)>, EngineError> {
        let entries = self.header.extent(Section::Table).length / TABLE_ENTRY_BYTES;
        for step in 0..entries {
            #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
            let place = (hash as usize).wrapping_add(step) & (entries - 1);
            let entry = self.part(Section::Table, place * TABLE_ENTRY_BYTES, TABLE_ENTRY_BYTES)?;
            let [start, count] = [&entry[8..12], &entry[12..16]].map(|bytes| word(bytes) as usize);
            if count == 0 {
                return Ok(None);
            }
            if word(&entry[..8]) == hash {
                return Ok(Some((start, count)));
            }
        }
        Ok(None)
    }

    fn whole(&self, section: Section) -> Result<impl Iterator<Item = Slot>, EngineError> {
        self.slots(section, 0, self.header.extent(section).length / 4)
    }

    fn slots(&self, section: Section, start: usize, count: usize) -> Result<impl Iterator<Item = Slot>, EngineError> {
        let bytes = self.part(section, start.saturating_mul(4), count.saturating_mul(4))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|slot| Slot::from_le_bytes(*slot)))
    }

    fn word(&self, section: Section, index: usize) -> Result<u64, EngineError> {
        self.part(section, index.saturating_mul(8), 8).map(word)
    }

    /// The bytes of one subscription in `items`, which end where `ends` says and begin where the one before ends.
    fn item(&self, ends: Section, items: Section, slot: Slot) -> Result<&[u8], EngineError> {
        let place = slot as usize;
        let start = if place == 0 { 0 } else { self.word(ends, place - 1)? };
        let end = self.word(ends, place)?;
        let sizes = usize::try_from(start).ok().zip(end.checked_sub(start).and_then(|n| usize::try_from(n).ok()));
        let (start, length) = sizes.ok_or_else(|| self.pages.damaged("an item ends before it begins"))?;
        self.part(items, start, length)
    }

    /// `length` bytes at `start` within `section`.
    fn part(&self, section: Section, start: usize, length: usize) -> Result<&[u8], EngineError> {
        let extent = self.header.extent(section);
        let end = start.checked_add(length).filter(|end| *end <= extent.length);
        end.ok_or_else(|| self.pages.damaged(&format!("byte {start} of {section:?} is beyond its end")))?;
        self.pages.read(extent.offset + start, length)
    }
}
