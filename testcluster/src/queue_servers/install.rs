//! Installs the servers into the cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use xxhash_rust::xxh3::xxh3_64;

use crate::binaries::cache;

/// Returns the folder of a server in the cache, after `install` has filled it. `list` is what is installed: the folder has
/// its hash in its name. One process installs at a time.
pub(super) fn ensure_installed(name: &str, list: &str, install: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = cache()?.join(format!("{name}-{:016x}", xxh3_64(list.as_bytes())));
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(folder);
    }
    let write = || format!("failed to write {}", folder.display());
    fs::create_dir_all(&folder).with_context(write)?;
    // The kernel releases it even if this process is killed.
    let lock = File::create(folder.join("lock")).with_context(write)?;
    lock.lock().with_context(write)?;
    if !complete.exists() {
        install(&folder).with_context(|| format!("failed to install {name}"))?;
        fs::write(&complete, "").with_context(write)?;
    }
    Ok(folder)
}

/// Runs a command, and fails with what it printed.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("failed to run {name}"))?;
    // Maven reports its errors on standard output.
    ensure!(
        output.status.success(),
        "{name} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_command_is_reported_with_its_output() {
        let error = run(Command::new("sh").args(["-c", "echo reason >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("reason"), "{error}");
        let error = run(&mut Command::new("appdeploy-no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "failed to run appdeploy-no-such-program");
    }
}
