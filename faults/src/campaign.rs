//! The same story again and again, each time with one thing that goes wrong, and how each of them ends.
//!
//! A [scenario](scenario) is run undisturbed first, several times: what the operator asked for gives the
//! [plans](plan), what came out is what is [expected](oracle), and what differs among these runs is nobody's fault.
//! Then each plan is a [run](run) with one [fault](fault) at one [call](call). It is survived if it ends as the
//! undisturbed run did, created and deleted each object as often, and violated [nothing](invariant) on the way.

pub mod call;
pub mod catalog;
mod crew;
mod disturbance;
mod execution;
pub mod fault;
pub mod history;
pub mod installation;
pub mod invariant;
pub mod journal;
pub mod kind;
mod manifest;
mod observer;
mod operator;
pub mod oracle;
pub mod page;
pub mod plan;
mod post;
pub mod reign;
pub mod run;
pub mod scenario;
pub mod stage;
pub mod tenant;
mod webhooks;

use std::time::Duration;

use anyhow::Result;

use oracle::Expected;
use plan::Plan;
use run::Verdict;
use scenario::Scenario;
use stage::Stage;

/// How often a scenario is run undisturbed, to see what differs by itself.
const UNDISTURBED: usize = 3;

/// A scenario that has been run undisturbed.
#[derive(Debug, Clone)]
pub struct Campaign {
    scenario: Scenario,
    expected: Expected,
    plans: Vec<Plan>,
    bug: Option<String>,
}

impl Campaign {
    /// Runs a scenario undisturbed.
    ///
    /// # Errors
    /// When it does not settle, or not always in the same way.
    pub fn of(stage: &Stage, scenario: Scenario) -> Result<Self> {
        // One after the other: two at the same time would have their times in common.
        let runs: Result<Vec<_>> = (0..UNDISTURBED).map(|_| run::undisturbed(stage, &scenario)).collect();
        let (outcomes, calls): (Vec<_>, Vec<_>) = runs?.into_iter().map(|run| (run.outcome, run.calls)).unzip();
        let expected = crew::agree(scenario.name, &outcomes)?;
        let calls = call::common(&calls);
        Ok(Self {
            plans: plan::derive(scenario.name, &calls),
            scenario,
            expected,
            bug: None,
        })
    }

    /// Returns the same with an operator that has a bug on purpose, by its name: one that was built with `seeded-bugs`.
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

    /// Returns how many fields are compared, and how many are not because they differ by themselves.
    #[must_use]
    pub fn compared(&self) -> (usize, usize) {
        self.expected.size()
    }

    /// Carries out plans, `workers` at a time, and tells `each` what became of one.
    ///
    /// # Errors
    /// When `each` fails; the others are given up.
    pub fn carry_out(
        &self,
        stage: &Stage,
        plans: &[Plan],
        workers: usize,
        each: impl FnMut(&Plan, &Verdict, Duration) -> Result<()> + Send,
    ) -> Result<()> {
        let run = |plan: &Plan| run::disturbed(stage, &self.scenario, plan, &self.expected, self.bug.as_deref());
        crew::carry_out(plans, workers, run, each)
    }
}
