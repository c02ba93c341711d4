//! The layout of a snapshot: a header page, sections, and a checksum of every page (docs/adr/0003, docs/adr/0012).
//!
//! ```text
//! 0      magic, format version, file length, counts, the extent of each section, CRC32C of all that
//! 4096   sections, each at a multiple of 8
//! end    CRC32C of each 4 KiB page of the sections
//! ```
//! All numbers are little-endian. Offsets are bytes from the start of the file.

use std::fmt::Display;

use super::bytes::word_of;
use super::pages::{PAGE_BYTES, page_count};
use super::sections::{SECTION_COUNT, SectionName};
use super::symbol_row::ROW_BYTES;

/// Like PNG's: a copy in text mode breaks it visibly.
pub const MAGIC: [u8; 8] = *b"TAMIS\r\n\x1a";
/// The version that is written, and the only one that is read: earlier ones had another index.
pub const VERSION: u32 = 15;
/// The header takes one page, padded with zeros.
pub const HEADER_BYTES: usize = PAGE_BYTES;
const CHECKSUM_OFFSET: usize = HEADER_BYTES - 4;

/// The range of a section in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionExtent {
    /// Its first byte in the file.
    pub offset: usize,
    /// The number of its bytes.
    pub length: usize,
}

/// The contents of the header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The number of subscriptions.
    pub position_count: usize,
    /// The number of distinct queries.
    pub query_count: usize,
    /// The id that the next new subscription gets.
    pub next_id: u64,
    /// The ranges of the sections.
    pub sections: [SectionExtent; SECTION_COUNT],
}

impl SnapshotHeader {
    /// The range of `section`.
    #[must_use]
    pub fn extent(&self, section: SectionName) -> SectionExtent {
        self.sections[section as usize]
    }

    /// The position at which the sections end and the checksums start.
    #[must_use]
    pub fn body_end(&self) -> usize {
        let SectionExtent { offset, length } = self.extent(SectionName::Hierarchies);
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
        for number in [self.file_bytes(), self.position_count, self.query_count] {
            page.extend((number as u64).to_le_bytes());
        }
        page.extend(self.next_id.to_le_bytes());
        for SectionExtent { offset, length } in self.sections {
            page.extend((offset as u64).to_le_bytes());
            page.extend((length as u64).to_le_bytes());
        }
        page.resize(CHECKSUM_OFFSET, 0);
        page.extend(crc32c::crc32c(&page).to_le_bytes());
        page
    }

    /// Read the header of `file`, all its bytes, and check that it is whole.
    ///
    /// # Errors
    /// The damage: what the file contains, and what was expected.
    pub fn decode(file: &[u8]) -> Result<Self, String> {
        if file.get(..8) != Some(&MAGIC) {
            return Err(format!("is no snapshot of tamis: it does not begin with {}", MAGIC.escape_ascii()));
        }
        let version = file.get(8..12).map(|bytes| word_of(bytes) as u32);
        if let Some(version) = version.filter(|version| *version != VERSION) {
            return Err(format!(
                "has format version {version}, and this tamis reads version {VERSION}: \
                 upgrade tamis, or save the queries again with this version"
            ));
        }
        let page = file.get(..HEADER_BYTES).ok_or_else(|| cut(HEADER_BYTES, file.len()))?;
        if word_of(&page[CHECKSUM_OFFSET..]) != u64::from(crc32c::crc32c(&page[..CHECKSUM_OFFSET])) {
            return Err("is damaged: its header's checksum does not match".to_owned());
        }
        let expected = word_of(&page[16..24]);
        if expected != file.len() as u64 {
            return Err(cut(expected, file.len()));
        }
        Self::decode_page(page, file.len()).ok_or_else(|| "is damaged: its header contradicts itself".to_owned())
    }

    /// The header of a page whose checksum fits; None when it describes an impossible file.
    fn decode_page(page: &[u8], file_bytes: usize) -> Option<Self> {
        let number = |offset: usize| usize::try_from(word_of(&page[offset..offset + 8])).ok();
        let (position_count, query_count) = (number(24)?, number(32)?);
        let mut sections = [SectionExtent::default(); SECTION_COUNT];
        let mut end = HEADER_BYTES;
        for (index, section) in sections.iter_mut().enumerate() {
            let start = 48 + 16 * index;
            *section = SectionExtent { offset: number(start)?, length: number(start + 8)? };
            if section.offset < end {
                return None;
            }
            end = section.offset.checked_add(section.length)?;
        }
        let header = Self { position_count, query_count, next_id: word_of(&page[40..48]), sections };
        (word_of(&page[12..16]) == SECTION_COUNT as u64 && header.is_consistent(file_bytes)).then_some(header)
    }

    fn is_consistent(&self, file_bytes: usize) -> bool {
        let length = |section| self.extent(section).length;
        let has = |section, count: usize, size| count.checked_mul(size) == Some(length(section));
        let has_or_none = |section, count, size| length(section) == 0 || has(section, count, size);
        let rows = length(SectionName::Symbols) / ROW_BYTES;
        self.body_end() <= file_bytes
            && self.file_bytes() == file_bytes
            && u32::try_from(self.position_count).is_ok()
            && u32::try_from(self.query_count).is_ok()
            && has(SectionName::Ids, self.position_count, 8)
            && has(SectionName::ById, self.position_count, 4)
            && has_or_none(SectionName::QueryEnds, self.query_count, 4)
            && has(SectionName::RecordEnds, self.query_count, 8)
            && has_or_none(SectionName::VerificationEnds, self.query_count, 4)
            && has_or_none(SectionName::KeyEnds, self.position_count, 8)
            && [SectionName::FieldsQueries, SectionName::LeafStarts, SectionName::PatternSymbols]
                .into_iter()
                .all(|section| length(section).is_multiple_of(4))
            && [
                SectionName::Groups,
                SectionName::Leaves,
                SectionName::Summaries,
                SectionName::Boxes,
                SectionName::Thresholds,
                SectionName::TextTerms,
            ]
            .into_iter()
            .all(|s| length(s).is_multiple_of(8))
            && has(SectionName::Symbols, rows, ROW_BYTES)
            && (rows == 0 || rows.is_power_of_two())
    }
}

fn cut(expected: impl Display, actual: usize) -> String {
    format!("is damaged: it has {actual} bytes, and {expected} were expected")
}
