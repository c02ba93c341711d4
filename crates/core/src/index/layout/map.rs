//! Maps a file into memory; the only code that does.
#![cfg_attr(not(miri), expect(unsafe_code, reason = "a mapping is memory that the file system may change"))]

use std::fs::File;
use std::io;

/// The bytes of a file. Miri maps no files: there they are read, and go through the same code.
#[cfg(not(miri))]
pub type FileMap = memmap2::Mmap;
#[cfg(miri)]
pub type FileMap = Vec<u8>;

/// Map the whole of `file` for reading. Nothing is read yet.
///
/// # Errors
/// The error of the operating system, also for an empty file.
#[cfg(not(miri))]
pub fn map_file(file: &File) -> io::Result<FileMap> {
    // SAFETY: a snapshot is never changed: it is written under another name and replaced by a rename only, which leaves
    // this mapping with the old file. Writing into the file against that rule makes reads undefined, and truncating it
    // raises SIGBUS; the engine's documentation says so.
    unsafe { FileMap::map(file) }
}

#[cfg(miri)]
pub fn map_file(mut file: &File) -> io::Result<FileMap> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(bytes)
}
