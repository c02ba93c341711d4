//! The one place that maps a file.
#![expect(unsafe_code, reason = "a mapping is memory that the file system may change")]

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Map the whole of `file` for reading. Nothing is read yet.
///
/// # Errors
/// What the system says, also for an empty file.
pub fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: a snapshot is never changed: it is written under another name, renamed into place, and replaced by a
    // rename only, which leaves this mapping with the old file. Whoever breaks that rule by writing into the file makes
    // reads undefined, and by truncating it gets SIGBUS; the engine's documentation says so.
    unsafe { Mmap::map(file) }
}
