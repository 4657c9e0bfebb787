//! Workers that share the plans of a scenario.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::oracle::{Expected, Outcome};
use super::plan::Plan;
use super::run::Verdict;

/// Calls `run` for the plans, `workers` at a time, and `each` with the result of each plan.
///
/// # Errors
/// When `each` fails; the other plans are not run.
pub(super) fn run_plans(
    plans: &[Plan],
    workers: usize,
    run: impl Fn(&Plan) -> Result<Verdict> + Sync,
    each: impl FnMut(&Plan, &Verdict, Duration) -> Result<()> + Send,
) -> Result<()> {
    let left = Mutex::new(plans.iter());
    let each = Mutex::new(each);
    let work = || -> Result<()> {
        loop {
            let Some(plan) = left.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                return Ok(());
            };
            let started = Instant::now();
            // If one run fails to start, the others continue.
            let verdict = run(plan).unwrap_or_else(|error| Verdict::Failed(vec![format!("{error:#}")]));
            let mut each = each.lock().unwrap_or_else(PoisonError::into_inner);
            each(plan, &verdict, started.elapsed())?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(work)).collect();
        let mut results = workers.into_iter().map(thread::ScopedJoinHandle::join);
        results.try_for_each(|result| result.map_err(|_| anyhow!("a run panicked"))?)
    })
}

/// Returns the common result of several fault-free runs of a scenario.
///
/// # Errors
/// When they create or delete different objects, with a sentence on the difference.
pub(super) fn common_outcome(scenario: &str, outcomes: &[Outcome]) -> Result<Expected> {
    Expected::of(outcomes).map_err(|differences| {
        let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
        anyhow!("fault-free runs of {scenario} differ: {}", differences.join("; "))
    })
}
