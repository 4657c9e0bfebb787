//! The operators and the namespace of a run, and the steps that it goes through.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use fault_proxy::Proxy;
use serde_json::Value;

use super::cluster::Cluster;
use super::history::Seen;
use super::invariant::{outside, violations};
use super::leadership::{Leadership, is_of};
use super::operator::Place;
use super::oracle::Outcome;
use super::replica::Replica;
use super::scenario::Scenario;

/// How long a step may take. Longer than the operator's longest deadline, which is that of a watch.
pub(super) const TIMEOUT: Duration = Duration::from_secs(180);
/// How long a step may take with a seeded bug: none of these plans waits for the deadline of a watch.
const SEEDED_TIMEOUT: Duration = Duration::from_secs(30);
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
    cluster: &'a Cluster,
    bug: Option<&'a str>,
    pub(super) namespace: String,
    /// The operator into whose calls the fault is injected.
    pub(super) replica: Replica<'a>,
    /// The standby operator, after the first one has become the leader.
    standby: OnceLock<Replica<'a>>,
    is_led: bool,
    place: Place,
}

impl<'a> Execution<'a> {
    pub(super) fn start(
        cluster: &'a Cluster,
        scenario: &Scenario,
        bug: Option<&'a str>,
        script: impl FnOnce(&Proxy),
    ) -> Result<Self> {
        let namespace = cluster.namespace()?;
        if scenario.is_led {
            cluster.hold_elections(&namespace)?;
        }
        let candidate = scenario.is_led.then_some(FIRST);
        let place = cluster.place(&namespace, scenario)?;
        Ok(Self {
            cluster,
            bug,
            replica: Replica::start(cluster, &place, bug, candidate, script)?,
            place,
            standby: OnceLock::new(),
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
            let is_creation = step.user_action.is_creation();
            let is_last = place + 1 == scenario.steps.len();
            let mut left = Value::Null;
            let mut user_action = || {
                if let Some(created) = created.filter(|_| is_creation) {
                    thread::sleep(ONE_SECOND.saturating_sub(created.elapsed()));
                }
                left = self.cluster.perform(&self.namespace, &step.user_action)?;
                created = Some(Instant::now()).filter(|_| is_creation).or(created);
                Ok(())
            };
            around(self, is_last, &mut user_action)?;
            let settled = |history: &[Seen]| (step.settled)(history, &left);
            if !self.wait_for(settled)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn wait_for(&self, wanted: impl Fn(&[Seen]) -> bool) -> Result<bool> {
        let patience = if self.bug.is_some() { SEEDED_TIMEOUT } else { TIMEOUT };
        let observer = &self.cluster.observer;
        if !self.is_led {
            return Ok(observer.wait_for(&self.namespace, patience, wanted));
        }
        let started = Instant::now();
        while !observer.wait_for(&self.namespace, ONE_SECOND, &wanted) {
            if started.elapsed() > patience {
                return Ok(false);
            }
            self.posts().try_for_each(Replica::restart_if_deposed)?;
        }
        Ok(true)
    }

    /// Waits until the first operator is the leader, and starts a standby; returns whether both succeeded.
    fn call_up(&self) -> Result<bool> {
        let started = Instant::now();
        while !self.leads_within(FIRST, ONE_SECOND) {
            if started.elapsed() > TIMEOUT {
                return Ok(false);
            }
            self.replica.restart_if_deposed()?;
        }
        let replica = Replica::start(self.cluster, &self.place, self.bug, Some(SECOND), |_| {})?;
        let is_ready = replica.until_ready(TIMEOUT)?;
        // Only this call sets it.
        let _ = self.standby.set(replica);
        Ok(is_ready)
    }

    fn leads_within(&self, name: &str, patience: Duration) -> bool {
        let leads = |leaderships: &[Leadership]| leaderships.last().is_some_and(|last| is_of(last, name));
        self.cluster
            .observer
            .wait_for_leaderships(&self.namespace, patience, leads)
    }

    /// Returns the standby operator, if there is one.
    pub(super) fn standby(&self) -> Option<&Replica<'a>> {
        self.standby.get()
    }

    /// Waits until the standby is the leader; returns whether it is.
    pub(super) fn until_succeeded(&self) -> bool {
        self.leads_within(SECOND, CONVERGENCE)
    }

    fn posts(&self) -> impl Iterator<Item = &Replica<'a>> {
        [&self.replica].into_iter().chain(self.standby())
    }

    /// Waits until the caches of the operator are synced, of the current process or of its restart.
    pub(super) fn until_ready(&self) -> Result<bool> {
        self.replica.until_ready(TIMEOUT)
    }

    /// Waits until nothing changes any more.
    pub(super) fn until_quiet(&self) {
        self.cluster.observer.until_quiet(&self.namespace, QUIET, CONVERGENCE);
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome::of(&self.cluster.observer.history(&self.namespace), &self.namespace)
    }

    /// Returns the problems of the run that do not depend on the expected outcome.
    pub(super) fn problems(&self) -> Vec<String> {
        let observer = &self.cluster.observer;
        let history = observer.history(&self.namespace);
        let mut problems = violations(&history);
        problems.extend(outside(&history, &observer.elsewhere(&self.namespace)));
        let leaderships = observer.leaderships(&self.namespace);
        problems.extend(self.posts().flat_map(|replica| replica.problems(&leaderships)));
        problems
    }

    pub(super) fn log_tail(&self) -> String {
        let logs: Vec<String> = self.posts().map(Replica::log_tail).collect();
        logs.join("\nand the other one:\n")
    }

    pub(super) fn end(self) -> Result<()> {
        self.posts().try_for_each(Replica::kill)?;
        self.cluster.leave(&self.place)
    }
}
