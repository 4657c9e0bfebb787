//! Files that are written together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// Files by their path within the package.
pub type Files = BTreeMap<PathBuf, String>;

/// Writes a package into a folder. Files of an earlier run are removed.
///
/// # Errors
/// When the folder has other content, or can't be written.
pub fn write(out: &Path, files: &Files) -> Result<()> {
    clear(out, files)?;
    for (name, text) in files {
        let path = out.join(name);
        let folder = path.parent().unwrap_or(out);
        make(folder)?;
        std::fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// Creates a folder with its parents.
pub(crate) fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))
}

/// Removes a folder, but only if this program wrote it: the user may have named another one by mistake.
fn clear(out: &Path, files: &Files) -> Result<()> {
    let is_empty = !out.exists() || out.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        return Ok(());
    }
    ensure!(
        files.keys().any(|name| out.join(name).is_file()),
        "{} has other content than this package; name another folder, or remove it",
        out.display()
    );
    std::fs::remove_dir_all(out).with_context(|| format!("failed to remove {}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Files {
        names.iter().map(|name| (name.into(), (*name).to_owned())).collect()
    }

    #[test]
    fn files_of_an_earlier_run_are_removed_and_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("chart");
        write(&out, &files(&["Chart.yaml", "templates/old.yaml"])).unwrap();
        write(&out, &files(&["Chart.yaml", "templates/new.yaml"])).unwrap();
        assert!(out.join("templates/new.yaml").exists() && !out.join("templates/old.yaml").exists());

        let refused = write(&out, &files(&["bundle.yaml"])).unwrap_err();
        assert!(refused.to_string().contains("has other content"), "{refused}");
        assert!(out.join("templates/new.yaml").exists());
    }
}
