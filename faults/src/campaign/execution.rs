//! The operators and the namespace of a run, and the steps that it goes through.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use fault_proxy::Listener;
use serde_json::Value;

use super::call::{Call, calls};
use super::cluster::Cluster;
use super::history::ObjectVersion;
use super::invariant::{children_elsewhere, violations};
use super::kind::QUEUE;
use super::leadership::{Leadership, is_of};
use super::operator::Place;
use super::oracle::Outcome;
use super::queues::Queues;
use super::replica::Replica;
use super::scenario::{Scenario, UserAction};

/// How long a step may take. Longer than the operator's longest deadline: after 180 s without data it gives up a watch.
pub(super) const TIMEOUT: Duration = Duration::from_secs(210);
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
    /// The queue service, if the scenario has one.
    queues: Option<Queues<'a>>,
    place: Place,
}

impl<'a> Execution<'a> {
    pub(super) fn start(
        cluster: &'a Cluster,
        scenario: &Scenario,
        bug: Option<&'a str>,
        script: impl FnOnce(&Listener, Option<&Listener>),
    ) -> Result<Self> {
        let namespace = cluster.namespace()?;
        let start = |server| Queues::start(cluster, &namespace, server);
        let queues = scenario.queues.map(start).transpose()?;
        if scenario.is_led {
            cluster.hold_elections(&namespace)?;
        }
        let candidate = scenario.is_led.then_some(FIRST);
        let place = cluster.place(&namespace, scenario)?;
        Ok(Self {
            cluster,
            bug,
            replica: Replica::start(cluster, &place, bug, candidate, |api| {
                script(api, queues.as_ref().map(|queues| &*queues.proxy));
            })?,
            queues,
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
                left = self.perform(&step.user_action)?;
                created = Some(Instant::now()).filter(|_| is_creation).or(created);
                Ok(())
            };
            around(self, is_last, &mut user_action)?;
            let settled = |history: &[ObjectVersion]| (step.settled)(history, &left);
            if !self.wait_for(settled)? || !self.until_queues_agree(self.timeout()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Performs an action, and returns the object after it.
    fn perform(&self, user_action: &UserAction) -> Result<Value> {
        let created;
        let user_action = match (&self.queues, user_action) {
            (Some(queues), UserAction::Outside(action)) => return queues.perform(*action).map(|()| Value::Null),
            (Some(queues), UserAction::Create(kind, object)) if *kind == QUEUE => {
                created = UserAction::Create(QUEUE, queues.with_service(object));
                &created
            }
            (_, user_action) => user_action,
        };
        self.cluster.perform(&self.namespace, user_action)
    }

    /// Waits until there are the queues outside that the AppQueues ask for; returns whether there are.
    fn until_queues_agree(&self, timeout: Duration) -> bool {
        let history = || self.cluster.observer.history(&self.namespace);
        self.queues
            .as_ref()
            .is_none_or(|queues| queues.until_agreed(timeout, history))
    }

    fn timeout(&self) -> Duration {
        if self.bug.is_some() { SEEDED_TIMEOUT } else { TIMEOUT }
    }

    fn wait_for(&self, wanted: impl Fn(&[ObjectVersion]) -> bool) -> Result<bool> {
        let timeout = self.timeout();
        let observer = &self.cluster.observer;
        if !self.is_led {
            return Ok(observer.wait_for(&self.namespace, timeout, wanted));
        }
        let started = Instant::now();
        while !observer.wait_for(&self.namespace, ONE_SECOND, &wanted) {
            if started.elapsed() > timeout {
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

    fn leads_within(&self, name: &str, timeout: Duration) -> bool {
        let leads = |leaderships: &[Leadership]| leaderships.last().is_some_and(|last| is_of(last, name));
        self.cluster
            .observer
            .wait_for_leaderships(&self.namespace, timeout, leads)
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
        problems.extend(children_elsewhere(&history, &observer.elsewhere(&self.namespace)));
        let leaderships = observer.leaderships(&self.namespace);
        problems.extend(self.posts().flat_map(|replica| replica.problems(&leaderships)));
        if let Some(queues) = &self.queues {
            problems.extend(queues.calls_while_steady(&history));
            self.until_queues_agree(CONVERGENCE);
            problems.extend(queues.problems(&observer.history(&self.namespace)));
        }
        problems
    }

    /// Returns the calls of the operator, those to the queue service first.
    pub(super) fn calls(&self) -> Vec<(Call, usize)> {
        let outside = self.queues.as_ref().map(|queues| calls(&queues.proxy.records()));
        let mut all = outside.unwrap_or_default();
        all.extend(calls(&self.replica.proxy.records()));
        all
    }

    /// Returns the proxy that receives a call.
    pub(super) fn proxy_of(&self, call: &Call) -> &Listener {
        match &self.queues {
            Some(queues) if call.is_outside() => &queues.proxy,
            _ => &self.replica.proxy,
        }
    }

    pub(super) fn log_tail(&self) -> String {
        let logs: Vec<String> = self.posts().map(Replica::log_tail).collect();
        logs.join("\nand the other one:\n")
    }

    pub(super) fn end(self) -> Result<()> {
        self.posts().try_for_each(Replica::kill)?;
        if let Some(queues) = self.queues {
            queues.end(&self.cluster.observer.history(&self.namespace))?;
        }
        self.cluster.leave(&self.place)
    }
}
