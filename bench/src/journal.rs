//! The runs so far, in files: an interrupted benchmark can be continued.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::contender::Contender;
use crate::result::{Machine, Report, Run};

/// Properties of all runs of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The date.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// The versions of the programs.
    pub versions: BTreeMap<String, String>,
}

/// A folder with a file for each run.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

const ABOUT: &str = "about.json";
const RUNS: &str = "runs";

impl Journal {
    /// Returns the journal in a folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Removes all runs of the journal.
    ///
    /// # Errors
    /// When a file can't be removed.
    pub fn clear(&self) -> Result<()> {
        let runs = self.folder.join(RUNS);
        if runs.exists() {
            fs::remove_dir_all(&runs).with_context(|| format!("failed to remove {}", runs.display()))?;
        }
        Ok(())
    }

    /// Writes the properties of all runs.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn begin(&self, about: &About) -> Result<()> {
        write(&self.folder.join(ABOUT), about)
    }

    /// Returns whether a run exists.
    #[must_use]
    pub fn has(&self, contender: Contender, apps: usize, round: usize) -> bool {
        self.path(contender, apps, round).exists()
    }

    /// Writes a run.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, run: &Run) -> Result<()> {
        write(&self.path(run.contender, run.apps, run.round), run)
    }

    /// Returns all runs, by their number of apps, round and contender.
    ///
    /// # Errors
    /// When there are none, or a file can't be read.
    pub fn report(&self) -> Result<Report> {
        let About {
            date,
            machine,
            versions,
        } = read(&self.folder.join(ABOUT))?;
        let mut runs: Vec<Run> = Vec::new();
        let folder = self.folder.join(RUNS);
        for entry in fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
            runs.push(read(&entry?.path())?);
        }
        ensure!(!runs.is_empty(), "there is no run in {}", folder.display());
        runs.sort_by_key(|run| (run.apps, run.round, run.contender));
        Ok(Report {
            date,
            machine,
            versions,
            runs,
        })
    }

    fn path(&self, contender: Contender, apps: usize, round: usize) -> PathBuf {
        self.folder.join(RUNS).join(format!("{apps}-{round}-{contender}.json"))
    }
}

/// Writes a value as JSON.
///
/// # Errors
/// When the file can't be written.
pub fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let folder = path.parent().context("the file has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let text = serde_json::to_string_pretty(value)? + "\n";
    // Renamed when complete: an existing file counts as done.
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, path))
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Reads a value from JSON.
///
/// # Errors
/// When the file can't be read, or has another format.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("failed to understand {}", path.display()))
}
