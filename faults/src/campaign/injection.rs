//! Injects the fault of a plan into a run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::call::Call;
use super::execution::Execution;
use super::fault::Fault;
use super::plan::Plan;
use super::replica::Replica;
use super::service::{DEADLINE, LAGGING_READS};
use fault_proxy::{Action, Answer, Listener, Record, Rule, RuleId, Verb};

/// How long the operator may take to restart a watch that was interrupted. Its backoff grows up to half a minute.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How often to check whether the run is over.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The fault of a plan, and the state of its injection.
pub(super) struct Injection<'a> {
    plan: &'a Plan,
    /// The rule about the call, if the fault is about one call.
    rule: Option<RuleId>,
    /// How often a watch was kept from sending events.
    hidden: AtomicUsize,
    /// The rule that stalls the open watch: from the first step on, or that of the standby operator in the last step.
    stalling: OnceLock<RuleId>,
}

impl<'a> Injection<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self {
            plan,
            rule: None,
            hidden: AtomicUsize::new(0),
            stalling: OnceLock::new(),
        }
    }

    /// Adds the rule of the call to the proxy, before the operator starts.
    pub(super) fn begin(&mut self, proxy: &Listener) {
        let Plan { call, fault, .. } = self.plan;
        let count = if *fault == Fault::Lags { LAGGING_READS } else { 1 };
        let rule = |action| Rule::new(call.requests(), action).from_nth(call.nth, count);
        self.rule = fault.action().map(|action| proxy.add(rule(action)));
    }

    /// Kills the operator at the planned point and restarts it; returns whether it did. A late call is released when the
    /// operator has given up.
    pub(super) fn keep(&self, run: &Execution<'_>, over: &AtomicBool) -> Result<bool> {
        let (Some(rule), Fault::Crash(_) | Fault::Late | Fault::ArrivesLate) = (self.rule, self.plan.fault) else {
            return Ok(false);
        };
        let proxy = run.proxy_of(&self.plan.call);
        loop {
            let last = over.load(Ordering::Relaxed);
            if proxy.wait_for_hits(POLL_INTERVAL, rule, 1).is_ok() {
                break;
            }
            if last {
                return Ok(false);
            }
        }
        if self.plan.fault == Fault::ArrivesLate {
            thread::sleep(DEADLINE);
            proxy.remove(rule);
            return Ok(false);
        }
        run.replica.kill()?;
        if self.plan.fault == Fault::Late {
            run.replica.restart()?;
            run.until_ready()?;
            proxy.remove(rule);
        } else {
            // Requests of the killed operator are lost, those of the new one are not.
            proxy.remove(rule);
            run.replica.restart()?;
        }
        Ok(true)
    }

    /// Runs an action while the watch sends no events, if the fault is about a watch.
    pub(super) fn without_events(
        &self,
        run: &Execution<'_>,
        is_last: bool,
        user_action: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let watch = self.plan.call.requests();
        match self.plan.fault {
            Fault::Frozen => {
                let frozen = run.replica.proxy.add(Rule::new(watch, Action::FreezeWatches));
                user_action()?;
                run.until_quiet();
                self.hidden.fetch_add(run.replica.proxy.hits(frozen), Ordering::Relaxed);
                run.replica.proxy.remove(frozen);
            }
            Fault::Interrupted => {
                let cut = run.replica.proxy.cut_watches(&watch);
                self.hidden.fetch_add(cut, Ordering::Relaxed);
                user_action()?;
            }
            Fault::Stalled => {
                let stall = Rule::new(watch, Action::FreezeOpenWatches);
                self.stalling.get_or_init(|| run.replica.proxy.add(stall));
                user_action()?;
            }
            Fault::Gap => {
                let deaf = run.replica.proxy.add(Rule::new(watch.clone(), Action::Disconnect));
                // A watch that is just being opened can't be closed yet.
                let started = Instant::now();
                while run.replica.proxy.hits(deaf) == 0 && started.elapsed() < TIMEOUT {
                    let cut = run.replica.proxy.cut_watches(&watch);
                    self.hidden.fetch_add(cut, Ordering::Relaxed);
                    let _ = run.replica.proxy.wait_for_hits(POLL_INTERVAL, deaf, 1);
                }
                user_action()?;
                run.until_quiet();
                // Every one: the first may still match the other rule.
                let lost = run.replica.proxy.add(Rule::new(watch, Action::Answer(forgotten())));
                run.replica.proxy.remove(deaf);
                run.replica.proxy.wait_for_hits(TIMEOUT, lost, 1)?;
                run.replica.proxy.remove(lost);
            }
            Fault::Stale if is_last && let Some(standby) = run.standby() => {
                let frozen = standby.proxy.add(Rule::new(watch, Action::FreezeOpenWatches));
                self.stalling.get_or_init(|| frozen);
                user_action()?;
            }
            Fault::Stale if is_last => {
                // Its second list is the old state.
                run.replica.kill()?;
                run.replica.restart()?;
                run.until_ready()?;
                run.until_quiet();
                user_action()?;
            }
            _ => user_action()?,
        }
        Ok(())
    }

    /// Runs the part of the fault that follows the last step.
    pub(super) fn end(&self, run: &Execution<'_>) -> Result<()> {
        if self.plan.fault != Fault::Stale {
            return Ok(());
        }
        if let Some(standby) = run.standby() {
            return self.succeed(run, standby);
        }
        run.replica.kill()?;
        let lists = Call {
            verb: Verb::List,
            ..self.plan.call.clone()
        };
        let lists = lists.requests();
        let proxy = &run.replica.proxy;
        let old = proxy.add(Rule::new(lists.clone(), Action::ServeList(2)));
        let frozen = proxy.add(Rule::new(self.plan.call.requests(), Action::FreezeWatches));
        let since = proxy.records().len();
        run.replica.restart()?;
        run.until_ready()?;
        run.until_quiet();
        let is_list = |record: &&Record| lists.contain(&record.request);
        let listed = proxy.records().iter().skip(since).filter(is_list).count();
        self.hidden.fetch_add(listed, Ordering::Relaxed);
        proxy.remove(old);
        proxy.remove(frozen);
        Ok(())
    }

    /// Kills the leader, so that the standby becomes the leader while its watch lags behind.
    fn succeed(&self, run: &Execution<'_>, standby: &Replica<'_>) -> Result<()> {
        run.until_quiet();
        run.replica.kill()?;
        if run.until_succeeded() {
            run.until_quiet();
            let hits = self.stalling.get().map(|frozen| standby.proxy.hits(*frozen));
            self.hidden.fetch_add(hits.unwrap_or_default(), Ordering::Relaxed);
        }
        standby.proxy.clear();
        run.replica.restart()?;
        run.until_ready()?;
        Ok(())
    }

    /// Ends a fault of the queue service, which is still called while the result is checked.
    pub(super) fn lift(&self, run: &Execution<'_>) {
        if let Some(rule) = self.rule.filter(|_| self.plan.call.is_outside()) {
            run.proxy_of(&self.plan.call).remove(rule);
        }
    }

    /// Returns whether the fault was injected.
    pub(super) fn was_met(&self, proxy: &Listener) -> bool {
        // Another rule is one of the standby's proxy.
        let stalling = self.stalling.get().filter(|_| self.plan.fault == Fault::Stalled);
        let is_hit = |rule: &RuleId| proxy.hits(*rule) > 0;
        self.hidden.load(Ordering::Relaxed) > 0 || self.rule.iter().chain(stalling).any(is_hit)
    }
}

/// Returns the answer to a watch whose resource version has expired.
fn forgotten() -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "Expired", "message": "too old resource version", "code": 410,
    });
    Answer::new(200, format!("{}\n", json!({"type": "ERROR", "object": status})))
}
