//! Reading single records and all heads of a log while it is written.

use std::io;
use std::sync::Arc;

use crate::journal::damage::{Damage, DamageKind};
use crate::journal::disk::Wait;
use crate::journal::errors::ReadError;
use crate::journal::format::footer::{RecordHead, heads_of};
use crate::journal::format::record::{Record, decode, length_of};
use crate::journal::format::segment::{Location, SegmentNumber};
use crate::journal::recovery::directory::SegmentFile;
use crate::journal::recovery::recover::SegmentMeta;
use crate::journal::recovery::scan::{Scanner, WalkExtent, Walked, make_room, walk};
use crate::journal::writing::shared::SharedLog;
use crate::mutex::lock;

/// The maximum number of segment files that are kept open for [`Log::read_at`](crate::journal::Log::read_at).
const FILES_MAX: usize = 64;

/// The number of bytes that are read before the length of a record is known.
const GUESS_BYTES: usize = 4096;

impl SharedLog {
    pub fn read_at<'a>(
        &self,
        location: Location,
        wait: Wait,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Record<'a>, ReadError> {
        let segment = self.file_of(location.segment)?;
        let offset = u64::from(location.offset);
        make_room(buffer, GUESS_BYTES);
        let mut count = segment.file.read(wait, offset, buffer)?;
        let limit = segment.file_bytes.saturating_sub(offset);
        let length = length_of(&buffer[..count]).unwrap_or(0) as usize;
        if length > count && length as u64 <= limit {
            buffer.resize(length, 0);
            count += segment.file.read(wait, offset + count as u64, &mut buffer[count..])?;
        }
        // What was read behind the record does not belong to it.
        buffer.truncate(if length == 0 { count } else { count.min(length) });
        match decode(buffer, limit, segment.seed) {
            Ok(decoded) => Ok(decoded.record),
            // The file may have been reused for another segment while it was read.
            Err(_) if !self.names().contains(&segment.name) => Err(ReadError::Gone(location)),
            Err(_) => Err(ReadError::Damaged(location)),
        }
    }

    fn file_of(&self, ordinal: SegmentNumber) -> Result<Arc<SegmentFile>, ReadError> {
        if let Some(segment) = lock(&self.files).iter().find(|segment| segment.name.ordinal == ordinal) {
            return Ok(Arc::clone(segment));
        }
        let gone = ReadError::Gone(Location { segment: ordinal, offset: 0 });
        let name = self.names().into_iter().find(|name| name.ordinal == ordinal).ok_or(gone)?;
        let segment = Arc::new(self.directory.open(name)?);
        let mut files = lock(&self.files);
        files.truncate(FILES_MAX - 1);
        files.push_front(Arc::clone(&segment));
        Ok(segment)
    }

    pub fn for_each_head(&self, visit: &mut dyn FnMut(RecordHead<'_>)) -> io::Result<Vec<Damage>> {
        let writing = self.writing();
        let (mut damage, mut buffer) = (Vec::new(), Vec::new());
        let metas: Vec<SegmentMeta> = self.catalog().segments.iter().cloned().collect();
        for meta in &metas {
            let active = writing.active.as_ref().filter(|active| active.segment.name == meta.name);
            match active.and_then(|active| active.contents.heads.as_ref()) {
                Some(heads) => heads.iter(meta.name.ordinal).for_each(&mut *visit),
                None => self.heads_of_segment(meta, &mut buffer, visit, &mut damage)?,
            }
        }
        Ok(damage)
    }

    /// The heads of a segment from its index, or from its records. `buffer` is room for them, which is used again.
    fn heads_of_segment(
        &self,
        meta: &SegmentMeta,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(RecordHead<'_>),
        damage: &mut Vec<Damage>,
    ) -> io::Result<()> {
        let (segment, ordinal) = (self.directory.open(meta.name)?, meta.name.ordinal);
        let trailer = segment.trailer()?;
        if let Some(trailer) = &trailer {
            if let Some(heads) = trailer.read_heads(segment.file.as_ref(), segment.file_bytes, buffer)? {
                heads_of(heads, ordinal).for_each(visit);
                return Ok(());
            }
            if trailer.has_heads() {
                damage.push(Damage::of_index(DamageKind::Index, ordinal, segment.file_bytes, meta.name.first));
            }
        }
        let mut scanner = Scanner::new(Arc::clone(&segment.file), segment.seed, segment.file_bytes);
        let extent = WalkExtent::Sealed { end: meta.data_bytes, last: meta.last };
        walk(&mut scanner, ordinal, meta.name.first, extent, &mut |walked| match walked {
            Walked::Record(offset, decoded) => visit(RecordHead {
                sequence: decoded.record.sequence,
                time_us: decoded.record.time_us,
                kind: decoded.record.kind,
                head: decoded.record.head,
                location: Location { segment: ordinal, offset: offset as u32 },
                size_bytes: decoded.length,
            }),
            Walked::Damage(piece) => damage.push(piece),
        })?;
        Ok(())
    }
}
