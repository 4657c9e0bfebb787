//! What the test's threads and the proxy's share: the rules, the watches and the record.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::request::Request;
use super::rule::{Action, Requests, Rule};
use super::{Record, RuleId};

/// The state of one proxy.
#[derive(Debug)]
pub(super) struct Script {
    state: Mutex<State>,
    recorded: Condvar,
    rules_changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    rules: BTreeMap<RuleId, Counted>,
    records: Vec<Record>,
    watches: BTreeMap<usize, OpenWatch>,
    next: usize,
}

#[derive(Debug)]
struct Counted {
    rule: Rule,
    matched: usize,
}

#[derive(Debug)]
struct OpenWatch {
    request: Request,
    cut: Arc<Notify>,
}

/// What is to be done with an event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Hide,
    Freeze,
}

impl Script {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            recorded: Condvar::new(),
            rules_changed: watch::Sender::new(()),
        }
    }

    pub(super) fn add(&self, rule: Rule) -> RuleId {
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = RuleId(state.next);
            state.rules.insert(id, Counted { rule, matched: 0 });
            id
        };
        self.rules_changed.send_replace(());
        id
    }

    pub(super) fn remove(&self, id: Option<RuleId>) {
        match id {
            Some(id) => drop(self.state().rules.remove(&id)),
            None => self.state().rules.clear(),
        }
        self.rules_changed.send_replace(());
    }

    /// Returns what hears of every change of the rules from now on.
    pub(super) fn rules(&self) -> watch::Receiver<()> {
        self.rules_changed.subscribe()
    }

    pub(super) fn stands(&self, id: RuleId) -> bool {
        self.state().rules.contains_key(&id)
    }

    /// Writes a request down, and returns its place in the record with what is to be done with it:
    /// the oldest rule whose turn it is decides.
    pub(super) fn decide(&self, request: &Request) -> (usize, Option<(RuleId, Action)>) {
        let mut state = self.state();
        state.records.push(Record {
            request: request.clone(),
            at: Instant::now(),
            status: None,
            told: None,
        });
        let place = state.records.len() - 1;
        let mut decided = None;
        for (id, counted) in &mut state.rules {
            let of_events = matches!(counted.rule.action, Action::FreezeWatches | Action::HideEvents(_));
            if of_events || !counted.rule.requests.contain(request) {
                continue;
            }
            counted.matched += 1;
            if decided.is_none() && counted.rule.turn.is(counted.matched) {
                decided = Some((*id, counted.rule.action.clone()));
            }
        }
        self.recorded.notify_all();
        (place, decided)
    }

    /// Decides about an event of a watch. Asked again about the same event only after `Freeze`.
    pub(super) fn judge(&self, request: &Request, event: &serde_json::Value) -> Verdict {
        let mut state = self.state();
        let mut rules = state
            .rules
            .values_mut()
            .filter(|counted| counted.rule.requests.contain(request));
        if rules.any(|counted| counted.rule.action == Action::FreezeWatches) {
            return Verdict::Freeze;
        }
        let mut verdict = Verdict::Pass;
        for counted in state
            .rules
            .values_mut()
            .filter(|counted| counted.rule.requests.contain(request))
        {
            let Action::HideEvents(events) = &counted.rule.action else {
                continue;
            };
            if events.contain(event) {
                counted.matched += 1;
                if counted.rule.turn.is(counted.matched) {
                    verdict = Verdict::Hide;
                }
            }
        }
        verdict
    }

    /// Writes down what the API server said to a request, and what the client was told.
    pub(super) fn answered(&self, place: usize, status: Option<u16>, told: Option<u16>) {
        if let Some(record) = self.state().records.get_mut(place) {
            record.status = status.or(record.status);
            record.told = told.or(record.told);
        }
        self.recorded.notify_all();
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.state().records.clone()
    }

    /// Waits until the record satisfies `wanted`; returns whether it did, and the record.
    pub(super) fn wait_for(&self, patience: Duration, wanted: impl Fn(&[Record]) -> bool) -> (bool, Vec<Record>) {
        let outcome = self
            .recorded
            .wait_timeout_while(self.state(), patience, |state| !wanted(&state.records));
        let (state, timeout) = outcome.unwrap_or_else(PoisonError::into_inner);
        (!timeout.timed_out(), state.records.clone())
    }

    /// Notes an open watch, and returns what tells it that it is to be cut.
    pub(super) fn open(self: &Arc<Self>, request: Request) -> Watch {
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

    /// Does something with each open watch among `requests`, and returns how many they are.
    pub(super) fn watches(&self, requests: &Requests, mut each: impl FnMut(&Notify)) -> usize {
        let state = self.state();
        let open = state.watches.values().filter(|watch| requests.contain(&watch.request));
        open.inspect(|watch| each(&watch.cut)).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open watch, forgotten when it is dropped.
pub(super) struct Watch {
    number: usize,
    /// Notified when the watch is to be cut.
    pub(super) cut: Arc<Notify>,
    script: Arc<Script>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.script.state().watches.remove(&self.number);
    }
}
