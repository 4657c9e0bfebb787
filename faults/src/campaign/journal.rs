//! The results of plans, one line each, so that a campaign can continue after an interruption.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::run::Verdict;

/// The result of a plan, as a line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of the plan.
    pub plan: String,
    /// A hash of the operator under test.
    pub operator: String,
    /// `survived`, `failed` or `unreached`.
    pub verdict: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The problems, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The date.
    #[serde(default)]
    pub date: String,
    /// The commit of the checkout; empty if there is none.
    #[serde(default)]
    pub commit: String,
}

impl Entry {
    /// Returns whether the plan was run and did not survive.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.verdict != SURVIVED && self.verdict != UNREACHED
    }
}

/// The number of plans of a scenario, written before they are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    scenario: String,
    plans: usize,
    /// A hash of the program under test.
    program: String,
}

/// The results of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its name.
    pub scenario: String,
    /// How many plans it has.
    pub plans: usize,
    /// The results of the plans that were run, by name.
    pub entries: Vec<Entry>,
}

/// A file of results.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    operator: String,
    commit: String,
    known: BTreeMap<String, Entry>,
}

impl Journal {
    /// Opens the journal, and reads the results of this operator. Results of other operators are ignored.
    ///
    /// # Errors
    /// When a file can't be read or written.
    pub fn open(path: &Path, operator: &Path) -> Result<Self> {
        let program = fs::read(operator).with_context(|| format!("failed to read {}", operator.display()))?;
        let operator = format!("{:016x}", xxh3_64(&program));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        }
        let text = fs::read_to_string(path).unwrap_or_default();
        let open = OpenOptions::new().create(true).append(true).open(path);
        let file = open.with_context(|| format!("failed to open {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            known: read(&text, &operator),
            operator,
            commit: commit(),
        })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the result of a plan.
    #[must_use]
    pub fn entry(&self, plan: &str) -> Option<&Entry> {
        self.known.get(plan)
    }

    /// Writes how many plans a scenario has.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn begin(&mut self, scenario: &str, plans: usize) -> Result<()> {
        let header = Header {
            scenario: scenario.to_owned(),
            plans,
            program: self.operator.clone(),
        };
        self.append(&header)
    }

    /// Writes the result of a plan.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&mut self, plan: &str, verdict: &Verdict, took: Duration) -> Result<()> {
        let (word, problems) = match verdict {
            Verdict::Survived => (SURVIVED, Vec::new()),
            Verdict::Failed(problems) => ("failed", problems.clone()),
            Verdict::Unreached => (UNREACHED, Vec::new()),
        };
        let entry = Entry {
            plan: plan.to_owned(),
            operator: self.operator.clone(),
            verdict: word.to_owned(),
            seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
            problems,
            date: jiff::Timestamp::now().strftime("%F").to_string(),
            commit: self.commit.clone(),
        };
        self.append(&entry)?;
        self.known.insert(plan.to_owned(), entry);
        Ok(())
    }

    fn append(&mut self, line: &impl Serialize) -> Result<()> {
        // One write, so that a line is complete or missing.
        let line = format!("{}\n", serde_json::to_string(line)?);
        Ok(self.file.write_all(line.as_bytes())?)
    }
}

pub(super) const SURVIVED: &str = "survived";
pub(super) const UNREACHED: &str = "unreached";

/// Returns the results of each scenario, in the order of their first lines: those of the last program, and the last line
/// of each plan.
#[must_use]
pub fn found(journal: &str) -> Vec<Found> {
    let mut found: Vec<(Found, String)> = Vec::new();
    for line in journal.lines() {
        // The last line may be incomplete.
        let (scenario, program, plans, entry) = if let Ok(entry) = serde_json::from_str::<Entry>(line) {
            let scenario = entry.plan.split(':').next().unwrap_or_default().to_owned();
            (scenario, entry.operator.clone(), None, Some(entry))
        } else if let Ok(header) = serde_json::from_str::<Header>(line) {
            (header.scenario, header.program, Some(header.plans), None)
        } else {
            continue;
        };
        let place = found.iter().position(|(found, _)| found.scenario == scenario);
        let place = place.unwrap_or_else(|| {
            let (plans, entries) = (0, Vec::new());
            found.push((
                Found {
                    scenario,
                    plans,
                    entries,
                },
                program.clone(),
            ));
            found.len() - 1
        });
        let (found, last) = &mut found[place];
        if *last != program {
            found.entries.clear();
            *last = program;
        }
        found.plans = plans.unwrap_or(found.plans);
        if let Some(entry) = entry {
            found.entries.retain(|other| other.plan != entry.plan);
            found.entries.push(entry);
        }
    }
    found.into_iter().map(|(found, _)| found).collect()
}

/// Returns the commit of this checkout, with a suffix if it was changed; empty in a source archive.
fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude=*"]);
    let said = git.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let commit = said.ok().filter(|said| said.status.success());
    commit.map_or_else(String::new, |said| {
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    })
}

/// Returns the known results: the last line of each plan, without failures.
fn read(text: &str, operator: &str) -> BTreeMap<String, Entry> {
    // The last line may be incomplete.
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let ours = entries.filter(|entry| entry.operator == operator);
    let mut known: BTreeMap<String, Entry> = ours.map(|entry| (entry.plan.clone(), entry)).collect();
    known.retain(|_, entry| !entry.has_failed());
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaign_continues_after_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let (path, program) = (folder.path().join("faults/results"), folder.path().join("operator"));
        fs::write(&program, "one").unwrap();
        let mut journal = Journal::open(&path, &program).unwrap();
        let took = Duration::from_millis(1234);
        journal.write("a", &Verdict::Survived, took).unwrap();
        journal.write("b", &Verdict::Failed(vec!["no".into()]), took).unwrap();
        journal.write("c", &Verdict::Unreached, took).unwrap();
        journal.begin("d", 7).unwrap();
        // An interrupted write.
        journal.file.write_all(br#"{"plan": "d""#).unwrap();
        drop(journal);

        let again = Journal::open(&path, &program).unwrap();
        let known: Vec<&str> = again.known.keys().map(String::as_str).collect();
        assert_eq!(known, ["a", "c"], "what failed is tried again");
        assert_eq!(again.entry("a").map(|entry| entry.seconds), Some(1.2));

        fs::write(&program, "another").unwrap();
        let other = Journal::open(&path, &program).unwrap();
        assert_eq!(other.known.len(), 0, "another operator has shown nothing yet");
    }
}
