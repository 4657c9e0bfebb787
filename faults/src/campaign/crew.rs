//! Several workers who share the plans of a scenario.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::oracle::{Expected, Outcome};
use super::plan::Plan;
use super::run::Verdict;

/// Has `run` carry out plans, `workers` at a time, and tells `each` what became of one.
///
/// # Errors
/// When `each` fails; the others are given up.
pub(super) fn carry_out(
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
            // One run that can't be made is no reason to give up the others.
            let verdict = run(plan).unwrap_or_else(|error| Verdict::Failed(vec![format!("{error:#}")]));
            let mut each = each.lock().unwrap_or_else(PoisonError::into_inner);
            each(plan, &verdict, started.elapsed())?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(work)).collect();
        let mut results = workers.into_iter().map(thread::ScopedJoinHandle::join);
        results.try_for_each(|result| result.map_err(|_| anyhow!("a run has panicked"))?)
    })
}

/// Returns how a scenario ends, by several undisturbed runs of it.
///
/// # Errors
/// When they do not create and delete the same, with a sentence on what differs.
pub(super) fn agree(scenario: &str, outcomes: &[Outcome]) -> Result<Expected> {
    Expected::of(outcomes).map_err(|differences| {
        let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
        anyhow!("{scenario} differs by itself: {}", differences.join("; "))
    })
}
