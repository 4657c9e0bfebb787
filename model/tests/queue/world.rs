//! The state, and the actions that change it.

use std::collections::{BTreeMap, BTreeSet};

use crd::{AdoptionPolicy, DeletionPolicy, tag};
use model::queue::{
    Call, CallError, Desired, Existence, Lifecycle, Memory, Observed, Outcome, Removal, State, Step, StepInput,
    next_step, record,
};

use crate::service::{ATTRIBUTE, Service};

/// The UID of an AppQueue: how many were created before.
pub type Uid = u8;

/// Returns a UID as text.
pub fn name(uid: Uid) -> String {
    uid.to_string()
}

/// A seeded bug, to show that the checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The queue is created before the finalizer is added.
    LateFinalizer,
    /// The tags are not read: each queue counts as ours.
    NoTags,
    /// A queue that is missing after a lost create counts as missing for good.
    NoWait,
    /// The service accepts the name of a deleted queue immediately.
    NoCooldown,
    /// The tag with the owner is set after the creation.
    NoOwner,
}

/// The parameters of a model.
#[derive(Clone, Debug)]
pub struct Rules {
    pub adoption: AdoptionPolicy,
    pub flaws: Vec<Flaw>,
}

impl Rules {
    pub fn has(&self, flaw: Flaw) -> bool {
        self.flaws.contains(&flaw)
    }

    pub fn adopts(&self) -> bool {
        self.adoption == AdoptionPolicy::IfExists
    }

    fn desired(&self, object: &Object) -> Desired {
        Desired {
            name: "shop_orders".to_owned(),
            region: "us-east-1".to_owned(),
            endpoint: None,
            fifo: false,
            attributes: BTreeMap::from([(ATTRIBUTE.to_owned(), "5".to_owned())]),
            tags: BTreeMap::new(),
            dead_letter: None,
            secret: None,
            adoption: self.adoption,
            deletion: object.policy,
        }
    }
}

/// How often faults and actions of third parties can still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// An operator crashes and starts again.
    pub crashes: u8,
    /// Another operator leads.
    pub takeovers: u8,
    /// The response to a call is lost.
    pub losses: u8,
    /// The queue is deleted outside.
    pub deletions: u8,
    /// A queue is created outside.
    pub creations: u8,
    /// The attribute of the queue is changed outside.
    pub changes: u8,
    /// The AppQueue is deleted.
    pub object_deletions: u8,
    /// An AppQueue is created again.
    pub object_creations: u8,
    /// The deletion policy is changed to Retain.
    pub orphans: u8,
}

/// The stored AppQueue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub uid: Uid,
    pub is_deleting: bool,
    pub has_finalizer: bool,
    pub policy: Option<DeletionPolicy>,
}

/// A reconcile in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reconcile {
    /// The AppQueue as it was read at the start.
    object: Object,
    observed: Observed,
    /// The call that was sent.
    call: Option<Call>,
}

/// An operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operator {
    /// What it keeps of the AppQueue with this UID.
    memory: BTreeMap<Uid, Memory>,
}

/// A call that may still be carried out, although no operator waits for the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LateCall {
    uid: Uid,
    call: Call,
    /// Whether the operator that sent it does not lead any more.
    is_of_old_leader: bool,
}

/// The state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub object: Option<Object>,
    pub service: Service,
    pub operators: Vec<Operator>,
    pub leader: usize,
    pub reconcile: Option<Reconcile>,
    pub late_calls: Vec<LateCall>,
    pub left: Budget,
    /// The number of AppQueues that were created.
    pub count: Uid,
    /// The AppQueues whose queues are kept after their deletion.
    pub retained: BTreeSet<Uid>,
    /// The last outcome.
    pub outcome: Option<Outcome>,
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The leader takes steps until it sends a call or is done.
    Take,
    /// The call is carried out, and the leader receives the response.
    Arrive,
    /// A call whose response was lost is carried out.
    ArriveLate(usize),
    /// A call whose response was lost is never carried out.
    DropLate(usize),
    /// A minute passes.
    Pass,
    Lose,
    Crash,
    TakeOver,
    DeleteQueue,
    CreateQueue,
    ChangeQueue,
    DeleteObject,
    CreateObject,
    Orphan,
}

impl World {
    pub fn new(policy: Option<DeletionPolicy>, left: Budget) -> Self {
        let object = Object {
            uid: 0,
            is_deleting: false,
            has_finalizer: false,
            policy,
        };
        Self {
            object: Some(object),
            service: Service::default(),
            operators: vec![Operator::default(); 2],
            leader: 0,
            reconcile: None,
            late_calls: Vec::new(),
            left,
            count: 1,
            retained: BTreeSet::new(),
            outcome: None,
        }
    }

    /// Returns the possible actions; some may have no effect.
    pub fn actions(&self, actions: &mut Vec<Action>) {
        let left = &self.left;
        actions.extend([Action::Take, Action::Arrive]);
        actions.extend((0..self.late_calls.len()).map(Action::ArriveLate));
        actions.extend((0..self.late_calls.len()).map(Action::DropLate));
        actions.push(Action::Pass);
        let limited = [
            (left.losses, Action::Lose),
            (left.crashes, Action::Crash),
            (left.takeovers, Action::TakeOver),
            (left.deletions, Action::DeleteQueue),
            (left.creations, Action::CreateQueue),
            (left.changes, Action::ChangeQueue),
            (left.object_deletions, Action::DeleteObject),
            (left.object_creations, Action::CreateObject),
            (left.orphans, Action::Orphan),
        ];
        actions.extend(
            limited
                .into_iter()
                .filter(|(left, _)| *left > 0)
                .map(|(_, action)| action),
        );
    }

    /// Performs an action. Returns whether it has an effect.
    pub fn apply(&mut self, rules: &Rules, action: Action) -> bool {
        match action {
            Action::Take => self.take(rules),
            Action::Arrive => self.arrive(rules),
            Action::ArriveLate(at) => {
                let late = self.late_calls.remove(at);
                let _ = self.service.handle(&late.call, late.uid, rules, true);
                true
            }
            Action::DropLate(at) => {
                self.late_calls.remove(at);
                true
            }
            Action::Pass => self.pass(),
            Action::Lose => {
                self.left.losses -= 1;
                self.lose()
            }
            Action::Crash => {
                self.left.crashes -= 1;
                self.end_reconcile();
                self.operators[self.leader] = Operator::default();
                true
            }
            Action::TakeOver => {
                self.left.takeovers -= 1;
                self.end_reconcile();
                self.leader = (self.leader + 1) % self.operators.len();
                true
            }
            Action::DeleteQueue => {
                self.left.deletions -= 1;
                let exists = self.service.queue.is_some();
                self.service.delete();
                exists
            }
            Action::CreateQueue => {
                self.left.creations -= 1;
                self.service.create_outside()
            }
            Action::ChangeQueue => {
                self.left.changes -= 1;
                let queue = self.service.queue.as_mut();
                queue.map(|queue| "9".clone_into(&mut queue.attribute)).is_some()
            }
            Action::DeleteObject => {
                self.left.object_deletions -= 1;
                self.delete_object()
            }
            Action::CreateObject => {
                self.left.object_creations -= 1;
                self.create_object()
            }
            Action::Orphan => {
                self.left.orphans -= 1;
                let object = self.object.as_mut();
                object
                    .map(|object| object.policy = Some(DeletionPolicy::Retain))
                    .is_some()
            }
        }
    }

    /// Whether all calls have ended and no reconcile is in progress.
    pub fn is_quiet(&self) -> bool {
        self.reconcile.is_none() && self.late_calls.is_empty()
    }

    /// Lets so much time pass that all changes are visible and the name of a deleted queue is accepted again.
    fn pass(&mut self) -> bool {
        let before = self.clone();
        if !self.is_quiet() {
            return false;
        }
        self.service.refuses_name = false;
        for memory in self
            .operators
            .iter_mut()
            .flat_map(|operator| operator.memory.values_mut())
        {
            memory.created_at = None;
            memory.lost_create = None;
            memory.written.clear();
        }
        *self != before
    }

    fn end_reconcile(&mut self) {
        if let Some(reconcile) = self.reconcile.take() {
            let uid = reconcile.object.uid;
            self.late_calls.extend(reconcile.call.map(|call| LateCall {
                uid,
                call,
                is_of_old_leader: true,
            }));
        }
        for late in &mut self.late_calls {
            late.is_of_old_leader = true;
        }
    }

    fn lose(&mut self) -> bool {
        let Some(reconcile) = &mut self.reconcile else {
            return false;
        };
        let Some(call) = reconcile.call.take() else {
            return false;
        };
        let uid = reconcile.object.uid;
        let memory = self.operators[self.leader].memory.entry(uid).or_default();
        let lost = Err(CallError::Lost(String::new()));
        record(&call, lost, &name(uid), &mut reconcile.observed, memory, 0);
        let is_of_old_leader = false;
        self.late_calls.push(LateCall {
            uid,
            call,
            is_of_old_leader,
        });
        true
    }

    fn arrive(&mut self, rules: &Rules) -> bool {
        let Some(reconcile) = &mut self.reconcile else {
            return false;
        };
        let Some(call) = reconcile.call.take() else {
            return false;
        };
        let uid = reconcile.object.uid;
        let result = self.service.handle(&call, uid, rules, false);
        let memory = self.operators[self.leader].memory.entry(uid).or_default();
        record(&call, result, &name(uid), &mut reconcile.observed, memory, 0);
        if rules.has(Flaw::NoWait) {
            memory.lost_create = None;
        }
        true
    }

    /// Takes steps until a call is sent or nothing is left to do.
    fn take(&mut self, rules: &Rules) -> bool {
        if self.late_calls.iter().any(|late| late.is_of_old_leader) {
            return false;
        }
        let before = self.clone();
        let mut reconcile = match (self.reconcile.take(), &self.object) {
            (Some(reconcile), _) if reconcile.call.is_some() => {
                self.reconcile = Some(reconcile);
                return false;
            }
            (Some(reconcile), _) => reconcile,
            (None, Some(object)) => Reconcile {
                object: object.clone(),
                observed: Observed::default(),
                call: None,
            },
            (None, None) => return false,
        };
        let uid = reconcile.object.uid;
        loop {
            let desired = rules.desired(&reconcile.object);
            let memory = self.operators[self.leader].memory.entry(uid).or_default();
            if rules.has(Flaw::NoWait) {
                memory.lost_create = None;
            }
            // An event can cause a check at any time.
            memory.expire();
            match decide(rules, &reconcile, &desired, memory) {
                Step::Call(call) => {
                    reconcile.call = Some(call);
                    self.reconcile = Some(reconcile);
                    return true;
                }
                Step::AddFinalizer if self.add_finalizer(uid) => reconcile.object.has_finalizer = true,
                Step::RemoveFinalizer(removal) if self.remove_finalizer(uid, removal) => {
                    reconcile.object.has_finalizer = false;
                }
                // The AppQueue has changed: the write fails.
                Step::AddFinalizer | Step::RemoveFinalizer(_) => break,
                Step::Settled(outcome) => {
                    self.outcome = Some(outcome);
                    break;
                }
            }
        }
        *self != before
    }

    fn add_finalizer(&mut self, uid: Uid) -> bool {
        let object = self
            .object
            .as_mut()
            .filter(|object| object.uid == uid && !object.is_deleting);
        object.map(|object| object.has_finalizer = true).is_some()
    }

    fn remove_finalizer(&mut self, uid: Uid, removal: Removal) -> bool {
        let Some(object) = self.object.as_mut().filter(|object| object.uid == uid) else {
            return false;
        };
        object.has_finalizer = false;
        if object.is_deleting {
            self.object = None;
            if matches!(removal, Removal::Retained | Removal::Orphaned) {
                self.retained.insert(uid);
            }
        }
        true
    }

    fn delete_object(&mut self) -> bool {
        let Some(object) = &mut self.object else { return false };
        if object.has_finalizer {
            object.is_deleting = true;
        } else {
            if object.policy == Some(DeletionPolicy::Retain) {
                self.retained.insert(object.uid);
            }
            self.object = None;
        }
        true
    }

    fn create_object(&mut self) -> bool {
        if self.object.is_some() {
            return false;
        }
        self.object = Some(Object {
            uid: self.count,
            is_deleting: false,
            has_finalizer: false,
            policy: None,
        });
        self.count += 1;
        true
    }
}

/// Returns the next step, from the function under test.
fn decide(rules: &Rules, reconcile: &Reconcile, desired: &Desired, memory: &Memory) -> Step {
    let Object {
        uid,
        is_deleting,
        has_finalizer,
        ..
    } = reconcile.object;
    let mut observed = reconcile.observed.clone();
    if rules.has(Flaw::NoTags) && observed.existence != Existence::Missing {
        observed.tags = Some(BTreeMap::from([(tag::OWNER.to_owned(), name(uid))]));
    }
    let object = Lifecycle {
        uid: name(uid),
        is_deleting,
        has_finalizer: has_finalizer || rules.has(Flaw::LateFinalizer) && observed.existence == Existence::Missing,
        is_namespace_terminating: false,
        was_seen: memory.verified.is_some(),
        was_ready: false,
    };
    let step = next_step(StepInput {
        object: &object,
        desired,
        observed: &observed,
        memory,
        is_live: &|_| false,
        now: 0,
    });
    match step {
        Step::Call(Call::Create { attributes, mut tags }) if rules.has(Flaw::NoOwner) => {
            tags.clear();
            Step::Call(Call::Create { attributes, tags })
        }
        step => step,
    }
}

/// Whether the outcome is a conflict.
pub fn is_conflict(outcome: Option<&Outcome>) -> bool {
    matches!(
        outcome,
        Some(Outcome {
            state: State::Conflict(_),
            ..
        })
    )
}
