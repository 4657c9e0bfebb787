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
    let run = Execution::start(stage, scenario, bug, |proxy| disturbance.begin(proxy))?;
    let over = AtomicBool::new(false);
    let as_expected = |history: &[Seen]| {
        let outcome = Outcome::of(history, &run.namespace);
        expected.differences(&outcome).is_empty()
    };
    // A step may be settled while something is still waited for that the operator has not missed yet.
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
    if killed && run.until_ready()? {
        converge(settled);
    }
    let mut problems = run.problems();
    problems.extend((!settled).then(|| UNSETTLED.to_owned()));
    problems.extend(expected.differences(&run.outcome()).iter().map(ToString::to_string));
    let reached = disturbance.was_met(&run.post.proxy);
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
