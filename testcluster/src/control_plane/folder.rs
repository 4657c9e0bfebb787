//! The folder of one control plane's state.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

use super::Error;
use crate::process::Record;

const PREFIX: &str = "appdeploy-control-plane-";
const MEMORY: &str = "/dev/shm";
/// etcd reserves 128 MB for its log at once, and a container's `/dev/shm` may hold only 64.
const ENOUGH: u64 = 2 << 30;

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    folder: TempDir,
    files: AtomicU32,
}

impl Folder {
    /// Makes a folder, in memory where there is enough of it: a test's state need not reach a disk.
    pub(super) fn new() -> Result<Self, Error> {
        let base = if has_room(Path::new(MEMORY)) {
            PathBuf::from(MEMORY)
        } else {
            std::env::temp_dir()
        };
        sweep(&base);
        // The owner's name stands in the folder's, so that whoever comes later can tell a live one.
        let owner = Record::of(std::process::id());
        tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-{}-", owner.pid, owner.started))
            .tempdir_in(&base)
            .map(|folder| Self {
                folder,
                files: AtomicU32::new(0),
            })
            .map_err(|source| Error::MakeFolder { path: base, source })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a path in this folder that nobody was given before.
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
    let free = statvfs(folder).map(|stat| stat.blocks_available() * stat.fragment_size());
    // Mere presence is not enough: a sandbox may let nobody write there.
    free.is_ok_and(|free| free >= ENOUGH) && tempfile::tempfile_in(folder).is_ok()
}

/// Removes folders whose owners were killed before they could.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_str()
            .and_then(owner)
            .is_some_and(|owner| !owner.is_alive())
        {
            // Another user's folder stays, and so does one that someone else is sweeping.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whom a folder belongs to, by its name.
fn owner(name: &str) -> Option<Record> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    Some(Record {
        pid: parts.next()?.parse().ok()?,
        started: parts.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_dead_owner_is_swept_and_others_are_not() {
        let base = tempfile::tempdir().unwrap();
        let ours = Record::of(std::process::id());
        let live = base.path().join(format!("{PREFIX}{}-{}-a", ours.pid, ours.started));
        let dead = base.path().join(format!("{PREFIX}{}-{}-b", ours.pid, ours.started + 1));
        let other = base.path().join("somebody-elses-1-2-c");
        for folder in [&live, &dead, &other] {
            fs::create_dir(folder).unwrap();
        }
        sweep(base.path());
        assert_eq!((live.exists(), dead.exists(), other.exists()), (true, false, true));
    }
}
