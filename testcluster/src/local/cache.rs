//! Deletes the cache of programs and images.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use testcluster::consent::{Unattended, ask};

use super::ui::Ui;
use super::{layout, marker};

/// The prefixes of the cache's entries. Others are not deleted: `APPDEPLOY_CACHE` may name any folder.
const OURS: [&str; 9] = [
    "bin",
    "images",
    "buildah",
    "cargo-deny-",
    "zig-",
    "operator-",
    "fake-cluster",
    "elasticmq-",
    "moto-",
];

/// Deletes the cache.
pub(crate) fn clean(ui: &Ui) -> Result<()> {
    let cache = testcluster::binaries::cache()?;
    let ours = entries(&cache);
    if ours.is_empty() {
        ui.say(&format!("There is nothing in {}.", cache.display()));
        return Ok(());
    }
    let question = format!("Delete {} from {}?", names(&ours), cache.display());
    if !ask(&question, Unattended::Continue)? {
        bail!("nothing was deleted");
    }
    for path in ours {
        if path.is_dir() {
            marker::check_mounts(&path)?;
            layout::remove(&path)?;
        } else {
            fs::remove_file(&path).with_context(|| format!("failed to remove {}", path.display()))?;
        }
    }
    ui.say("Go's own caches stay: `go clean -cache -modcache` empties them, for all of your Go programs.");
    Ok(())
}

/// Returns the entries of the cache that this checkout's programs have created.
fn entries(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let mut ours: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            OURS.iter()
                .any(|our| name == *our || (our.ends_with('-') && name.starts_with(our)))
        })
        .map(|entry| entry.path())
        .collect();
    ours.sort();
    ours
}

fn names(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths
        .iter()
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_of_ours_are_deleted() {
        let cache = tempfile::tempdir().unwrap();
        for name in ["bin", "images", "zig-123", "photos", "binary", "images-of-mine"] {
            fs::create_dir(cache.path().join(name)).unwrap();
        }
        assert_eq!(names(&entries(cache.path())), "bin, images, zig-123");
    }
}
