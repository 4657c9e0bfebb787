//! What was measured, as it is kept in JSON. A field's name ends in its unit; what has none is a count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contender::Contender;
use crate::statistics::{Spread, number};

/// Several runs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// When the last of them ended, as a day.
    pub date: String,
    /// Where they were made.
    pub machine: Machine,
    /// What was measured and what it ran on: a name and a version.
    pub versions: BTreeMap<String, String>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
}

/// A machine, without its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of its processor.
    pub cpu: String,
    /// How many processors may be used.
    pub cores: usize,
    /// Its memory.
    pub memory_gib: u64,
}

/// One contender with one number of apps, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Who ran.
    pub contender: Contender,
    /// How many apps there were.
    pub apps: usize,
    /// Which time it was, from 1.
    pub round: usize,
    /// The load of the machine in the minute before it began.
    pub load_before: f64,
    /// All apps are created.
    pub converge: Converge,
    /// What only an operator has.
    pub operator: Option<Operator>,
}

/// From the first app that is created to the last that has all its children and a status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Converge {
    /// How long that took.
    pub all_s: f64,
    /// How long it took to create the apps alone.
    pub created_s: f64,
    /// How long it took each, from the answer to its creation.
    pub each_ms: Spread,
    /// What was asked, watches aside.
    pub asked: Tally,
    /// How many of that failed.
    pub failed: usize,
    /// What the API server needed meanwhile.
    pub apiserver_cpu_s: f64,
    /// What etcd needed meanwhile.
    pub etcd_cpu_s: f64,
}

/// What was measured of an operator, in the order in which it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// From the start of the program until it is ready, without an app.
    pub start_ms: f64,
    /// Its memory then.
    pub idle_mib: f64,
    /// Its processor time for all apps, by their number.
    pub cpu_ms_per_app: f64,
    /// Connections that it had when the last app had converged.
    pub connections: usize,
    /// Files that it had open then, connections among them.
    pub descriptors: usize,
    /// Its memory when it had nothing left to do.
    pub settled_mib: f64,
    /// The most memory that it had until then.
    pub peak_mib: f64,
    /// A time in which nothing happens, if it was measured.
    pub steady: Option<Steady>,
    /// It ends and starts again.
    pub restart: Restart,
    /// From a change of an image, answered, to the Deployment that has it; changes come at a steady pace.
    pub change_ms: Spread,
    /// The images of all apps are changed at once.
    pub update: Update,
    /// From a child that was deleted or changed by somebody, answered, until it is there as before.
    pub heal_ms: Spread,
    /// How many children were not restored.
    pub lost: usize,
}

/// Nothing happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// For how long.
    pub seconds: u64,
    /// What was asked, watches that began again included.
    pub asked: Tally,
}

/// An operator ends and starts among apps that are as they should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// From the start of the program until it is ready.
    pub ready_ms: f64,
    /// What it asked until it had nothing left to do, watches aside.
    pub asked: Tally,
    /// By how many the revisions of etcd grew meanwhile, writes of others aside.
    pub revisions: i64,
    /// Its memory then.
    pub settled_mib: f64,
    /// The most memory that it had until then.
    pub peak_mib: f64,
    /// From the creation of an app at the moment of another start until that app has converged.
    pub canary_ms: f64,
}

/// The images of all apps are changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// From the first change to the last Deployment and status that tell of it.
    pub all_s: f64,
    /// What was asked, watches aside.
    pub asked: Tally,
}

/// How often what was asked: a verb and a resource, as in `create deployments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tally(pub BTreeMap<String, usize>);

impl Tally {
    /// Returns how many writes there are.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.count(|verb| matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection"))
    }

    /// Returns how many reads there are.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.count(|verb| matches!(verb, "get" | "list"))
    }

    /// Returns how many there are in all.
    #[must_use]
    pub fn all(&self) -> usize {
        self.count(|_| true)
    }

    fn count(&self, wanted: impl Fn(&str) -> bool) -> usize {
        let verb = |what: &str| what.split(' ').next().is_some_and(&wanted);
        self.0
            .iter()
            .filter(|(what, _)| verb(what))
            .map(|(_, count)| count)
            .sum()
    }
}

impl Run {
    /// Returns the writes for each app.
    #[must_use]
    pub fn writes_per_app(&self) -> f64 {
        number(self.converge.asked.writes()) / number(self.apps)
    }

    /// Returns the reads for each app.
    #[must_use]
    pub fn reads_per_app(&self) -> f64 {
        number(self.converge.asked.reads()) / number(self.apps)
    }
}

impl Report {
    /// Returns the numbers of apps that were measured, each once.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.runs.iter().map(|run| run.apps).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the contenders that were measured, each once.
    #[must_use]
    pub fn contenders(&self) -> Vec<Contender> {
        let mut contenders: Vec<Contender> = self.runs.iter().map(|run| run.contender).collect();
        contenders.sort_unstable();
        contenders.dedup();
        contenders
    }

    /// Returns the runs of one contender with one number of apps.
    pub fn of(&self, contender: Contender, apps: usize) -> impl Iterator<Item = &Run> {
        self.runs
            .iter()
            .filter(move |run| run.contender == contender && run.apps == apps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_a_write_or_a_read_by_its_verb() {
        let asked = [
            ("create deployments", 3),
            ("patch appdeploys/status", 2),
            ("list pods", 1),
            ("get /version", 4),
            ("watch pods", 5),
        ];
        let tally = Tally(asked.map(|(what, count)| (what.to_owned(), count)).into());
        assert_eq!((tally.writes(), tally.reads(), tally.all()), (5, 5, 15));
    }
}
