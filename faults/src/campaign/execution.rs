//! The operators and the namespace of a run, and the steps that it goes through.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use fault_proxy::Proxy;
use serde_json::Value;

use super::history::Seen;
use super::invariant::{outside, violations};
use super::operator::Place;
use super::oracle::Outcome;
use super::post::Post;
use super::reign::{Reign, is_of};
use super::scenario::Scenario;
use super::stage::Stage;

/// How long a step may take. Longer than the operator's longest deadline, which is that of a watch.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// How long a step may take with a seeded bug: none of these plans waits for the deadline of a watch.
const IMPATIENCE: Duration = Duration::from_secs(30);
/// How long the run may take after that to reach the state of the fault-free runs.
pub(super) const CONVERGENCE: Duration = Duration::from_secs(30);
/// How long there must be no event until a run counts as settled: longer than the second for which a status write may be
/// delayed.
const QUIET: Duration = Duration::from_millis(1200);
/// The names of the two operators in a leader election.
const FIRST: &str = "first";
const SECOND: &str = "second";
/// The resolution of creation timestamps, which decide which of two objects is older.
const ONE_SECOND: Duration = Duration::from_secs(1);

/// A run that is in progress.
pub(super) struct Execution<'a> {
    stage: &'a Stage,
    bug: Option<&'a str>,
    pub(super) namespace: String,
    /// The operator into whose calls the fault is injected.
    pub(super) post: Post<'a>,
    /// The standby operator, after the first one has become the leader.
    reserve: OnceLock<Post<'a>>,
    is_led: bool,
    place: Place,
}

impl<'a> Execution<'a> {
    pub(super) fn start(
        stage: &'a Stage,
        scenario: &Scenario,
        bug: Option<&'a str>,
        script: impl FnOnce(&Proxy),
    ) -> Result<Self> {
        let namespace = stage.namespace()?;
        if scenario.is_led {
            stage.hold_elections(&namespace)?;
        }
        let candidate = scenario.is_led.then_some(FIRST);
        let place = stage.place(&namespace, scenario)?;
        Ok(Self {
            stage,
            bug,
            post: Post::take_up(stage, &place, bug, candidate, script)?,
            place,
            reserve: OnceLock::new(),
            is_led: scenario.is_led,
            namespace,
        })
    }

    /// Runs the steps, and returns whether all settled.
    ///
    /// `around` performs each step, and injects its fault before or after; it gets whether the step is the last one.
    pub(super) fn play(
        &self,
        scenario: &Scenario,
        around: impl Fn(&Self, bool, &mut dyn FnMut() -> Result<()>) -> Result<()>,
    ) -> Result<bool> {
        if !self.until_ready()? || self.is_led && !self.call_up()? {
            return Ok(false);
        }
        let mut created: Option<Instant> = None;
        for (place, step) in scenario.steps.iter().enumerate() {
            let is_creation = step.deed.is_creation();
            let is_last = place + 1 == scenario.steps.len();
            let mut left = Value::Null;
            let mut deed = || {
                if let Some(created) = created.filter(|_| is_creation) {
                    thread::sleep(ONE_SECOND.saturating_sub(created.elapsed()));
                }
                left = self.stage.perform(&self.namespace, &step.deed)?;
                created = Some(Instant::now()).filter(|_| is_creation).or(created);
                Ok(())
            };
            around(self, is_last, &mut deed)?;
            let settled = |history: &[Seen]| (step.settled)(history, &left);
            if !self.wait_for(settled)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn wait_for(&self, wanted: impl Fn(&[Seen]) -> bool) -> Result<bool> {
        let patience = if self.bug.is_some() { IMPATIENCE } else { PATIENCE };
        let observer = &self.stage.observer;
        if !self.is_led {
            return Ok(observer.wait_for(&self.namespace, patience, wanted));
        }
        let started = Instant::now();
        while !observer.wait_for(&self.namespace, ONE_SECOND, &wanted) {
            if started.elapsed() > patience {
                return Ok(false);
            }
            self.posts().try_for_each(Post::keep_up)?;
        }
        Ok(true)
    }

    /// Waits until the first operator is the leader, and starts a standby; returns whether both succeeded.
    fn call_up(&self) -> Result<bool> {
        let started = Instant::now();
        while !self.leads_within(FIRST, ONE_SECOND) {
            if started.elapsed() > PATIENCE {
                return Ok(false);
            }
            self.post.keep_up()?;
        }
        let post = Post::take_up(self.stage, &self.place, self.bug, Some(SECOND), |_| {})?;
        let is_ready = post.until_ready(PATIENCE)?;
        // Only this call sets it.
        let _ = self.reserve.set(post);
        Ok(is_ready)
    }

    fn leads_within(&self, name: &str, patience: Duration) -> bool {
        let leads = |reigns: &[Reign]| reigns.last().is_some_and(|last| is_of(last, name));
        self.stage.observer.wait_for_reigns(&self.namespace, patience, leads)
    }

    /// Returns the standby operator, if there is one.
    pub(super) fn reserve(&self) -> Option<&Post<'a>> {
        self.reserve.get()
    }

    /// Waits until the standby is the leader; returns whether it is.
    pub(super) fn until_succeeded(&self) -> bool {
        self.leads_within(SECOND, CONVERGENCE)
    }

    fn posts(&self) -> impl Iterator<Item = &Post<'a>> {
        [&self.post].into_iter().chain(self.reserve())
    }

    /// Waits until the caches of the operator are synced, of the current process or of its restart.
    pub(super) fn until_ready(&self) -> Result<bool> {
        self.post.until_ready(PATIENCE)
    }

    /// Waits until nothing changes any more.
    pub(super) fn until_quiet(&self) {
        self.stage.observer.until_quiet(&self.namespace, QUIET, CONVERGENCE);
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome::of(&self.stage.observer.history(&self.namespace), &self.namespace)
    }

    /// Returns the problems of the run that do not depend on the expected outcome.
    pub(super) fn problems(&self) -> Vec<String> {
        let observer = &self.stage.observer;
        let history = observer.history(&self.namespace);
        let mut problems = violations(&history);
        problems.extend(outside(&history, &observer.elsewhere(&self.namespace)));
        let reigns = observer.reigns(&self.namespace);
        problems.extend(self.posts().flat_map(|post| post.problems(&reigns)));
        problems
    }

    pub(super) fn log_tail(&self) -> String {
        let logs: Vec<String> = self.posts().map(Post::log_tail).collect();
        logs.join("\nand the other one:\n")
    }

    pub(super) fn end(self) -> Result<()> {
        self.posts().try_for_each(Post::kill)?;
        self.stage.leave(&self.place)
    }
}
