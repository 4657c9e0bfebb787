//! One run of a scenario, undisturbed or with one fault.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use serde_json::Value;

use super::call::{Call, calls};
use super::disturbance::Disturbance;
use super::history::Seen;
use super::invariant::{outside, violations};
use super::operator::Operator;
use super::oracle::{Expected, Outcome};
use super::plan::Plan;
use super::scenario::{Deed, Scenario};
use super::stage::{OPERATOR, Stage};
use crate::Proxy;

/// How long a step may take. Longer than the operator's longest wait for an answer that does not come, which is that
/// of a watch.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a step may take an operator that has a bug on purpose: no plan for one has to wait for a watch to be given up.
const IMPATIENCE: Duration = Duration::from_secs(30);
/// How long it may take from there to where the undisturbed run has come to.
const CONVERGENCE: Duration = Duration::from_secs(30);
/// How long nothing has to happen until nothing does: longer than the second for which a status may be held back.
const QUIET: Duration = Duration::from_millis(1200);
const GLANCE: Duration = Duration::from_millis(100);
/// What tells which of two objects is older: the API server says to the second when it made them.
const SECOND: Duration = Duration::from_secs(1);

/// What became of a run with a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It ended as the undisturbed one.
    Survived,
    /// It did not, or something was violated on the way: one sentence each.
    Failed(Vec<String>),
    /// The call did not come up, so nothing was shown.
    Unreached,
}

/// What an undisturbed run showed.
#[derive(Debug, Clone)]
pub struct Undisturbed {
    /// How it ended.
    pub outcome: Outcome,
    /// What the operator asked for, and how many events each of it has told.
    pub calls: Vec<(Call, usize)>,
}

/// Runs a scenario with no fault.
///
/// # Errors
/// When it does not settle, or violates what must be true of every run.
pub fn undisturbed(stage: &Stage, scenario: &Scenario) -> Result<Undisturbed> {
    let run = Run::start(stage, None, |_| {})?;
    let settled = run.play(scenario, None)?;
    run.until_quiet();
    let mut problems = run.problems();
    problems.extend((!settled).then(|| UNSETTLED.to_owned()));
    if !problems.is_empty() {
        bail!(
            "{} has problems without any fault: {}\n{}",
            scenario.name,
            problems.join("; "),
            run.log_tail()
        );
    }
    let found = Undisturbed {
        outcome: run.outcome(),
        calls: calls(&run.proxy.records()),
    };
    run.end()?;
    Ok(found)
}

/// Runs a scenario with the fault of a plan, perhaps with a bug on purpose, and compares how it ends.
///
/// # Errors
/// When the run itself can't be made, whatever the operator does.
pub fn disturbed(
    stage: &Stage,
    scenario: &Scenario,
    plan: &Plan,
    expected: &Expected,
    bug: Option<&str>,
) -> Result<Verdict> {
    let mut disturbance = Disturbance::of(plan);
    let run = Run::start(stage, bug, |proxy| disturbance.begin(proxy))?;
    let over = AtomicBool::new(false);
    let as_expected = |history: &[Seen]| {
        let outcome = Outcome::of(history, &run.namespace);
        expected.differences(&outcome).is_empty()
    };
    let converge = |settled: bool| {
        if settled {
            stage.observer.wait_for(&run.namespace, CONVERGENCE, as_expected);
        }
        run.until_quiet();
    };
    let (settled, killed) = thread::scope(|scope| {
        let keeper = scope.spawn(|| disturbance.keep(&run, &over));
        let played = run.play(scenario, Some(&disturbance)).and_then(|settled| {
            if settled {
                disturbance.end(&run)?;
            }
            // The call may come when all steps are done.
            converge(settled);
            Ok(settled)
        });
        over.store(true, Ordering::Relaxed);
        let killed = keeper
            .join()
            .map_err(|_| anyhow!("what kills the operator has panicked"))??;
        Ok::<_, anyhow::Error>((played?, killed))
    })?;
    // It may have been killed a moment ago.
    if killed && run.until_ready() {
        converge(settled);
    }
    let mut problems = run.problems();
    problems.extend((!settled).then(|| UNSETTLED.to_owned()));
    problems.extend(expected.differences(&run.outcome()).iter().map(ToString::to_string));
    let reached = disturbance.was_met(&run.proxy);
    if !problems.is_empty() {
        problems.push(format!("the operator said last:\n{}", run.log_tail()));
    }
    run.end()?;
    Ok(match (problems.is_empty(), reached) {
        (false, _) => Verdict::Failed(problems),
        (true, true) => Verdict::Survived,
        (true, false) => Verdict::Unreached,
    })
}

const UNSETTLED: &str = "it did not settle";

/// A run that goes on.
pub(super) struct Run<'a> {
    stage: &'a Stage,
    bug: Option<&'a str>,
    namespace: String,
    pub(super) proxy: Proxy,
    operator: Mutex<Operator>,
    panics: Mutex<Vec<String>>,
}

impl<'a> Run<'a> {
    fn start(stage: &'a Stage, bug: Option<&'a str>, script: impl FnOnce(&Proxy)) -> Result<Self> {
        let namespace = stage.namespace()?;
        let proxy = Proxy::before(&stage.control_plane, OPERATOR, &[])?;
        script(&proxy);
        let operator = Operator::start(&stage.program, &stage.control_plane, &proxy, &namespace, bug)?;
        Ok(Self {
            stage,
            bug,
            namespace,
            proxy,
            operator: operator.into(),
            panics: Mutex::default(),
        })
    }

    /// Goes through the steps, and returns whether all settled.
    fn play(&self, scenario: &Scenario, disturbance: Option<&Disturbance<'_>>) -> Result<bool> {
        if !self.until_ready() {
            return Ok(false);
        }
        let mut created: Option<Instant> = None;
        for step in &scenario.steps {
            let is_creation = matches!(step.deed, Deed::Create(..));
            let mut left = Value::Null;
            let mut deed = || {
                if let Some(created) = created.filter(|_| is_creation) {
                    thread::sleep(SECOND.saturating_sub(created.elapsed()));
                }
                left = self.stage.perform(&self.namespace, &step.deed)?;
                created = Some(Instant::now()).filter(|_| is_creation).or(created);
                Ok(())
            };
            match disturbance {
                Some(disturbance) => disturbance.veil(self, &mut deed)?,
                None => deed()?,
            }
            let settled = |history: &[Seen]| (step.settled)(history, &left);
            let patience = if self.bug.is_some() { IMPATIENCE } else { PATIENCE };
            if !self.stage.observer.wait_for(&self.namespace, patience, settled) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the operator has seen everything, be it the one that runs now or one that takes its place.
    pub(super) fn until_ready(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            // Let go in between for who wants to kill it.
            if self.operator().until_ready(GLANCE) {
                return true;
            }
        }
        false
    }

    /// Waits until nothing changes any more.
    pub(super) fn until_quiet(&self) {
        self.stage.observer.until_quiet(&self.namespace, QUIET, CONVERGENCE);
    }

    pub(super) fn kill(&self) -> Result<()> {
        let mut operator = self.operator();
        operator.kill()?;
        self.panics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(operator.panics());
        Ok(())
    }

    /// Starts an operator in the place of one that was killed.
    pub(super) fn start_again(&self) -> Result<()> {
        let Stage {
            program, control_plane, ..
        } = self.stage;
        *self.operator() = Operator::start(program, control_plane, &self.proxy, &self.namespace, self.bug)?;
        Ok(())
    }

    fn outcome(&self) -> Outcome {
        Outcome::of(&self.stage.observer.history(&self.namespace), &self.namespace)
    }

    /// Returns what is wrong with the run, whatever it should have come to.
    fn problems(&self) -> Vec<String> {
        let observer = &self.stage.observer;
        let history = observer.history(&self.namespace);
        let mut problems = violations(&history);
        problems.extend(outside(&history, &observer.elsewhere(&self.namespace)));
        problems.append(&mut self.panics.lock().unwrap_or_else(PoisonError::into_inner));
        let mut operator = self.operator();
        problems.extend(operator.panics());
        problems.extend((!operator.is_running()).then(|| "the operator ended by itself".to_owned()));
        problems
    }

    fn log_tail(&self) -> String {
        self.operator().log_tail(15)
    }

    fn end(self) -> Result<()> {
        self.kill()?;
        self.stage.leave(&self.namespace)
    }

    fn operator(&self) -> MutexGuard<'_, Operator> {
        self.operator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
