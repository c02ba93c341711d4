//! Where the bytes of a segment are: in memory, or in a mapped file whose pages are checked when they are first read.

use crate::error::EngineError;

use super::format::{Header, SECTION_COUNT, Section, Sections};
use super::pages::Pages;
use super::prefetch::prefetch;

/// The sections of a segment.
#[derive(Debug)]
pub enum Store {
    /// Built here.
    Memory(Sections),
    /// Opened from a snapshot.
    Mapped(Pages, Header),
}

impl Store {
    /// How many bytes a section has.
    pub fn length(&self, section: Section) -> usize {
        match self {
            Self::Memory(sections) => sections[section].len(),
            Self::Mapped(_, header) => header.extent(section).length,
        }
    }

    /// `length` bytes at `start` within `section`.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn part(&self, section: Section, start: usize, length: usize) -> Result<&[u8], EngineError> {
        let beyond = || self.damaged(&format!("byte {start} of {section:?} is beyond its end"));
        match self {
            Self::Memory(sections) => {
                let end = start.checked_add(length).ok_or_else(beyond)?;
                sections[section].get(start..end).ok_or_else(beyond)
            }
            Self::Mapped(pages, header) => {
                let extent = header.extent(section);
                let end = start.checked_add(length).filter(|end| *end <= extent.length);
                end.ok_or_else(beyond)?;
                pages.read(extent.offset + start, length)
            }
        }
    }

    /// Ask for the memory at `start` within `section`, if it is there.
    #[inline]
    pub fn prefetch(&self, section: Section, start: usize) {
        if let Self::Memory(sections) = self {
            prefetch(sections[section].get(start..).unwrap_or_default(), 1);
        }
    }

    /// A whole section.
    ///
    /// # Errors
    /// A damaged file.
    pub fn whole(&self, section: Section) -> Result<&[u8], EngineError> {
        self.part(section, 0, self.length(section))
    }

    /// The four bytes at `index` of a section of such numbers.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn number(&self, section: Section, index: usize) -> Result<u32, EngineError> {
        let bytes = self.part(section, index.saturating_mul(4), 4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The eight bytes at `index` of a section of such numbers.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn word(&self, section: Section, index: usize) -> Result<u64, EngineError> {
        let bytes = self.part(section, index.saturating_mul(8), 8)?;
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word))
    }

    /// The bytes of one of `items`, which end where `ends` says and begin where the one before ends.
    ///
    /// # Errors
    /// A damaged file.
    pub fn item(&self, ends: Section, items: Section, index: usize) -> Result<&[u8], EngineError> {
        let start = if index == 0 { 0 } else { self.word(ends, index - 1)? };
        let end = self.word(ends, index)?;
        let sizes = usize::try_from(start).ok().zip(end.checked_sub(start).and_then(|n| usize::try_from(n).ok()));
        let (start, length) = sizes.ok_or_else(|| self.damaged("an item ends before it begins"))?;
        self.part(items, start, length)
    }

    /// Check every page.
    ///
    /// # Errors
    /// The first that is not as it was written.
    pub fn check_all(&self) -> Result<(), EngineError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Mapped(pages, _) => pages.check_all(),
        }
    }

    /// How many bytes there are in all.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Memory(sections) => sections.iter().map(<[u8]>::len).sum(),
            Self::Mapped(_, header) => (0..SECTION_COUNT).map(|place| header.sections[place].length).sum(),
        }
    }

    /// The error for bytes that are not as they were written.
    pub fn damaged(&self, what: &str) -> EngineError {
        match self {
            Self::Memory(_) => EngineError::Snapshot(format!("the index in memory contradicts itself: {what}")),
            Self::Mapped(pages, _) => pages.damaged(what),
        }
    }
}
