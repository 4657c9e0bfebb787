//! Renders the results of a campaign, and inserts them into a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::journal::{Entry, Found, SURVIVED, UNREACHED};

/// The marker before the results in the page.
pub const BEGIN: &str = "<!-- campaign: begin -->\n";
/// The marker after the results.
pub const END: &str = "<!-- campaign: end -->\n";

/// The environment of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The version of AppDeploy.
    pub appdeploy: String,
    /// The version of Kubernetes.
    pub kubernetes: String,
    /// The number of processors of the machine.
    pub cores: usize,
}

/// Replaces the results in a page; returns `None` if it has no markers.
#[must_use]
pub fn insert(page: &str, results: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{results}{END}{after}"))
}

/// Renders results as Markdown, the scenarios in the order in which they were run.
#[must_use]
pub fn results(found: &[Found], environment: &Environment) -> String {
    let entries = || found.iter().flat_map(|found| found.entries.iter());
    let mut page = summary(found, environment);
    page.push_str("\n| Scenario | Plans | Run | Passed | Failed | Call did not occur |\n|---|---|---|---|---|---|\n");
    let mut all = Row::default();
    for found in found {
        let row = Row::of(found);
        all.add(&row);
        let _ = writeln!(page, "| `{}` | {row}", found.scenario);
    }
    let _ = writeln!(page, "| all | {all}");
    page.push_str(&names("Failed", entries().filter(|entry| entry.has_failed())));
    page.push_str(&names(
        "Call did not occur",
        entries().filter(|entry| entry.verdict == UNREACHED),
    ));
    page
}

fn summary(found: &[Found], environment: &Environment) -> String {
    let mut dates = BTreeSet::new();
    let mut commits: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in found.iter().flat_map(|found| &found.entries) {
        dates.extend(Some(entry.date.as_str()).filter(|date| !date.is_empty()));
        *commits.entry(&entry.commit).or_default() += 1;
    }
    // A source archive has no commit.
    commits.remove("");
    let when = match (dates.first(), dates.last()) {
        (Some(first), Some(last)) if first != last => format!(" from {first} to {last}"),
        (Some(day), _) => format!(" on {day}"),
        _ => String::new(),
    };
    let of = match commits.len() {
        0 => String::new(),
        _ => format!(" of {}", commits.into_keys().collect::<Vec<_>>().join(", ")),
    };
    let Environment {
        appdeploy,
        kubernetes,
        cores,
    } = environment;
    format!("Run{when}, on a machine with {cores} cores, with AppDeploy {appdeploy}{of} and Kubernetes {kubernetes}.\n")
}

/// Returns a list of plans by name, with a sentence before it; empty if there are none.
fn names<'a>(what: &str, entries: impl Iterator<Item = &'a Entry>) -> String {
    let names: Vec<String> = entries.map(|entry| format!("- `{}`\n", entry.plan)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("\n{what}:\n\n{}", names.concat())
}

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    plans: usize,
    done: usize,
    survived: usize,
    unreached: usize,
}

impl Row {
    fn of(found: &Found) -> Self {
        let count = |verdict: &str| found.entries.iter().filter(|entry| entry.verdict == verdict).count();
        let done = found.entries.len();
        Self {
            // The fault-free runs of an earlier campaign may have had other calls in common.
            plans: found.plans.max(done),
            done,
            survived: count(SURVIVED),
            unreached: count(UNREACHED),
        }
    }

    fn add(&mut self, other: &Self) {
        self.plans += other.plans;
        self.done += other.done;
        self.survived += other.survived;
        self.unreached += other.unreached;
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            plans,
            done,
            survived,
            unreached,
        } = self;
        let failed = done - survived - unreached;
        write!(out, "{plans} | {done} | {survived} | {failed} | {unreached} |")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::campaign::catalog;
    use crate::campaign::journal::found;

    const JOURNAL: &str = r#"
{"scenario": "app-create", "plans": 400, "program": "b"}
{"plan": "app-create: list pods: 410", "operator": "a", "verdict": "failed", "seconds": 1.0}
{"plan": "app-create: list pods: 409", "operator": "b", "verdict": "failed", "seconds": 1.0, "date": "2026-01-01", "commit": "0000001"}
{"plan": "app-create: list pods: 409", "operator": "b", "verdict": "survived", "seconds": 1.0, "date": "2026-01-02", "commit": "0000002"}
{"plan": "app-create: list pods: 429", "operator": "b", "verdict": "unreached", "seconds": 1.0, "date": "2026-01-02", "commit": "0000002"}
{"scenario": "set-scale", "plans": 300, "program": "b"}
{"plan": "set-scale: create pods set-0: reset", "operator": "b", "verdict": "failed", "seconds": 1.0, "problems": ["no"], "date": "2026-01-03", "commit": "0000002"}
{"plan": "set-scale: create pods set-0: ha"#;

    #[test]
    fn page_has_the_results_of_the_last_program() {
        let environment = Environment {
            appdeploy: "0.1.0".to_owned(),
            kubernetes: "1.36.3".to_owned(),
            cores: 2,
        };
        insta::assert_snapshot!(results(&found(JOURNAL), &environment), @r"
        Run from 2026-01-02 to 2026-01-03, on a machine with 2 cores, with AppDeploy 0.1.0 of 0000002 and Kubernetes 1.36.3.

        | Scenario | Plans | Run | Passed | Failed | Call did not occur |
        |---|---|---|---|---|---|
        | `app-create` | 400 | 2 | 1 | 0 | 1 |
        | `set-scale` | 300 | 1 | 0 | 1 | 0 |
        | all | 700 | 3 | 1 | 1 | 1 |

        Failed:

        - `set-scale: create pods set-0: reset`

        Call did not occur:

        - `app-create: list pods: 429`
        ");
    }

    #[test]
    fn page_has_the_markers_and_every_scenario() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reliability.md");
        let page = std::fs::read_to_string(path).unwrap();
        let written = insert(&page, "new\n").unwrap();
        assert!(written.contains(&format!("{BEGIN}new\n{END}")));
        assert_eq!(insert(&written, "new\n").as_ref(), Some(&written));
        assert_eq!(insert("no markers", "new\n"), None);
        for scenario in catalog::all() {
            assert!(
                page.contains(&format!("\n| `{}` |", scenario.name)),
                "{}",
                scenario.name
            );
        }
    }
}
