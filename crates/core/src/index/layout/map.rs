//! The one place that maps a file.
#![cfg_attr(not(miri), expect(unsafe_code, reason = "a mapping is memory that the file system may change"))]

use std::fs::File;
use std::io;

/// The bytes of a file. Miri maps no files: there they are read, and go through the same code.
#[cfg(not(miri))]
pub type Map = memmap2::Mmap;
#[cfg(miri)]
pub type Map = Vec<u8>;

/// Map the whole of `file` for reading. Nothing is read yet.
///
/// # Errors
/// What the system says, also for an empty file.
#[cfg(not(miri))]
pub fn map_file(file: &File) -> io::Result<Map> {
    // SAFETY: a snapshot is never changed: it is written under another name, renamed into place, and replaced by a
    // rename only, which leaves this mapping with the old file. Whoever breaks that rule by writing into the file makes
    // reads undefined, and by truncating it gets SIGBUS; the engine's documentation says so.
    unsafe { Map::map(file) }
}

#[cfg(miri)]
pub fn map_file(mut file: &File) -> io::Result<Map> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(bytes)
}
