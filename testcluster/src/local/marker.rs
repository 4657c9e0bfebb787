//! The marker of a state folder. Only folders with the marker are changed or deleted.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::layout;

const MARKER: &str = ".appdeploy-cluster";
const TEXT: &str = "This folder was created by `testcluster up`; `testcluster down` deletes it.\n";

/// Creates a state folder, or checks that an existing one has the marker. An empty folder gets one.
pub(crate) fn claim(state: &Path) -> Result<()> {
    layout::create(state)?;
    if has(state) {
        return Ok(());
    }
    let mut entries = fs::read_dir(state).with_context(|| format!("failed to read {}", state.display()))?;
    if entries.next().is_some() {
        bail!(
            "{} exists, and not from this program: choose another folder with --state-dir, or remove it yourself",
            state.display()
        );
    }
    let marker = state.join(MARKER);
    fs::write(&marker, TEXT).with_context(|| format!("failed to write {}", marker.display()))
}

/// Returns whether a folder has the marker.
pub(crate) fn has(state: &Path) -> bool {
    fs::read(state.join(MARKER)).is_ok_and(|text| text == TEXT.as_bytes())
}

/// Fails unless a folder has the marker.
pub(crate) fn check(state: &Path) -> Result<()> {
    if !has(state) {
        bail!(
            "{} was not created by `testcluster up`: nothing was deleted",
            state.display()
        );
    }
    Ok(())
}

/// Deletes a state folder. One without the marker, or with a mount in it, is not deleted.
pub(crate) fn remove(state: &Path) -> Result<()> {
    check(state)?;
    layout::remove(&check_mounts(state)?)
}

/// Fails if anything is mounted at or below a folder: deleting it would delete through the mount. Returns its real path.
pub(crate) fn check_mounts(folder: &Path) -> Result<PathBuf> {
    let real = folder
        .canonicalize()
        .with_context(|| format!("failed to resolve {}", folder.display()))?;
    let mounts = match fs::read("/proc/self/mountinfo") {
        Ok(text) => mounts_under(&text, &real),
        // No such file: not Linux, where this program mounts nothing.
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).context("failed to read the list of mounts"),
    };
    if let Some(mount) = mounts.first() {
        bail!(
            "{} is mounted below {}: unmount it first; nothing was deleted",
            mount.display(),
            folder.display()
        );
    }
    Ok(real)
}

/// Reads the mount points at or below `folder` from a mountinfo, byte by byte: names of files need not be UTF-8.
fn mounts_under(mountinfo: &[u8], folder: &Path) -> Vec<PathBuf> {
    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(std::ffi::OsString::from_vec(unescape(field))))
        .filter(|path| path.starts_with(folder))
        .collect()
}

/// Decodes `\040` and the other octal escapes of a mountinfo.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        if let Some(code) = code {
            bytes.push(code);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn mounts_are_found_next_to_names_that_are_not_utf8() {
        let text = b"1 2 0:1 / / rw - ext4 a rw\n2 3 0:2 / /srv/\xff\\040x rw - tmpfs t rw\n\
                     3 3 0:3 / /state/a\\040b rw - tmpfs t rw\n4 3 0:4 / /state/\xfe rw - tmpfs t rw\n\
                     5 3 0:5 / /stated rw - tmpfs t rw\n";
        assert_eq!(
            mounts_under(text, Path::new("/state")),
            [
                PathBuf::from("/state/a b"),
                PathBuf::from(OsStr::from_bytes(b"/state/\xfe"))
            ]
        );
    }

    #[test]
    fn only_a_new_or_empty_folder_is_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        claim(&state).unwrap();
        fs::write(state.join("mode"), "fake").unwrap();
        claim(&state).unwrap();
        remove(&state).unwrap();
        assert!(!state.exists());

        let other = folder.path().join("photos");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("a.jpg"), "").unwrap();
        assert!(claim(&other).is_err());
        assert!(remove(&other).is_err());
        assert!(other.join("a.jpg").exists());
    }
}
