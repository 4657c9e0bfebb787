//! The state that the threads of the test and the proxy share: rules, watches and records.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use tokio::sync::{Notify, watch};

use crate::action::{Action, Answer};
use crate::encoding::Head;
use crate::request::Request;
use crate::rule::Rule;
use crate::selection::Requests;
use crate::{Record, RuleId};

/// The state of one proxy.
#[derive(Debug)]
pub(crate) struct Script {
    state: Mutex<State>,
    written: Condvar,
    rules_changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    rules: BTreeMap<RuleId, Counted>,
    records: Vec<Record>,
    watches: BTreeMap<usize, OpenWatch>,
    /// The answers to lists, by path and query.
    lists: BTreeMap<(String, String), Vec<Bytes>>,
    /// The different answers to reads of a queue service, by path, in their order.
    answers: BTreeMap<String, Vec<Answer>>,
    /// The rule at which the client stopped.
    stopped: Option<RuleId>,
    next: usize,
}

impl State {
    /// Returns the existing rules that match `request`, the oldest first.
    fn standing<'a>(&'a mut self, request: &'a Request) -> impl Iterator<Item = (&'a RuleId, &'a mut Counted)> {
        let rules = self.rules.iter_mut();
        rules.filter(|(_, counted)| counted.stands && counted.rule.requests.contain(request))
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns how often a rule was applied.
    pub(crate) fn hits(&self, id: RuleId) -> usize {
        self.rules.get(&id).map_or(0, |counted| counted.hits)
    }
}

/// The decision about a request.
#[derive(Debug)]
pub(crate) enum Decided {
    Pass,
    Act(RuleId, Action),
    /// The client is stopped: none of its requests is forwarded.
    Stopped,
}

#[derive(Debug)]
struct Counted {
    rule: Rule,
    /// Whether the rule exists. A removed rule is kept for its counts.
    stands: bool,
    matched: usize,
    hits: usize,
}

impl Counted {
    /// Counts a match, and returns whether the rule applies to it.
    fn count(&mut self) -> bool {
        self.matched += 1;
        self.rule.turn.is(self.matched)
    }
}

#[derive(Debug)]
struct OpenWatch {
    request: Request,
    cut: Arc<Notify>,
}

/// The decision about an event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Hide,
    Freeze,
    /// Pass it, and then send all earlier events of the watch again.
    Replay,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            written: Condvar::new(),
            rules_changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn add(&self, rule: Rule) -> RuleId {
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = RuleId(state.next);
            state.rules.insert(
                id,
                Counted {
                    rule,
                    stands: true,
                    matched: 0,
                    hits: 0,
                },
            );
            id
        };
        self.rules_changed.send_replace(());
        id
    }

    /// Removes one rule, or all.
    pub(crate) fn remove(&self, id: Option<RuleId>) {
        {
            let mut state = self.state();
            let rules = state.rules.iter_mut();
            for (_, counted) in rules.filter(|(is, _)| id.is_none_or(|id| **is == id)) {
                counted.stands = false;
            }
            state.stopped = state.stopped.filter(|stopped| id.is_some_and(|id| id != *stopped));
        }
        self.rules_changed.send_replace(());
    }

    /// Returns a receiver that is notified of every change of the rules.
    pub(crate) fn rules(&self) -> watch::Receiver<()> {
        self.rules_changed.subscribe()
    }

    fn stands(&self, id: RuleId) -> bool {
        self.state().rules.get(&id).is_some_and(|counted| counted.stands)
    }

    /// Returns whether a rule may keep a request from being complete.
    pub(crate) fn may_stall_requests(&self) -> bool {
        let state = self.state();
        let mut rules = state.rules.values().filter(|counted| counted.stands);
        rules.any(|counted| counted.rule.action == Action::StallRequest)
    }

    /// Waits until a rule is removed.
    pub(crate) async fn until_removed(&self, id: RuleId) {
        let mut rules = self.rules();
        while self.stands(id) && rules.changed().await.is_ok() {}
    }

    /// Stops the client until the rule is removed, and counts a hit.
    pub(crate) fn stop(&self, id: RuleId) {
        {
            let mut state = self.state();
            if let Some(counted) = state.rules.get_mut(&id) {
                counted.hits += 1;
                state.stopped = Some(id).filter(|_| counted.stands);
            }
        }
        self.written.notify_all();
    }

    /// Waits until the client is no longer stopped.
    pub(crate) async fn until_going(&self) {
        let mut rules = self.rules();
        while self.state().stopped.is_some() && rules.changed().await.is_ok() {}
    }

    /// Stores the answer to a list.
    pub(crate) fn remember(&self, request: &Request, body: Bytes) {
        let of = (request.path.clone(), request.query.clone());
        self.state().lists.entry(of).or_default().push(body);
    }

    /// Returns the answer to the `nth` of the same lists, counted from 1.
    pub(crate) fn list(&self, request: &Request, nth: usize) -> Option<Bytes> {
        let of = (request.path.clone(), request.query.clone());
        self.state().lists.get(&of)?.get(nth.checked_sub(1)?).cloned()
    }

    /// Stores the answer to a read of a queue service.
    pub(crate) fn remember_answer(&self, request: &Request, answer: Answer) {
        let mut state = self.state();
        let answers = state.answers.entry(request.path.clone()).or_default();
        if !answers.last().is_some_and(|last| last.is_as(&answer)) {
            answers.push(answer);
        }
    }

    /// Returns the last answer to the same read that is not the current one.
    pub(crate) fn answer_before(&self, request: &Request, current: &Answer) -> Option<Answer> {
        let state = self.state();
        let mut answers = state.answers.get(&request.path)?.iter().rev();
        answers.find(|answer| !answer.is_as(current)).cloned()
    }

    /// Records a request, and returns its index in the record and what to do with it: the oldest rule that applies
    /// decides, unless the client is stopped.
    pub(crate) fn decide(&self, request: &Request) -> (usize, Decided) {
        let mut state = self.state();
        let mut decided = None;
        for (id, counted) in state.standing(request) {
            // Other rules count the match, too: "the second create" does not depend on the action for the first.
            if counted.rule.action.may_concern(request)
                && !counted.rule.action.is_of_events()
                && counted.count()
                && decided.is_none()
            {
                // A stop is counted when it happens.
                counted.hits += usize::from(!matches!(counted.rule.action, Action::Stop(_)));
                decided = Some((*id, counted.rule.action.clone()));
            }
        }
        state.records.push(Record {
            request: request.clone(),
            at: Instant::now(),
            done: decided.clone(),
            status: None,
            told: None,
            events: 0,
        });
        self.written.notify_all();
        // Under the same lock as the record: a recorded request always has its decision.
        let decided = match (state.stopped, decided) {
            (Some(_), _) => Decided::Stopped,
            (None, Some((id, action))) => Decided::Act(id, action),
            (None, None) => Decided::Pass,
        };
        (state.records.len() - 1, decided)
    }

    /// Decides about an event of the watch with this number. Called again for the same event only after `Freeze`.
    pub(crate) fn decide_event(&self, request: &Request, watch: usize, event: &Head) -> Verdict {
        let mut state = self.state();
        self.written.notify_all();
        let mut rules = state.standing(request);
        // Rules and watches are numbered together.
        let freezes =
            |id: &RuleId, action: &Action| action.freezes() && (*action != Action::FreezeOpenWatches || watch < id.0);
        if let Some((_, frozen)) = rules.find(|(id, counted)| freezes(id, &counted.rule.action)) {
            frozen.hits += 1;
            return Verdict::Freeze;
        }
        drop(rules);
        let mut verdict = Verdict::Pass;
        for (_, counted) in state.standing(request) {
            let matches = counted.rule.action.events().is_some_and(|events| events.contain(event));
            if matches && counted.count() && verdict == Verdict::Pass {
                counted.hits += 1;
                verdict = match counted.rule.action {
                    Action::Replay(_) => Verdict::Replay,
                    _ => Verdict::Hide,
                };
            }
        }
        verdict
    }

    /// Records the API server's answer to a request, and the answer that the client received.
    pub(crate) fn answered(&self, place: usize, status: Option<u16>, told: Option<u16>) {
        if let Some(record) = self.state().records.get_mut(place) {
            record.status = status.or(record.status);
            record.told = told.or(record.told);
        }
        self.written.notify_all();
    }

    /// Records that a watch has sent an event.
    pub(crate) fn tells(&self, place: usize) {
        if let Some(record) = self.state().records.get_mut(place) {
            record.events += 1;
        }
        self.written.notify_all();
    }

    /// Waits until `wanted` is true, which is checked after each new record; returns whether it became true.
    pub(crate) fn wait_for(&self, timeout: Duration, wanted: impl Fn(&State) -> bool) -> bool {
        let outcome = self
            .written
            .wait_timeout_while(self.state(), timeout, |state| !wanted(state));
        let (_state, timeout) = outcome.unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out()
    }

    /// Registers an open watch, and returns a handle that is notified when it must be closed.
    pub(crate) fn open(self: &Arc<Self>, request: Request) -> Watch {
        let cut = Arc::new(Notify::new());
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        state.watches.insert(
            number,
            OpenWatch {
                request,
                cut: Arc::clone(&cut),
            },
        );
        Watch {
            number,
            cut,
            script: Arc::clone(self),
        }
    }

    /// Calls `each` for each open watch among `requests`, and returns their number.
    pub(crate) fn watches(&self, requests: &Requests, mut each: impl FnMut(&Notify)) -> usize {
        let state = self.state();
        let open = state.watches.values().filter(|watch| requests.contain(&watch.request));
        open.inspect(|watch| each(&watch.cut)).count()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open watch, which is unregistered when it is dropped.
pub(crate) struct Watch {
    /// Its number, among those of rules and watches.
    pub(crate) number: usize,
    /// Notified when the watch must be closed.
    pub(crate) cut: Arc<Notify>,
    script: Arc<Script>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.script.state().watches.remove(&self.number);
    }
}
