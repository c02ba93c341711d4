//! The bytes of a segment: in memory, or in a mapped file whose pages are checked when they are first read.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::EngineError;

use super::bytes::{NumberBytes, WordBytes};
use super::header::{SectionExtent, SnapshotHeader};
use super::pages::Pages;
use super::sections::{SECTION_COUNT, SectionName, Sections};

/// Items of a section, whose pages are checked when they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct LazyItems<'a, const SIZE: usize> {
    items: &'a [[u8; SIZE]],
    /// The file that they lie in, and where they begin there; none when nothing has to be checked.
    unchecked: Option<(&'a Pages, usize)>,
}

impl<'a, const SIZE: usize> LazyItems<'a, SIZE> {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items of a range; None when it is beyond the section, or one of its pages is damaged.
    #[inline(always)]
    pub fn get(&self, range: Range<usize>) -> Option<&'a [[u8; SIZE]]> {
        let items = self.items.get(range.clone())?;
        if let Some((pages, start)) = self.unchecked {
            pages.read(start + range.start * SIZE, items.len() * SIZE).ok()?;
        }
        Some(items)
    }

    /// The bytes to prefetch, not checked.
    #[inline(always)]
    pub fn unchecked(&self, range: Range<usize>) -> Option<&'a [[u8; SIZE]]> {
        self.items.get(range)
    }
}

/// The sections of a segment.
#[derive(Debug)]
pub enum SectionStore {
    /// Built by this process.
    Memory(Sections),
    /// Opened from a snapshot, with marks of the sections that have been checked as a whole.
    Mapped(Pages, SnapshotHeader, [AtomicBool; SECTION_COUNT]),
}

impl SectionStore {
    /// The number of bytes of a section.
    pub fn length(&self, section: SectionName) -> usize {
        match self {
            Self::Memory(sections) => sections[section].len(),
            Self::Mapped(_, header, _) => header.extent(section).length,
        }
    }

    /// `length` bytes at `start` within `section`.
    #[inline]
    pub fn part(&self, section: SectionName, start: usize, length: usize) -> Result<&[u8], EngineError> {
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
    #[inline]
    pub fn whole(&self, section: SectionName) -> Result<&[u8], EngineError> {
        match self {
            Self::Memory(sections) => Ok(&sections[section]),
            Self::Mapped(pages, header, checked) => {
                let SectionExtent { offset, length } = header.extent(section);
                // Relaxed: the bytes never change, so a reader of the mark sees the bytes that were checked.
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

    /// A text that is too long for the table of symbols.
    #[inline]
    pub fn long_text(&self, start: u64, length: usize) -> Result<&[u8], EngineError> {
        self.part(SectionName::LongTexts, usize::try_from(start).unwrap_or(usize::MAX), length)
    }

    /// A section of items of `SIZE` bytes, whose pages are checked when they are asked for.
    #[inline]
    pub fn lazy<const SIZE: usize>(&self, section: SectionName) -> LazyItems<'_, SIZE> {
        match self {
            Self::Memory(sections) => LazyItems { items: sections[section].as_chunks().0, unchecked: None },
            Self::Mapped(pages, header, checked) => {
                let SectionExtent { offset, length } = header.extent(section);
                let is_checked = checked[section as usize].load(Ordering::Relaxed);
                let unchecked = (!is_checked).then_some((pages, offset));
                LazyItems { items: pages.trusted(offset, length).as_chunks().0, unchecked }
            }
        }
    }

    /// A whole section of words.
    #[inline]
    pub fn words(&self, section: SectionName) -> Result<&[WordBytes], EngineError> {
        Ok(self.whole(section)?.as_chunks().0)
    }

    /// A whole section of numbers of four bytes.
    #[inline]
    pub fn numbers(&self, section: SectionName) -> Result<&[NumberBytes], EngineError> {
        Ok(self.whole(section)?.as_chunks().0)
    }

    /// The number of four bytes at `index` of a section.
    #[inline]
    pub fn number(&self, section: SectionName, index: usize) -> Result<u32, EngineError> {
        let bytes = self.part(section, index.saturating_mul(4), 4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The word of eight bytes at `index` of a section.
    #[inline]
    pub fn word(&self, section: SectionName, index: usize) -> Result<u64, EngineError> {
        let bytes = self.part(section, index.saturating_mul(8), 8)?;
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word))
    }

    /// The bytes of one of `items`, which ends where `ends` says and starts where the one before ends.
    pub fn item(&self, ends: SectionName, items: SectionName, index: usize) -> Result<&[u8], EngineError> {
        let start = if index == 0 { 0 } else { self.word(ends, index - 1)? };
        let end = self.word(ends, index)?;
        let sizes = usize::try_from(start).ok().zip(end.checked_sub(start).and_then(|n| usize::try_from(n).ok()));
        let (start, length) = sizes.ok_or_else(|| self.damaged("an item ends before it begins"))?;
        self.part(items, start, length)
    }

    /// Check every page.
    ///
    /// # Errors
    /// The first damaged page.
    pub fn check_all(&self) -> Result<(), EngineError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Mapped(pages, ..) => pages.check_all(),
        }
    }

    /// The number of bytes of all sections.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Memory(sections) => sections.iter().map(<[u8]>::len).sum(),
            Self::Mapped(_, header, _) => header.sections.iter().map(|extent| extent.length).sum(),
        }
    }

    /// The number of bytes of the queries themselves.
    pub fn record_bytes(&self) -> usize {
        self.length(SectionName::Records)
    }

    /// The error for damaged bytes.
    pub fn damaged(&self, what: &str) -> EngineError {
        match self {
            Self::Memory(_) => EngineError::Snapshot(format!("the index in memory contradicts itself: {what}")),
            Self::Mapped(pages, ..) => pages.damaged(what),
        }
    }
}
