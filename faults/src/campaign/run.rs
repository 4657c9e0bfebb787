//! One run of a scenario, with or without a fault, and its result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow, bail};

use super::call::{Call, calls};
use super::disturbance::Disturbance;
use super::execution::{CONVERGENCE, Execution, PATIENCE};
use super::history::Seen;
use super::oracle::{Expected, Outcome};
use super::plan::Plan;
use super::scenario::Scenario;
use super::stage::Stage;

/// The result of a run with a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The outcome is that of the fault-free runs.
    Survived,
    /// It is not, or an invariant was violated: one sentence each.
    Failed(Vec<String>),
    /// The call did not occur, so the run shows nothing.
    Unreached,
}

/// The result of a fault-free run.
#[derive(Debug, Clone)]
pub struct Undisturbed {
    /// How a command ended.
    pub outcome: Outcome,
    /// The operator's calls, each with the number of events that it received.
    pub calls: Vec<(Call, usize)>,
}

/// Runs a scenario without a fault.
///
/// # Errors
/// When it does not settle, or violates an invariant.
pub fn undisturbed(stage: &Stage, scenario: &Scenario) -> Result<Undisturbed> {
    let run = Execution::start(stage, scenario, None, |_| {})?;
    let settled = run.play(scenario, |_, _, deed| deed())?;
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
        calls: calls(&run.post.proxy.records()),
    };
    run.end()?;
    Ok(found)
}

/// Runs a scenario with the fault of a plan and an optional seeded bug, and compares the outcome.
///
/// # Errors
/// When the run can't be set up, independently of the operator.
pub fn disturbed(
    stage: &Stage,
    scenario: &Scenario,
    plan: &Plan,
    expected: &Expected,
    bug: Option<&str>,
) -> Result<Verdict> {
    let mut disturbance = Disturbance::of(plan);
    let run = Execution::start(stage, scenario, bug, |proxy| disturbance.begin(proxy))?;
    let over = AtomicBool::new(false);
    let as_expected = |history: &[Seen]| {
        let outcome = Outcome::of(history, &run.namespace);
        expected.differences(&outcome).is_empty()
    };
    // A step may be settled while a request is still waiting for its deadline.
    let patience = if plan.fault.is_slow() { PATIENCE } else { CONVERGENCE };
    let converge = |settled: bool| {
        if settled {
            stage.observer.wait_for(&run.namespace, patience, as_expected);
        }
        run.until_quiet();
    };
    let (settled, killed) = thread::scope(|scope| {
        let keeper = scope.spawn(|| disturbance.keep(&run, &over));
        let played = run
            .play(scenario, |run, is_last, deed| disturbance.veil(run, is_last, deed))
            .and_then(|settled| {
                if settled {
                    disturbance.end(&run)?;
                }
                // The call may occur after the last step.
                converge(settled);
                Ok(settled)
            });
        over.store(true, Ordering::Relaxed);
        let killed = keeper
            .join()
            .map_err(|_| anyhow!("the thread that kills the operator panicked"))??;
        Ok::<_, anyhow::Error>((played?, killed))
    })?;
    // It may have been killed just now.
    if killed && run.until_ready()? {
        converge(settled);
    }
    let mut problems = run.problems();
    problems.extend((!settled).then(|| UNSETTLED.to_owned()));
    problems.extend(expected.differences(&run.outcome()).iter().map(ToString::to_string));
    let reached = disturbance.was_met(&run.post.proxy);
    if !problems.is_empty() {
        problems.push(format!("the end of the operator's log:\n{}", run.log_tail()));
    }
    run.end()?;
    Ok(match (problems.is_empty(), reached) {
        (false, _) => Verdict::Failed(problems),
        (true, true) => Verdict::Survived,
        (true, false) => Verdict::Unreached,
    })
}

const UNSETTLED: &str = "it did not settle";
