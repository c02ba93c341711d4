//! The file of a snapshot: written under a temporary name in the same folder, synced, renamed, and never changed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::EngineError;

/// The error of the file system, with the action that failed and the file.
#[must_use]
pub fn in_snapshot(verb: &str, path: &Path, error: &io::Error) -> EngineError {
    io::Error::new(error.kind(), format!("cannot {verb} the snapshot '{}': {error}", path.display())).into()
}

/// Write a file under a temporary name beside `path`, make it durable, and replace `path` with it atomically.
///
/// # Errors
/// The error of the file system; no part of the file is left behind.
pub fn replace_file(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
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

/// Make a rename durable by syncing its folder. Only Unix can open a folder, and miri cannot.
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
    use std::io::Write;

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
