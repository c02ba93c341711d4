//! The layout of a snapshot: a header page, sections, and a checksum of every page (docs/adr/0003, docs/adr/0012).
//!
//! ```text
//! 0      magic, format version, file length, counts, the place of each section, CRC32C of all that
//! 4096   sections, each at a multiple of 8
//! end    CRC32C of each 4 KiB page of the sections
//! ```
//! All numbers are little-endian. Places are bytes from the start of the file.

use std::fmt::Display;
use std::ops::{Index, IndexMut};

use crate::index::compile::interner::ENTRY_BYTES;
use crate::index::layout::pages::{PAGE_BYTES, page_count};

/// Like PNG's: a text-mode copy breaks it visibly.
pub const MAGIC: [u8; 8] = *b"TAMIS\r\n\x1a";
/// The version that is written, and the only one that is read: earlier ones had another index.
pub const VERSION: u32 = 7;
/// The header takes one page, zeros after what it says.
pub const HEADER_BYTES: usize = PAGE_BYTES;
const CHECKSUM_PLACE: usize = HEADER_BYTES - 4;

/// The sections in the order in which they lie in the file. A *slot* is a distinct query, a *place* a subscription;
/// places go by slot, then by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Id of the subscription at each place, 8 bytes each.
    Ids,
    /// The places in ascending order of their ids, 4 bytes each.
    ById,
    /// Where the places of each slot end, 4 bytes each; empty when every slot has one place.
    SlotEnds,
    /// Where each slot's record ends in `Records`, 8 bytes each.
    RecordEnds,
    /// The queries (`codec/`).
    Records,
    /// Slots of the fields queries, 4 bytes each, ascending.
    Fields,
    /// The attributes (`attributes.rs`).
    Attributes,
    /// The table of symbols (`symbols.rs`).
    Table,
    /// Values that are too long for the table.
    Pool,
    /// The needles, and those words that are few: attribute and place in the table, 4 bytes each, ascending.
    Atoms,
    /// The trie of topic patterns (`topic/trie`): first the pure topic queries, which have the first slots, then those
    /// that are a part of a query.
    Topics,
    /// The place in the table of each of these, 4 bytes each.
    Patterns,
    /// First leaf and count of leaves of each group, 4 bytes each; the common group is the first.
    Groups,
    /// Where each leaf begins in `Leaves`, in words, and where the last one ends; 4 bytes each.
    LeafStarts,
    /// The leaves (`leaf.rs`).
    Leaves,
    /// The count of leaves that summary rows cover, and the rows, one after the other (`summary.rs`).
    Rows,
    /// Summary rows of rare values, as what sets them apart: a count, and so many leaves; 4 bytes each.
    RareRows,
    /// The predicates that are no clauses, as queries (`units.rs`).
    Units,
    /// Where each of them ends in `Units`, 8 bytes each.
    UnitEnds,
    /// Where the units of each slot end in `Rests`, 4 bytes each; empty when there are none.
    RestEnds,
    /// Units of the slots, 4 bytes each; all ones where the whole query has to be evaluated.
    Rests,
    /// Names and costs of the expensive predicates that records name by place.
    Opaques,
    /// Where the key of each place ends in `Keys`, 8 bytes each; empty when there are no keys.
    KeyEnds,
    /// The keys, as they were given.
    Keys,
    /// Hierarchies of attributes: values with their parents.
    Hierarchies,
}

/// How many sections there are.
pub const SECTION_COUNT: usize = Section::Hierarchies as usize + 1;

/// Sections in memory.
#[derive(Clone, Debug, Default)]
pub struct Sections([Vec<u8>; SECTION_COUNT]);

impl Sections {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl Index<Section> for Sections {
    type Output = Vec<u8>;

    fn index(&self, section: Section) -> &Vec<u8> {
        &self.0[section as usize]
    }
}

impl IndexMut<Section> for Sections {
    fn index_mut(&mut self, section: Section) -> &mut Vec<u8> {
        &mut self.0[section as usize]
    }
}

/// Append numbers of four bytes.
pub fn extend_words(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = u32>) {
    numbers.into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}

/// A section's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte in the file.
    pub offset: usize,
    /// How many bytes it has.
    pub length: usize,
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How many subscriptions.
    pub place_count: usize,
    /// How many distinct queries.
    pub slot_count: usize,
    /// The id that the next new subscription gets.
    pub next_id: u64,
    /// Where the sections are.
    pub sections: [Extent; SECTION_COUNT],
}

impl Header {
    /// The place of `section`.
    #[must_use]
    pub fn extent(&self, section: Section) -> Extent {
        self.sections[section as usize]
    }

    /// Where the sections end and the checksums begin.
    #[must_use]
    pub fn body_end(&self) -> usize {
        let Extent { offset, length } = self.extent(Section::Hierarchies);
        offset + length
    }

    fn file_bytes(&self) -> usize {
        self.body_end() + 4 * page_count(self.body_end() - HEADER_BYTES)
    }

    /// The header page.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(HEADER_BYTES);
        page.extend(MAGIC);
        page.extend(VERSION.to_le_bytes());
        page.extend((SECTION_COUNT as u32).to_le_bytes());
        for number in [self.file_bytes(), self.place_count, self.slot_count] {
            page.extend((number as u64).to_le_bytes());
        }
        page.extend(self.next_id.to_le_bytes());
        for Extent { offset, length } in self.sections {
            page.extend((offset as u64).to_le_bytes());
            page.extend((length as u64).to_le_bytes());
        }
        page.resize(CHECKSUM_PLACE, 0);
        page.extend(crc32c::crc32c(&page).to_le_bytes());
        page
    }

    /// Read the header of `file`, all its bytes, and check that it is whole.
    ///
    /// # Errors
    /// What was found, and what was expected.
    pub fn decode(file: &[u8]) -> Result<Self, String> {
        if file.get(..8) != Some(&MAGIC) {
            return Err(format!("is no snapshot of tamis: it does not begin with {}", MAGIC.escape_ascii()));
        }
        let version = file.get(8..12).map(|bytes| word(bytes) as u32);
        if let Some(version) = version.filter(|version| *version != VERSION) {
            return Err(format!(
                "has format version {version}, and this tamis reads version {VERSION}: \
                 upgrade tamis, or save the queries again with this version"
            ));
        }
        let page = file.get(..HEADER_BYTES).ok_or_else(|| cut(HEADER_BYTES, file.len()))?;
        if word(&page[CHECKSUM_PLACE..]) != u64::from(crc32c::crc32c(&page[..CHECKSUM_PLACE])) {
            return Err("is damaged: the checksum of its header does not fit".to_owned());
        }
        let expected = word(&page[16..24]);
        if expected != file.len() as u64 {
            return Err(cut(expected, file.len()));
        }
        Self::decode_page(page, file.len()).ok_or_else(|| "is damaged: its header contradicts itself".to_owned())
    }

    /// The header of a page whose checksum fits; None when it describes no file that could be.
    fn decode_page(page: &[u8], file_bytes: usize) -> Option<Self> {
        let number = |place: usize| usize::try_from(word(&page[place..place + 8])).ok();
        let (place_count, slot_count) = (number(24)?, number(32)?);
        let mut sections = [Extent::default(); SECTION_COUNT];
        let mut end = HEADER_BYTES;
        for (index, section) in sections.iter_mut().enumerate() {
            let place = 48 + 16 * index;
            *section = Extent { offset: number(place)?, length: number(place + 8)? };
            if section.offset < end {
                return None;
            }
            end = section.offset.checked_add(section.length)?;
        }
        let header = Self { place_count, slot_count, next_id: word(&page[40..48]), sections };
        (word(&page[12..16]) == SECTION_COUNT as u64 && header.is_consistent(file_bytes)).then_some(header)
    }

    fn is_consistent(&self, file_bytes: usize) -> bool {
        let length = |section| self.extent(section).length;
        let has = |section, count: usize, size| count.checked_mul(size) == Some(length(section));
        let has_or_none = |section, count, size| length(section) == 0 || has(section, count, size);
        let entries = length(Section::Table) / ENTRY_BYTES;
        self.body_end() <= file_bytes
            && self.file_bytes() == file_bytes
            && u32::try_from(self.place_count).is_ok()
            && u32::try_from(self.slot_count).is_ok()
            && has(Section::Ids, self.place_count, 8)
            && has(Section::ById, self.place_count, 4)
            && has_or_none(Section::SlotEnds, self.slot_count, 4)
            && has(Section::RecordEnds, self.slot_count, 8)
            && has_or_none(Section::RestEnds, self.slot_count, 4)
            && has_or_none(Section::KeyEnds, self.place_count, 8)
            && [Section::Fields, Section::LeafStarts, Section::Patterns]
                .into_iter()
                .all(|section| length(section).is_multiple_of(4))
            && [Section::Groups, Section::Leaves, Section::Rows, Section::Atoms]
                .into_iter()
                .all(|s| length(s).is_multiple_of(8))
            && has(Section::Table, entries, ENTRY_BYTES)
            && (entries == 0 || entries.is_power_of_two())
    }
}

fn cut(expected: impl Display, found: usize) -> String {
    format!("is damaged: it has {found} bytes, and {expected} were expected")
}

/// Up to eight bytes as a number.
#[must_use]
pub fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
