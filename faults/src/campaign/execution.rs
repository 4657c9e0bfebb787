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

/// How long a step may take. Longer than the operator's longest wait for an answer that does not come, which is that
/// of a watch.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// How long a step may take an operator that has a bug on purpose: no plan for one has to wait for a watch to be given up.
const IMPATIENCE: Duration = Duration::from_secs(30);
/// How long it may take from there to where the undisturbed run has come to.
pub(super) const CONVERGENCE: Duration = Duration::from_secs(30);
/// How long nothing has to happen until nothing does: longer than the second for which a status may be held back.
const QUIET: Duration = Duration::from_millis(1200);
/// What the two operators of an election are called.
const FIRST: &str = "first";
const SECOND: &str = "second";
/// What tells which of two objects is older: the API server says to the second when it made them.
const ONE_SECOND: Duration = Duration::from_secs(1);

/// A run that is in progress.
pub(super) struct Execution<'a> {
    stage: &'a Stage,
    bug: Option<&'a str>,
    pub(super) namespace: String,
    /// Where the operator is that is disturbed.
    pub(super) post: Post<'a>,
    /// Where another one stands by, from when the first one leads.
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

    /// Goes through the steps, and returns whether all settled.
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

    /// Waits until the first operator leads, and starts another one that stands by; says whether it came to that.
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
        // There is no other one who could have set it.
        let _ = self.reserve.set(post);
        Ok(is_ready)
    }

    fn leads_within(&self, name: &str, patience: Duration) -> bool {
        let leads = |reigns: &[Reign]| reigns.last().is_some_and(|last| is_of(last, name));
        self.stage.observer.wait_for_reigns(&self.namespace, patience, leads)
    }

    /// Returns where the one is that stands by, once there is one.
    pub(super) fn reserve(&self) -> Option<&Post<'a>> {
        self.reserve.get()
    }

    /// Waits until the one that stood by leads; returns whether it came to that.
    pub(super) fn until_succeeded(&self) -> bool {
        self.leads_within(SECOND, CONVERGENCE)
    }

    fn posts(&self) -> impl Iterator<Item = &Post<'a>> {
        [&self.post].into_iter().chain(self.reserve())
    }

    /// Waits until the operator has seen everything, be it the one that runs now or one that takes its place.
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

    /// Returns what is wrong with the run, whatever it should have come to.
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
