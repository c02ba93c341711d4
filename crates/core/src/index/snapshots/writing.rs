//! Writes a snapshot: header, sections, and the checksums of pages.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::EngineError;
use crate::expensive::Opaque;
use crate::hierarchy::Hierarchies;
use crate::index::codec::{encode_count, encode_text};
use crate::index::layout::header::{HEADER_BYTES, SectionExtent, SnapshotHeader};
use crate::index::layout::pages::PAGE_BYTES;
use crate::index::layout::sections::{SECTION_COUNT, SectionName, Sections};

use super::files::{in_snapshot, replace_file};

/// Refuse expensive predicates, which have no bytes: all of them, or, `with_names`, those with equal names.
///
/// # Errors
/// The first that cannot be saved.
pub fn check_opaques(opaques: &[Opaque], with_names: bool) -> Result<(), EngineError> {
    let mut names = std::collections::HashSet::new();
    for name in opaques.iter().map(Opaque::name) {
        if !with_names {
            let reason =
                format!("the expensive predicate '{name}' is a function and cannot be saved, except by its name");
            return Err(EngineError::Opaque(reason));
        }
        if !names.insert(name) {
            return Err(EngineError::Opaque(format!(
                "two expensive predicates are called '{name}': their names must differ"
            )));
        }
    }
    Ok(())
}

/// Write the file. When that fails, no part of it is left behind, and an older file stays.
///
/// # Errors
/// The error of the file system.
pub fn write(path: &Path, sections: &Sections, next_id: u64) -> Result<(), EngineError> {
    let mut offset = HEADER_BYTES;
    let mut extents = [SectionExtent::default(); SECTION_COUNT];
    for (extent, bytes) in extents.iter_mut().zip(sections.iter()) {
        *extent = SectionExtent { offset: offset.next_multiple_of(8), length: bytes.len() };
        offset = extent.offset + extent.length;
    }
    let (position_count, query_count) =
        (sections[SectionName::Ids].len() / 8, sections[SectionName::RecordEnds].len() / 8);
    let header = SnapshotHeader { position_count, query_count, next_id, sections: extents };
    replace_file(path, |file| write_to(&header, sections, file)).map_err(|error| in_snapshot("write", path, &error))
}

fn write_to(header: &SnapshotHeader, sections: &Sections, file: &File) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    writer.write_all(&header.encode())?;
    let mut pages = PageWriter::new(writer);
    let mut offset = HEADER_BYTES;
    for (extent, bytes) in header.sections.iter().zip(sections.iter()) {
        pages.write(&[0; 8][..extent.offset - offset])?;
        pages.write(bytes)?;
        offset = extent.offset + extent.length;
    }
    pages.finish()
}

/// Write the section of hierarchies.
pub fn encode_hierarchies(hierarchies: &Hierarchies, sections: &mut Sections) {
    let bytes = &mut sections[SectionName::Hierarchies];
    let mut attributes: Vec<_> = hierarchies.iter().collect();
    attributes.sort_unstable_by_key(|(attribute, _)| *attribute);
    for (attribute, hierarchy) in attributes {
        let mut parents: Vec<_> = hierarchy.parents().collect();
        parents.sort_unstable();
        encode_text(attribute, bytes);
        encode_count(parents.len(), bytes);
        for (value, parent) in parents {
            encode_text(value, bytes);
            bytes.push(u8::from(parent.is_some()));
            parent.iter().for_each(|parent| encode_text(parent, bytes));
        }
    }
}

/// Writes pages, and collects the checksum of each.
struct PageWriter<W> {
    writer: W,
    page: Vec<u8>,
    checksums: Vec<u8>,
}

impl<W: Write> PageWriter<W> {
    fn new(writer: W) -> Self {
        Self { writer, page: Vec::with_capacity(PAGE_BYTES), checksums: Vec::new() }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - self.page.len()));
            self.page.extend_from_slice(now);
            bytes = later;
            if self.page.len() == PAGE_BYTES {
                self.end_page()?;
            }
        }
        Ok(())
    }

    fn end_page(&mut self) -> io::Result<()> {
        self.checksums.extend(crc32c::crc32c(&self.page).to_le_bytes());
        self.writer.write_all(&self.page)?;
        self.page.clear();
        Ok(())
    }

    /// Write the last page, which may be short, and the checksums.
    fn finish(mut self) -> io::Result<()> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        self.writer.write_all(&self.checksums)?;
        self.writer.flush()
    }
}
