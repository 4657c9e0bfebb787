//! A memory limit for one process, enforced by the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::LIMIT_MIB;

/// A control group, which is removed when this is dropped, after its process has exited.
#[derive(Debug)]
pub struct Limit(PathBuf);

impl Limit {
    /// Creates a group with the limit; `None` if that is not possible.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let bytes = (LIMIT_MIB << 20).to_string();
        let unified = Path::new("/sys/fs/cgroup");
        let legacy = unified.join("memory");
        let (folder, file) = if legacy.join("memory.limit_in_bytes").exists() {
            (legacy, "memory.limit_in_bytes")
        } else {
            (unified.to_owned(), "memory.max")
        };
        let group = folder.join(format!("appdeploy-bench-{}-{name}", std::process::id()));
        fs::create_dir(&group).ok()?;
        let limit = Self(group);
        fs::write(limit.0.join(file), bytes).ok()?;
        Some(limit)
    }

    /// Adds a process to the group.
    ///
    /// # Errors
    /// When the kernel rejects it.
    pub fn add(&self, process: u32) -> Result<()> {
        let file = self.0.join("cgroup.procs");
        fs::write(&file, process.to_string()).with_context(|| format!("failed to write {}", file.display()))
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // A group that still has a process is kept, which is harmless.
        let _ = fs::remove_dir(&self.0);
    }
}
