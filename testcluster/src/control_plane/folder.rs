//! The folder of one control plane's state.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::Error;

const PREFIX: &str = "appdeploy-control-plane-";
const MEMORY: &str = "/dev/shm";
/// etcd reserves 128 MB for its log when it starts, and the `/dev/shm` of a container may have only 64.
const ENOUGH: u64 = 2 << 30;

/// The file that the owner keeps locked. Unlike a process ID, a lock has the same meaning in all containers that share the
/// folder.
const LOCK: &str = "owner.lock";

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    dir: TempDir,
    files: AtomicU32,
    _lock: File,
}

impl Folder {
    /// Creates a folder, in memory if there is enough.
    pub(super) fn new() -> Result<Self, Error> {
        let base = if has_room(Path::new(MEMORY)) {
            PathBuf::from(MEMORY)
        } else {
            std::env::temp_dir()
        };
        sweep(&base);
        Self::new_in(&base).map_err(|source| Error::MakeFolder { path: base, source })
    }

    fn new_in(base: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(base)?;
        let unnamed = dir.path().join("owner.new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        // Renamed after it is locked, so that no other process can lock it first.
        fs::rename(unnamed, dir.path().join(LOCK))?;
        Ok(Self {
            dir,
            files: AtomicU32::new(0),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns an unused path in this folder.
    pub(super) fn fresh(&self, name: &str, extension: &str) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let name: String = name
            .chars()
            .map(|char| if char.is_ascii_alphanumeric() { char } else { '-' })
            .take(60)
            .collect();
        self.path().join(format!("{name}-{number}.{extension}"))
    }
}

fn has_room(folder: &Path) -> bool {
    // A sandbox may forbid writes there.
    crate::disk::free(folder).is_some_and(|free| free >= ENOUGH) && tempfile::tempfile_in(folder).is_ok()
}

/// Removes the folders of owners that were killed.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Locked until the folder is removed, so that no other process removes it at the same time.
        let lock = File::open(entry.path().join(LOCK));
        if ours && lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok()) {
            // A folder that can't be removed has no effect.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_a_dead_owner_is_removed_and_others_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let live = Folder::new_in(base.path()).unwrap();
        // The kernel releases the lock of a dead owner, and its folder remains.
        let dead = Folder::new_in(base.path()).unwrap().dir.keep();
        let other = base.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join(LOCK), "").unwrap();
        sweep(base.path());
        assert_eq!(
            (live.path().exists(), dead.exists(), other.exists()),
            (true, false, true)
        );
    }
}
