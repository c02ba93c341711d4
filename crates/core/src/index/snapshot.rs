//! Writing a snapshot: under a temporary name in the same folder, synced, renamed, never changed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::query::Query;

use super::SubscriptionId;
use super::codec::{encode, encode_count, encode_text};
use super::format::{Extent, HEADER_BYTES, Header, SECTION_COUNT, Section, TABLE_ENTRY_BYTES};
use super::pages::PAGE_BYTES;
use super::postings::{Postings, Slot};
use crate::dear::OpaqueTable;

/// The error of the file system, with what could not be done to which file.
#[must_use]
pub fn in_snapshot(verb: &str, path: &Path, error: &io::Error) -> EngineError {
    io::Error::new(error.kind(), format!("cannot {verb} the snapshot '{}': {error}", path.display())).into()
}

/// Everything that goes into a file, section by section. Subscriptions come by ascending id.
#[derive(Debug, Default)]
pub struct Contents {
    sections: [Vec<u8>; SECTION_COUNT],
    postings: Postings,
    opaques: OpaqueTable,
    count: Slot,
}

impl Contents {
    /// Add a subscription. Equal contents give equal files, byte for byte.
    pub fn push(&mut self, id: SubscriptionId, query: &Query, key: &[u8]) {
        self.postings.insert(self.count, query);
        self.count = self.count.checked_add(1).expect("fewer than 2^32 subscriptions fit in memory");
        self.section(Section::Ids).extend(id.0.to_le_bytes());
        encode(query, &mut self.sections[Section::Records as usize], &mut self.opaques);
        self.section(Section::Keys).extend_from_slice(key);
        for (ends, items) in [(Section::RecordEnds, Section::Records), (Section::KeyEnds, Section::Keys)] {
            let end = self.section(items).len() as u64;
            self.section(ends).extend(end.to_le_bytes());
        }
    }

    fn section(&mut self, section: Section) -> &mut Vec<u8> {
        &mut self.sections[section as usize]
    }

    /// Write the file. When that fails nothing of it is left behind, and a file that was there before stays.
    ///
    /// # Errors
    /// What the file system says; a query with a dear predicate.
    pub fn write(mut self, path: &Path, next_id: u64, hierarchies: &Hierarchies) -> Result<(), EngineError> {
        if let Some(opaque) = self.opaques.as_slice().first() {
            let reason = format!("the dear predicate '{}' is a function and cannot be saved", opaque.name());
            return Err(EngineError::Opaque(reason));
        }
        let attribute_count = self.seal(hierarchies);
        let header = Header { count: self.count as usize, attribute_count, next_id, sections: self.extents() };
        replace_file(path, |file| self.write_to(&header, file)).map_err(|error| in_snapshot("write", path, &error))
    }

    /// Fill in the sections that follow from all subscriptions together. Returns the count of attributes.
    fn seal(&mut self, hierarchies: &Hierarchies) -> usize {
        encode_hierarchies(hierarchies, self.section(Section::Hierarchies));
        let postings = std::mem::take(&mut self.postings);
        let mut attributes: Vec<&str> = postings.attributes().collect();
        attributes.sort_unstable();
        attributes.iter().for_each(|name| encode_text(name, self.section(Section::Attributes)));
        encode_slots(postings.common(), self.section(Section::Common));
        encode_slots(postings.fields(), self.section(Section::Fields));
        self.encode_table(&postings);
        attributes.len()
    }

    /// The hash table and the lists, by ascending hash.
    fn encode_table(&mut self, postings: &Postings) {
        let mut lists: Vec<(u64, &[Slot])> = postings.lists().collect();
        lists.sort_unstable_by_key(|(hash, _)| *hash);
        // At most half full, so that a look-up ends after one or two entries.
        let entries = if lists.is_empty() { 0 } else { (lists.len() * 2).next_power_of_two() };
        let mut table = vec![0; entries * TABLE_ENTRY_BYTES];
        let mut start = 0_u32;
        for (hash, slots) in lists {
            #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
            let mut place = hash as usize & (entries - 1);
            while table[place * TABLE_ENTRY_BYTES + 12..][..4] != [0; 4] {
                place = (place + 1) & (entries - 1);
            }
            let count = u32::try_from(slots.len()).expect("a list has fewer slots than there are");
            let entry = &mut table[place * TABLE_ENTRY_BYTES..][..TABLE_ENTRY_BYTES];
            entry[..8].copy_from_slice(&hash.to_le_bytes());
            entry[8..12].copy_from_slice(&start.to_le_bytes());
            entry[12..].copy_from_slice(&count.to_le_bytes());
            start = start.checked_add(count).expect("fewer than 2^32 postings fit in memory");
            encode_slots(slots, self.section(Section::Postings));
        }
        *self.section(Section::Table) = table;
    }

    fn extents(&self) -> [Extent; SECTION_COUNT] {
        let mut offset = HEADER_BYTES;
        self.sections.each_ref().map(|bytes| {
            let extent = Extent { offset: offset.next_multiple_of(8), length: bytes.len() };
            offset = extent.offset + extent.length;
            extent
        })
    }

    fn write_to(&self, header: &Header, file: &File) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        writer.write_all(&header.encode())?;
        let mut pages = PageWriter::new(writer);
        let mut offset = HEADER_BYTES;
        for (extent, bytes) in header.sections.iter().zip(&self.sections) {
            pages.write(&[0; 8][..extent.offset - offset])?;
            pages.write(bytes)?;
            offset = extent.offset + extent.length;
        }
        pages.finish()
    }
}

fn encode_slots(slots: &[Slot], bytes: &mut Vec<u8>) {
    slots.iter().for_each(|slot| bytes.extend(slot.to_le_bytes()));
}

fn encode_hierarchies(hierarchies: &Hierarchies, bytes: &mut Vec<u8>) {
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

/// Writes pages and takes the checksum of each.
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

    /// The last page, which may be short, and the checksums.
    fn finish(mut self) -> io::Result<()> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        self.writer.write_all(&self.checksums)?;
        self.writer.flush()
    }
}

/// Write a file under a temporary name beside `path`, make it durable, and put it in the place of `path` at one stroke.
fn replace_file(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let temporary = temporary_name(path)?;
    let file = File::options().write(true).create_new(true).open(&temporary)?;
    let done = write(&file).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = done {
        _ = std::fs::remove_file(&temporary); // the first error is the one to tell
        return Err(error);
    }
    sync_folder(path)
}

/// Unique among the processes and threads that write snapshots in this folder now.
fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::other("its path has no file name"))?;
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_file_name(format!(".{}.{}-{number}.tmp", name.to_string_lossy(), std::process::id())))
}

/// A rename is durable when its folder is. Elsewhere than on Unix a folder cannot be opened.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_leaves_nothing_behind_and_the_old_file_as_it_was() {
        let folder = std::env::temp_dir().join(format!("tamis-full-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a writable temporary folder");
        let path = folder.join("queries.tamis");
        replace_file(&path, |mut file| file.write_all(b"old")).expect("a writable folder");
        let full = |mut file: &File| file.write_all(b"ne").and(Err(io::Error::from(io::ErrorKind::StorageFull)));
        let error = replace_file(&path, full).expect_err("a full disk");
        let told = in_snapshot("write", &path, &error);
        assert!(matches!(&told, EngineError::Io(error) if error.kind() == io::ErrorKind::StorageFull));
        assert!(told.to_string().starts_with("cannot write the snapshot"));
        assert_eq!(std::fs::read(&path).expect("the old file"), b"old");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1);
        std::fs::remove_dir_all(&folder).expect("a folder of our own");
    }
}
