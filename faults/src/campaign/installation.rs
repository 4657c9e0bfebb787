//! The same for the plugin: every fault at every call of an installation, of one over an older one, and of its end.
//!
//! A person runs a command, something goes wrong with one of its calls, and they run it again. What it asks for is of a
//! whole cluster, so that each run has one to itself, and leaves it as it was.

mod command;
mod ground;
mod janitor;
mod run;
mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::UNDISTURBED;
use super::call;
use super::crew;
use super::fault::Fault;
use super::oracle::Expected;
use super::plan::{self, Plan};
use super::run::Verdict;
use ground::Ground;
use run::Undisturbed;

const INSTALL: &str = "install --wait=false";
/// Removes all of it, with what was made by it.
const UNINSTALL: &str = "uninstall --delete-crds --yes";

/// A command, and what is there before it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name, which begins those of its plans.
    pub name: &'static str,
    /// What is run before, undisturbed.
    before: Option<&'static str>,
    /// What is applied after that.
    objects: Vec<Value>,
    /// What is disturbed.
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
        // From one that had its rights in a namespace and no webhooks, and was made of more.
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

/// What an older version had and this one has not; and what people have added to it.
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

/// Clusters for runs of one plugin: as many as there are runs at a time.
#[derive(Debug)]
pub struct Grounds {
    plugin: PathBuf,
    free: Mutex<Vec<Ground>>,
}

impl Grounds {
    /// Returns none yet: each is started when it is wanted.
    #[must_use]
    pub fn of(plugin: &Path) -> Self {
        Self {
            plugin: plugin.to_owned(),
            free: Mutex::default(),
        }
    }

    /// Does something on a cluster that nobody else uses. One that was not left as it was is not used again.
    fn on<T>(&self, work: impl FnOnce(&Ground) -> Result<(T, bool)>) -> Result<T> {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let known = free().pop();
        let ground = match known {
            Some(ground) => ground,
            None => Ground::start(&self.plugin)?,
        };
        let (done, is_clean) = work(&ground)?;
        if is_clean {
            free().push(ground);
        }
        Ok(done)
    }
}

/// A scenario that has been run undisturbed.
#[derive(Debug, Clone)]
pub struct Campaign {
    scenario: Scenario,
    measure: Measure,
    plans: Vec<Plan>,
}

/// What a disturbed run is compared with.
#[derive(Debug, Clone)]
struct Measure {
    expected: Expected,
    /// How many objects the command has created: the API server says so of each.
    created: usize,
}

impl Campaign {
    /// Runs a scenario undisturbed.
    ///
    /// # Errors
    /// When that fails, or does not always end in the same way.
    pub fn of(grounds: &Grounds, scenario: Scenario) -> Result<Self> {
        let mut outcomes = Vec::new();
        let mut calls = Vec::new();
        let mut created = 0;
        for _ in 0..UNDISTURBED {
            let run: Undisturbed = grounds.on(|ground| Ok((run::undisturbed(ground, &scenario)?, true)))?;
            outcomes.push(run.outcome);
            calls.push(run.calls);
            created = run.created;
        }
        let expected = crew::agree(scenario.name, &outcomes)?;
        Ok(Self {
            plans: plans(scenario.name, &call::common(&calls)),
            scenario,
            measure: Measure { expected, created },
        })
    }

    /// Returns the plan for every fault of every call.
    #[must_use]
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Returns how many fields are compared, and how many are not because they differ by themselves.
    #[must_use]
    pub fn compared(&self) -> (usize, usize) {
        self.measure.expected.size()
    }

    /// Carries out plans, `workers` at a time, and tells `each` what became of one.
    ///
    /// # Errors
    /// When `each` fails; the others are given up.
    pub fn carry_out(
        &self,
        grounds: &Grounds,
        plans: &[Plan],
        workers: usize,
        each: impl FnMut(&Plan, &Verdict, Duration) -> Result<()> + Send,
    ) -> Result<()> {
        let run = |plan: &Plan| grounds.on(|ground| run::disturbed(ground, &self.scenario, plan, &self.measure));
        crew::carry_out(plans, workers, run, each)
    }
}

/// Returns the plans for the calls of a command. It lives too short for what is about a whole watch.
fn plans(scenario: &str, calls: &[(call::Call, usize)]) -> Vec<Plan> {
    let mut plans = plan::derive(scenario, calls);
    plans.retain(|plan| plan.fault.action().is_some() && plan.fault != Fault::Late);
    plans
}
