//! The layout of a snapshot: a header page, sections, and a checksum of every page (docs/adr/0003).
//!
//! ```text
//! 0      magic, format version, file length, counts, the place of each section, CRC32C of all that
//! 4096   sections, each at a multiple of 8
//! end    CRC32C of each 4 KiB page of the sections
//! ```
//! All numbers are little-endian. Places are bytes from the start of the file.

use std::fmt::Display;

use super::pages::{PAGE_BYTES, page_count};

/// Like PNG's: a text-mode copy breaks it visibly.
pub const MAGIC: [u8; 8] = *b"TAMIS\r\n\x1a";
/// The only version so far.
pub const VERSION: u32 = 1;
/// The header takes one page, zeros after what it says.
pub const HEADER_BYTES: usize = PAGE_BYTES;
const CHECKSUM_PLACE: usize = HEADER_BYTES - 4;

/// The sections in the order in which they lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Ids of the subscriptions, ascending, 8 bytes each. A subscription's slot is its place here.
    Ids,
    /// Where each subscription's record ends in `Records`, 8 bytes each.
    RecordEnds,
    /// The queries (`codec.rs`).
    Records,
    /// Names of the properties that access keys ask about.
    Attributes,
    /// Open addressing, linear probing, a power of two of entries: hash (8), start in `Postings` (4), count (4);
    /// an entry of count 0 is empty.
    Table,
    /// Slots, 4 bytes each.
    Postings,
    /// Slots of the queries without an access key.
    Common,
    /// Slots of the fields queries.
    Fields,
    /// Where each subscription's key ends in `Keys`, 8 bytes each.
    KeyEnds,
    /// The keys, opaque.
    Keys,
    /// Attributes with their values and parents.
    Hierarchies,
}

/// How many sections there are.
pub const SECTION_COUNT: usize = Section::Hierarchies as usize + 1;
/// Bytes of an entry of [`Section::Table`].
pub const TABLE_ENTRY_BYTES: usize = 16;

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
    pub count: usize,
    /// How many names [`Section::Attributes`] has.
    pub attribute_count: usize,
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
        for number in [self.file_bytes(), self.count, self.attribute_count] {
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
        let (count, attribute_count) = (number(24)?, number(32)?);
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
        let header = Self { count, attribute_count, next_id: word(&page[40..48]), sections };
        (word(&page[12..16]) == SECTION_COUNT as u64 && header.is_consistent(file_bytes)).then_some(header)
    }

    fn is_consistent(&self, file_bytes: usize) -> bool {
        let length = |section| self.extent(section).length;
        let table_entries = length(Section::Table) / TABLE_ENTRY_BYTES;
        self.body_end() <= file_bytes
            && self.file_bytes() == file_bytes
            && u32::try_from(self.count).is_ok()
            && [Section::Ids, Section::RecordEnds, Section::KeyEnds].map(length) == [self.count * 8; 3]
            && [Section::Postings, Section::Common, Section::Fields].into_iter().all(|s| length(s).is_multiple_of(4))
            && length(Section::Table).is_multiple_of(TABLE_ENTRY_BYTES)
            && (table_entries == 0 || table_entries.is_power_of_two())
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
