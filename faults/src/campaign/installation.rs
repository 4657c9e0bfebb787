//! A campaign for the plugin: every fault at every call of an installation, an upgrade and an uninstallation.
//!
//! A command runs with a fault at one of its calls, and then runs again. An installation affects the whole cluster, so
//! each run has a cluster to itself and restores it.

mod cleanup;
mod cluster;
mod command;
mod run;
mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::FAULT_FREE_RUNS;
use super::call;
use super::oracle::Expected;
use super::plan::{self, Plan};
use super::run::Verdict;
use super::workers;
use cluster::Cluster;
use run::FaultFree;

const INSTALL: &str = "install --wait=false";
/// Removes the installation with all apps.
const UNINSTALL: &str = "uninstall --delete-crds --yes";

/// A command, and the state before it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name, the prefix of the names of its plans.
    pub name: &'static str,
    /// The command that is run first, without faults.
    before: Option<&'static str>,
    /// The objects that are applied after that.
    objects: Vec<Value>,
    /// The command into whose calls faults are injected.
    command: &'static str,
}

/// Returns all scenarios.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "install",
            before: None,
            objects: Vec::new(),
            command: INSTALL,
        },
        // From an installation with rights in one namespace, without webhooks, and with more objects.
        Scenario {
            name: "upgrade",
            before: Some(
                "install --wait=false --webhooks=false --watch-namespace=default --image=example.com/appdeploy-operator:v0.0.1",
            ),
            objects: former().into_iter().chain([app()]).collect(),
            command: INSTALL,
        },
        Scenario {
            name: "uninstall",
            before: Some("install --wait=false --webhooks=false"),
            objects: vec![app()],
            command: UNINSTALL,
        },
    ]
}

/// Returns objects of an older version that this version no longer has, and objects that users have added.
fn former() -> Vec<Value> {
    let of_people = json!({crd::label::PART_OF: crd::label::PART_OF_VALUE});
    let mut of_ours = of_people.clone();
    of_ours[crd::label::INVENTORY] = crd::label::INVENTORY_VALUE.into();
    let policy = |name: &str, labels: &Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": crd::OPERATOR_NAMESPACE, "labels": labels},
            "spec": {"podSelector": {}},
        })
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "former", "labels": of_ours}, "rules": [],
    });
    vec![policy("former", &of_ours), policy("added", &of_people), role]
}

fn app() -> Value {
    json!({
        "apiVersion": format!("{}/{}", crd::GROUP, crd::VERSION), "kind": "AppDeploy",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"image": "nginx:1.27", "port": 80},
    })
}

/// Clusters for the runs of one plugin: as many as there are concurrent runs.
#[derive(Debug)]
pub struct Clusters {
    plugin: PathBuf,
    free: Mutex<Vec<Cluster>>,
}

impl Clusters {
    /// Returns an empty pool: each cluster is started when it is needed.
    #[must_use]
    pub fn of(plugin: &Path) -> Self {
        Self {
            plugin: plugin.to_owned(),
            free: Mutex::default(),
        }
    }

    /// Runs `work` with a cluster of its own. A cluster that was not restored is not used again.
    fn on<T>(&self, work: impl FnOnce(&Cluster) -> Result<(T, bool)>) -> Result<T> {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let known = free().pop();
        let cluster = match known {
            Some(cluster) => cluster,
            None => Cluster::start(&self.plugin)?,
        };
        let (done, is_clean) = work(&cluster)?;
        if is_clean {
            free().push(cluster);
        }
        Ok(done)
    }
}

/// A scenario with the results of its fault-free runs.
#[derive(Debug, Clone)]
pub struct Campaign {
    scenario: Scenario,
    baseline: Baseline,
    plans: Vec<Plan>,
}

/// The expected result of a run.
#[derive(Debug, Clone)]
struct Baseline {
    expected: Expected,
    /// How many objects the command has created, according to the API server's answers.
    created: usize,
}

impl Campaign {
    /// Runs a scenario without faults.
    ///
    /// # Errors
    /// When that fails, or does not always end in the same way.
    pub fn of(clusters: &Clusters, scenario: Scenario) -> Result<Self> {
        let mut outcomes = Vec::new();
        let mut calls = Vec::new();
        let mut created = 0;
        for _ in 0..FAULT_FREE_RUNS {
            let run: FaultFree = clusters.on(|cluster| Ok((run::fault_free(cluster, &scenario)?, true)))?;
            outcomes.push(run.outcome);
            calls.push(run.calls);
            created = run.created;
        }
        let expected = workers::common_outcome(scenario.name, &outcomes)?;
        Ok(Self {
            plans: plans(scenario.name, &call::common(&calls)),
            scenario,
            baseline: Baseline { expected, created },
        })
    }

    /// Returns the plan for every fault of every call.
    #[must_use]
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Returns how many fields are compared, and how many are ignored because they differ between runs.
    #[must_use]
    pub fn compared(&self) -> (usize, usize) {
        self.baseline.expected.size()
    }

    /// Runs plans, `workers` at a time, and calls `each` with the result of each plan.
    ///
    /// # Errors
    /// When `each` fails; the other plans are not run.
    pub fn run_plans(
        &self,
        clusters: &Clusters,
        plans: &[Plan],
        workers: usize,
        each: impl FnMut(&Plan, &Verdict, Duration) -> Result<()> + Send,
    ) -> Result<()> {
        let run = |plan: &Plan| clusters.on(|cluster| run::with_fault(cluster, &self.scenario, plan, &self.baseline));
        workers::run_plans(plans, workers, run, each)
    }
}

/// Returns the plans for the calls of a command.
fn plans(scenario: &str, calls: &[(call::Call, usize)]) -> Vec<Plan> {
    let mut plans = plan::derive(scenario, calls);
    plans.retain(|plan| plan.fault.concerns_plugin());
    plans
}
