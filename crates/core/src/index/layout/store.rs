//! Where the bytes of a segment are: in memory, or in a mapped file whose pages are checked when they are first read.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::EngineError;

use crate::index::layout::header::{Extent, Header, SECTION_COUNT, Section, Sections};
use crate::index::layout::pages::Pages;
use crate::index::leaf::Word;

/// The sections of a segment.
#[derive(Debug)]
pub enum Store {
    /// Built here.
    Memory(Sections),
    /// Opened from a snapshot; and which sections have been checked as a whole.
    Mapped(Pages, Header, [AtomicBool; SECTION_COUNT]),
}

impl Store {
    /// How many bytes a section has.
    pub fn length(&self, section: Section) -> usize {
        match self {
            Self::Memory(sections) => sections[section].len(),
            Self::Mapped(_, header, _) => header.extent(section).length,
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
            Self::Mapped(pages, header, _) => {
                let extent = header.extent(section);
                let end = start.checked_add(length).filter(|end| *end <= extent.length);
                end.ok_or_else(beyond)?;
                pages.read(extent.offset + start, length)
            }
        }
    }

    /// A whole section, whose pages are checked the first time.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn whole(&self, section: Section) -> Result<&[u8], EngineError> {
        match self {
            Self::Memory(sections) => Ok(&sections[section]),
            Self::Mapped(pages, header, checked) => {
                let Extent { offset, length } = header.extent(section);
                // Relaxed: the bytes never change, so whoever sees the mark sees the bytes that earned it.
                let checked = &checked[section as usize];
                if checked.load(Ordering::Relaxed) {
                    return Ok(pages.trusted(offset, length));
                }
                let bytes = pages.read(offset, length)?;
                checked.store(true, Ordering::Relaxed);
                Ok(bytes)
            }
        }
    }

    /// A value that is too long for the table of symbols.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn pool(&self, start: u64, length: usize) -> Result<&[u8], EngineError> {
        self.part(Section::Pool, usize::try_from(start).unwrap_or(usize::MAX), length)
    }

    /// A whole section of words.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn words(&self, section: Section) -> Result<&[Word], EngineError> {
        Ok(self.whole(section)?.as_chunks().0)
    }

    /// A whole section of numbers of four bytes.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn numbers(&self, section: Section) -> Result<&[[u8; 4]], EngineError> {
        Ok(self.whole(section)?.as_chunks().0)
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
            Self::Mapped(pages, ..) => pages.check_all(),
        }
    }

    /// How many bytes there are in all.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Memory(sections) => sections.iter().map(<[u8]>::len).sum(),
            Self::Mapped(_, header, _) => (0..SECTION_COUNT).map(|place| header.sections[place].length).sum(),
        }
    }

    /// How many of them the queries themselves take.
    pub fn record_bytes(&self) -> usize {
        match self {
            Self::Memory(sections) => sections[Section::Records].len(),
            Self::Mapped(_, header, _) => header.extent(Section::Records).length,
        }
    }

    /// The error for bytes that are not as they were written.
    pub fn damaged(&self, what: &str) -> EngineError {
        match self {
            Self::Memory(_) => EngineError::Snapshot(format!("the index in memory contradicts itself: {what}")),
            Self::Mapped(pages, ..) => pages.damaged(what),
        }
    }
}
