//! Opens a snapshot: maps the file, checks its header, and reads its hierarchies and expensive predicates.

use std::fs::File;
use std::path::Path;

use crate::error::EngineError;
use crate::expensive::Opaque;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::index::codec::RecordDecoder;
use crate::index::layout::header::{HEADER_BYTES, SnapshotHeader};
use crate::index::layout::map::map_file;
use crate::index::layout::pages::Pages;
use crate::index::layout::sections::SectionName;
use crate::index::layout::store::SectionStore;
use crate::index::segment::Segment;

use super::files::in_snapshot;

/// Map the file at `path`: its segment, its hierarchies, and the id that the next new subscription gets.
///
/// # Errors
/// A file that is no snapshot, has another version, is damaged or cannot be read; an expensive predicate that `resolve` does
/// not give.
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
    let header = SnapshotHeader::decode(&map).map_err(|reason| refuse(&reason))?;
    let pages = Pages::new(map, path, HEADER_BYTES, header.body_end());
    let store = SectionStore::Mapped(pages, header, Default::default());
    if verify {
        store.check_all()?;
    }
    let opaques = decode_opaques(&store, resolve)?;
    let hierarchies = decode_hierarchies(&store)?;
    let segment = Segment::new(store, opaques)?;
    if verify {
        segment.query_ids().try_for_each(|query| segment.decode(query).map(|_| ()))?;
    }
    Ok((segment, hierarchies, header.next_id))
}

fn decode_opaques(
    store: &SectionStore,
    resolve: &dyn Fn(&str, f64) -> Option<Opaque>,
) -> Result<Vec<Opaque>, EngineError> {
    let mut decoder = RecordDecoder::new(store.whole(SectionName::Opaques)?, &[]);
    let mut opaques = Vec::new();
    while !decoder.is_at_end() {
        let mut read = || Ok((decoder.text()?, f64::from_bits(decoder.word()?)));
        let damaged = |reason: String| store.damaged(&format!("its expensive predicates cannot be read: {reason}"));
        let (name, cost_ns) = read().map_err(damaged)?;
        let missing =
            || format!("the snapshot names the expensive predicate '{name}': give its function when you open it");
        opaques.push(resolve(name, cost_ns).ok_or_else(|| EngineError::Opaque(missing()))?);
    }
    Ok(opaques)
}

fn decode_hierarchies(store: &SectionStore) -> Result<Hierarchies, EngineError> {
    let damaged = |reason: &str| store.damaged(&format!("its hierarchies cannot be read: {reason}"));
    let mut decoder = RecordDecoder::new(store.whole(SectionName::Hierarchies)?, &[]);
    let mut hierarchies = Hierarchies::new();
    while !decoder.is_at_end() {
        let (attribute, parents) = decode_hierarchy(&mut decoder).map_err(|reason| damaged(&reason))?;
        let hierarchy = Hierarchy::new(parents).map_err(|error| damaged(&error.to_string()))?;
        hierarchies.insert(attribute, hierarchy);
    }
    Ok(hierarchies)
}

type Parents = std::collections::HashMap<String, Option<String>>;

fn decode_hierarchy(decoder: &mut RecordDecoder<'_>) -> Result<(String, Parents), String> {
    let attribute = decoder.text()?.to_owned();
    let mut parents = Parents::new();
    for _ in 0..decoder.count()? {
        let value = decoder.text()?.to_owned();
        let parent = if decoder.flag()? { Some(decoder.text()?.to_owned()) } else { None };
        parents.insert(value, parent);
    }
    Ok((attribute, parents))
}
