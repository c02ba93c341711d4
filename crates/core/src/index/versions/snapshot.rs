//! Snapshots: written under a temporary name in the same folder, synced, renamed, never changed; and opened.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::EngineError;
use crate::expensive::Opaque;
use crate::hierarchy::{Hierarchies, Hierarchy};

use crate::index::codec::{Reader, encode_count, encode_text};
use crate::index::layout::header::{Extent, HEADER_BYTES, Header, SECTION_COUNT, Section, Sections};
use crate::index::layout::map::map_file;
use crate::index::layout::pages::{PAGE_BYTES, Pages};
use crate::index::layout::store::Store;
use crate::index::segment::Segment;

/// The error of the file system, with what could not be done to which file.
#[must_use]
pub fn in_snapshot(verb: &str, path: &Path, error: &io::Error) -> EngineError {
    io::Error::new(error.kind(), format!("cannot {verb} the snapshot '{}': {error}", path.display())).into()
}

/// Refuse expensive predicates, which have no bytes: all of them, or those whose names do not tell them apart.
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

/// Write the file. When that fails nothing of it is left behind, and a file that was there before stays.
///
/// # Errors
/// What the file system says.
pub fn write(path: &Path, sections: &Sections, next_id: u64) -> Result<(), EngineError> {
    let mut offset = HEADER_BYTES;
    let mut extents = [Extent::default(); SECTION_COUNT];
    for (extent, bytes) in extents.iter_mut().zip(sections.iter()) {
        *extent = Extent { offset: offset.next_multiple_of(8), length: bytes.len() };
        offset = extent.offset + extent.length;
    }
    let (place_count, slot_count) = (sections[Section::Ids].len() / 8, sections[Section::RecordEnds].len() / 8);
    let header = Header { place_count, slot_count, next_id, sections: extents };
    replace_file(path, |file| write_to(&header, sections, file)).map_err(|error| in_snapshot("write", path, &error))
}

fn write_to(header: &Header, sections: &Sections, file: &File) -> io::Result<()> {
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

/// Map the file at `path`: its segment, its hierarchies, and the id that the next new subscription gets.
///
/// # Errors
/// A file that is no snapshot, is of another version or damaged, or that cannot be read; an expensive predicate that
/// `resolve` does not give.
pub fn open(
    path: &Path,
    verify: bool,
    resolve: &dyn Fn(&str, f64) -> Option<Opaque>,
) -> Result<(Segment, Hierarchies, u64), EngineError> {
    let refuse = |reason: &str| EngineError::Snapshot(format!("'{}' {reason}", path.display()));
    let file = File::open(path).map_err(|error| in_snapshot("open", path, &error))?;
    let metadata = file.metadata().map_err(|error| in_snapshot("open", path, &error))?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Err(refuse("is no snapshot of tamis: it is empty, or no file"));
    }
    let map = map_file(&file).map_err(|error| in_snapshot("map", path, &error))?;
    let header = Header::decode(&map).map_err(|reason| refuse(&reason))?;
    let pages = Pages::new(map, path, HEADER_BYTES, header.body_end());
    let store = Store::Mapped(pages, header, Default::default());
    if verify {
        store.check_all()?;
    }
    let opaques = decode_opaques(&store, resolve)?;
    let hierarchies = decode_hierarchies(&store)?;
    let segment = Segment::new(store, opaques)?;
    if verify {
        (0..segment.slot_count() as u32).try_for_each(|slot| segment.decode(slot).map(|_| ()))?;
    }
    Ok((segment, hierarchies, header.next_id))
}

fn decode_opaques(store: &Store, resolve: &dyn Fn(&str, f64) -> Option<Opaque>) -> Result<Vec<Opaque>, EngineError> {
    let mut reader = Reader::new(store.whole(Section::Opaques)?, &[]);
    let mut opaques = Vec::new();
    while !reader.rest.is_empty() {
        let mut read = || Ok((reader.text()?, f64::from_bits(reader.word()?)));
        let damaged = |reason: String| store.damaged(&format!("its expensive predicates cannot be read: {reason}"));
        let (name, cost_ns) = read().map_err(damaged)?;
        let missing =
            || format!("the snapshot names the expensive predicate '{name}': give its function when you open it");
        opaques.push(resolve(name, cost_ns).ok_or_else(|| EngineError::Opaque(missing()))?);
    }
    Ok(opaques)
}

fn decode_hierarchies(store: &Store) -> Result<Hierarchies, EngineError> {
    let damaged = |reason: &str| store.damaged(&format!("its hierarchies cannot be read: {reason}"));
    let mut reader = Reader::new(store.whole(Section::Hierarchies)?, &[]);
    let mut hierarchies = Hierarchies::new();
    while !reader.rest.is_empty() {
        let (attribute, parents) = decode_hierarchy(&mut reader).map_err(|reason| damaged(&reason))?;
        let hierarchy = Hierarchy::new(parents).map_err(|error| damaged(&error.to_string()))?;
        hierarchies.insert(attribute, hierarchy);
    }
    Ok(hierarchies)
}

type Parents = std::collections::HashMap<String, Option<String>>;

fn decode_hierarchy(reader: &mut Reader<'_>) -> Result<(String, Parents), String> {
    let attribute = reader.text()?.to_owned();
    let mut parents = Parents::new();
    for _ in 0..reader.count()? {
        let value = reader.text()?.to_owned();
        let parent = if reader.flag()? { Some(reader.text()?.to_owned()) } else { None };
        parents.insert(value, parent);
    }
    Ok((attribute, parents))
}

/// Write the section of hierarchies.
pub fn encode_hierarchies(hierarchies: &Hierarchies, sections: &mut Sections) {
    let bytes = &mut sections[Section::Hierarchies];
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

/// A rename is durable when its folder is. Elsewhere than on Unix, and under miri, a folder cannot be opened.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(all(unix, not(miri))) {
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
