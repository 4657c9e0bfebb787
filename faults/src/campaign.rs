//! Runs the same scenario again and again, each time with one fault, and compares the results.
//!
//! A [scenario](scenario) is first run several times without faults: the operator's calls give the [plans](plan), the
//! result is what is [expected](oracle), and fields that differ between these runs are ignored. Then each plan is a
//! [run](run) with one [fault](fault) at one [call](call). It survives if the result is that of the fault-free runs, each
//! object was created and deleted as often, and no [invariant](invariant) was violated.

pub mod call;
pub mod catalog;
pub mod cluster;
mod execution;
pub mod fault;
pub mod history;
mod injection;
pub mod installation;
pub mod invariant;
pub mod journal;
pub mod kind;
pub mod leadership;
mod observer;
mod operator;
pub mod oracle;
pub mod page;
pub mod plan;
mod queue_servers;
pub mod queues;
mod replica;
pub mod run;
pub mod scenario;
pub mod service;
pub mod tenant;
pub mod transport;
mod webhooks;
mod workers;

use std::time::Duration;

use anyhow::Result;

use cluster::Cluster;
use oracle::Expected;
use plan::Plan;
use run::Verdict;
use scenario::Scenario;

/// Number of fault-free runs of a scenario, to find the fields that differ between runs.
const FAULT_FREE_RUNS: usize = 3;

/// A scenario with the results of its fault-free runs.
#[derive(Debug, Clone)]
pub struct Campaign {
    scenario: Scenario,
    expected: Expected,
    plans: Vec<Plan>,
    bug: Option<String>,
}

impl Campaign {
    /// Runs a scenario without faults.
    ///
    /// # Errors
    /// When it does not settle, or not always in the same way.
    pub fn of(cluster: &Cluster, scenario: Scenario) -> Result<Self> {
        // Sequentially: concurrent runs would have similar times, which must be found to differ.
        let runs: Result<Vec<_>> = (0..FAULT_FREE_RUNS)
            .map(|_| run::fault_free(cluster, &scenario))
            .collect();
        let (outcomes, calls): (Vec<_>, Vec<_>) = runs?.into_iter().map(|run| (run.outcome, run.calls)).unzip();
        let expected = workers::common_outcome(scenario.name, &outcomes)?;
        let mut calls = call::common(&calls);
        calls.retain(|(call, _)| scenario.concerns(call));
        Ok(Self {
            plans: plan::derive(scenario.name, &calls),
            scenario,
            expected,
            bug: None,
        })
    }

    /// Returns the same campaign with an operator that has the seeded bug of this name. The operator must be built with
    /// the seeded bugs.
    #[must_use]
    pub fn seeded(&self, bug: &str) -> Self {
        Self {
            bug: Some(bug.to_owned()),
            ..self.clone()
        }
    }

    /// Returns the plan for every fault of every call.
    #[must_use]
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Returns how many fields are compared, and how many are ignored because they differ between runs.
    #[must_use]
    pub fn compared(&self) -> (usize, usize) {
        self.expected.size()
    }

    /// Runs plans, `workers` at a time, and calls `each` with the result of each plan.
    ///
    /// # Errors
    /// When `each` fails; the other plans are not run.
    pub fn run_plans(
        &self,
        cluster: &Cluster,
        plans: &[Plan],
        workers: usize,
        each: impl FnMut(&Plan, &Verdict, Duration) -> Result<()> + Send,
    ) -> Result<()> {
        let run = |plan: &Plan| run::with_fault(cluster, &self.scenario, plan, &self.expected, self.bug.as_deref());
        workers::run_plans(plans, workers, run, each)
    }
}
