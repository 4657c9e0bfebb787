//! Disk space.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Returns the free bytes of the file system that `folder` is on, if the system reports them.
#[must_use]
#[allow(clippy::useless_conversion, reason = "the types differ between systems")]
pub fn free(folder: &Path) -> Option<u64> {
    let stat = statvfs(folder).ok()?;
    Some(u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())))
}
