//! Results, as they are stored in JSON. The name of a field ends with its unit; fields without a unit are counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contender::Contender;
use crate::statistics::{Spread, number};

/// Several runs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The date of the last run.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// The versions of the measured programs and of their environment, by name.
    pub versions: BTreeMap<String, String>,
    /// The runs, in their order.
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
    /// The contender.
    pub contender: Contender,
    /// The number of apps.
    pub apps: usize,
    /// The number of the round, from 1.
    pub round: usize,
    /// The load of the machine in the minute before the run.
    pub load_before: f64,
    /// The creation of all apps.
    pub converge: Converge,
    /// Measurements that only exist for an operator.
    pub operator: Option<Operator>,
}

/// From the first created app to the last one that has all its children and a status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Converge {
    /// The total time.
    pub all_s: f64,
    /// The time to create the apps only.
    pub created_s: f64,
    /// The time for each app, from the answer to its creation.
    pub each_ms: Spread,
    /// Requests, without watches.
    pub asked: Tally,
    /// How many of them failed.
    pub failed: usize,
    /// CPU time of the API server.
    pub apiserver_cpu_s: f64,
    /// CPU time of etcd.
    pub etcd_cpu_s: f64,
}

/// Measurements of an operator, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// The size of the program.
    #[serde(default)]
    pub program_mib: Option<f64>,
    /// From the start of the program until it is ready, without an app.
    pub start_ms: f64,
    /// Its memory after that.
    pub idle_mib: f64,
    /// Its CPU time for all apps, divided by their number.
    pub cpu_ms_per_app: f64,
    /// Its connections when the last app had converged.
    pub connections: usize,
    /// Its open descriptors at that time, including connections.
    pub descriptors: usize,
    /// Its memory at rest.
    pub settled_mib: f64,
    /// Its maximum memory so far.
    pub peak_mib: f64,
    /// A steady minute, if it was measured.
    pub steady: Option<Steady>,
    /// A restart.
    pub restart: Restart,
    /// From the answer to a change of an image to the Deployment that has it; changes come at a constant rate.
    pub change_ms: Spread,
    /// The images of all apps are changed concurrently.
    pub update: Update,
    /// From the answer to the change of a child until it is restored.
    pub restored_ms: Spread,
    /// From the answer to the deletion of a child until it is created again.
    pub recreated_ms: Spread,
    /// How many of these children were not restored.
    pub lost: usize,
}

/// A time without changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Its duration.
    pub seconds: u64,
    /// Requests, including restarts of watches.
    pub asked: Tally,
}

/// A restart of the operator in a steady cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// From the start of the program until it is ready.
    pub ready_ms: f64,
    /// Its requests until it is at rest, without watches.
    pub asked: Tally,
    /// By how many the revisions of etcd grew, without writes of other clients.
    pub revisions: i64,
    /// Its memory after that.
    pub settled_mib: f64,
    /// Its maximum memory so far.
    pub peak_mib: f64,
    /// From the creation of an app at the moment of another start until the app has converged.
    pub canary_ms: f64,
}

/// A change of the images of all apps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// From the first change to the last Deployment and status with the change.
    pub all_s: f64,
    /// Requests, without watches.
    pub asked: Tally,
}

/// The number of requests by verb and resource, as in `create deployments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tally(pub BTreeMap<String, usize>);

impl Tally {
    /// Returns the number of writes.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.count(|verb| matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection"))
    }

    /// Returns the number of reads.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.count(|verb| matches!(verb, "get" | "list"))
    }

    /// Returns the total number.
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
    fn requests_are_writes_or_reads_by_verb() {
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
