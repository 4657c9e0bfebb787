//! One run of a scenario, with or without a fault, and its result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow, bail};

use super::call::Call;
use super::cluster::Cluster;
use super::execution::{CONVERGENCE, Execution, TIMEOUT};
use super::history::ObjectVersion;
use super::injection::Injection;
use super::oracle::{Expected, Outcome};
use super::plan::Plan;
use super::scenario::Scenario;

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
pub struct FaultFree {
    /// How a command ended.
    pub outcome: Outcome,
    /// The operator's calls, each with the number of events that it received.
    pub calls: Vec<(Call, usize)>,
}

/// Runs a scenario without a fault.
///
/// # Errors
/// When it does not settle, or violates an invariant.
pub fn fault_free(cluster: &Cluster, scenario: &Scenario) -> Result<FaultFree> {
    let run = Execution::start(cluster, scenario, None, |_, _| {})?;
    let settled = run.play(scenario, |_, _, user_action| user_action())?;
    run.until_quiet();
    // Before the checks at the end, which wait for more calls of the same kind.
    let calls = run.calls();
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
    let found = FaultFree {
        outcome: run.outcome(),
        calls,
    };
    run.end()?;
    Ok(found)
}

/// Runs a scenario with the fault of a plan and an optional seeded bug, and compares the outcome.
///
/// # Errors
/// When the run can't be set up, independently of the operator.
pub fn with_fault(
    cluster: &Cluster,
    scenario: &Scenario,
    plan: &Plan,
    expected: &Expected,
    bug: Option<&str>,
) -> Result<Verdict> {
    let mut injection = Injection::of(plan);
    let run = Execution::start(cluster, scenario, bug, |api, queues| {
        injection.begin(queues.filter(|_| plan.call.is_outside()).unwrap_or(api));
    })?;
    let over = AtomicBool::new(false);
    let as_expected = |history: &[ObjectVersion]| {
        let outcome = Outcome::of(history, &run.namespace);
        expected.differences(&outcome).is_empty()
    };
    // A step may be settled while a request is still waiting for its deadline.
    let timeout = if plan.fault.is_slow() { TIMEOUT } else { CONVERGENCE };
    let converge = |settled: bool| {
        if settled {
            cluster.observer.wait_for(&run.namespace, timeout, as_expected);
        }
        run.until_quiet();
    };
    let (settled, killed) = thread::scope(|scope| {
        let keeper = scope.spawn(|| injection.keep(&run, &over));
        let played = run
            .play(scenario, |run, is_last, user_action| {
                injection.without_events(run, is_last, user_action)
            })
            .and_then(|settled| {
                if settled {
                    injection.end(&run)?;
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
    injection.lift(&run);
    // It may have been killed just now.
    if killed && run.until_ready()? {
        converge(settled);
    }
    let mut problems = run.problems();
    problems.extend((!settled).then(|| UNSETTLED.to_owned()));
    if settled && scenario.queues.is_some() {
        // The call may be one of the reads since then.
        cluster.observer.wait_for(&run.namespace, timeout, as_expected);
    }
    problems.extend(expected.differences(&run.outcome()).iter().map(ToString::to_string));
    let reached = injection.was_met(run.proxy_of(&plan.call));
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
