//! The controller of PodSets: observe, validate, decide on the next step, apply it, report the status; repeated until no
//! step is left.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crd::{PodSet, PodSetStatus};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::discovery::ApiResource;
use model::pod::PodState;
use model::podset::{
    PodError, PodRef, Removal, SetPod, Step, Wanted, Why, asks, changes_in, conflicts, marks, next_step,
    next_step_despite, status,
};
use model::{Failure, podset};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::status_writer::{OwnerState, ReconcileContext, StatusUpdate, StatusWriter};
use super::stored::{informer, ready_states};
use crate::apply::pods::{Applier, CONCURRENCY};
use crate::call::Caller;
use crate::controller::Controller;
use crate::deps::Deps;
use crate::informer::{Informer, Need, Source, waking};
use crate::key::Key;
use crate::object_state::ObjectStates;
use crate::object_state::owned_objects::{Doubts, Present};
use crate::object_state::progress::Progress;
use crate::object_state::retry::Retries;
use crate::primary::{Primary as _, ReadyState};
use crate::queue::Queue;
use crate::result::{Error, ReconcileResult, Requeue};
use crate::stores::set_pods::{Known, Member};
use crate::stores::{PodSetPods, Stores};

/// How many Events about ended pods are written concurrently. A lost node ends many pods.
const EVENT_CONCURRENCY: usize = 16;

/// How long these Events may take. A reconcile has a deadline, and the status must report what was done.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);

/// For how long steps continue that do not depend on a failed one, before the failure is reported.
const DESPITE_FAILURES: Duration = Duration::from_secs(5);

/// Reconciles PodSets.
pub struct Reconciler {
    caller: Caller,
    stores: Arc<Stores>,
    status_writer: StatusWriter<PodSet>,
    slots: Semaphore,
    /// What is kept of each PodSet.
    states: Arc<ObjectStates<PodSetStatus>>,
    queue: Arc<Queue<Key>>,
}

/// When a reconcile began.
#[derive(Clone, Copy)]
struct Began {
    clock: Timestamp,
    instant: Instant,
}

impl Began {
    fn now() -> Self {
        Self {
            clock: Timestamp::now(),
            instant: Instant::now(),
        }
    }
}

/// The result of a step.
enum StepResult {
    /// There was nothing to do.
    Settled,
    /// It was carried out, and another may follow.
    Stepped,
    /// The reconcile must end: cached objects were outdated.
    Ended(Error),
    /// These errors prevent it.
    Blocked(Vec<PodError>),
}

impl Reconciler {
    /// Returns a controller that has reconciled nothing yet.
    #[must_use]
    pub fn new(deps: &Deps) -> Self {
        let queue = Arc::new(deps.metrics.queue(PodSet::KIND.singular()));
        let (caller, stores) = (deps.caller.clone(), deps.stores.clone());
        let states = Arc::new(ObjectStates::default());
        let metrics = deps.metrics.clone();
        Self {
            status_writer: StatusWriter::new(caller.clone(), stores.clone(), states.clone(), queue.clone(), metrics),
            caller,
            stores,
            slots: Semaphore::new(CONCURRENCY),
            states,
            queue,
        }
    }
}

#[async_trait]
impl Controller for Reconciler {
    fn kind(&self) -> &'static str {
        PodSet::KIND.as_str()
    }

    fn name(&self) -> &'static str {
        PodSet::KIND.singular()
    }

    fn queue(&self) -> &Arc<Queue<Key>> {
        &self.queue
    }

    fn retries(&self) -> &dyn Retries {
        &*self.states
    }

    fn informers(&self) -> Vec<Informer> {
        let states = self.states.clone();
        let pods = Source::<PodSetPods> {
            resource: "podset-pods",
            api: ApiResource::erase::<Pod>(&()),
            is_namespaced: true,
            labels: Some(crd::label::PODSET.to_owned()),
            need: Need::Always,
            store: self.stores.set_pods.kind.clone(),
            wake: waking(&self.queue),
            // A pod that loses the label vanishes from this watch, and still exists.
            on_vanish: Some(Arc::new(move |key, member: Arc<Member>| {
                if let Some((set, pod)) = member.lost_by(&key) {
                    states.with_new(&set, |state| state.lost_pods.insert(pod.uid.clone(), pod));
                }
            })),
        };
        let sets = informer::<PodSet>(&self.stores, Need::IfServed, waking(&self.queue));
        vec![sets, pods.into()]
    }

    fn keys(&self) -> Vec<Key> {
        self.stores.podsets.cache.keys()
    }

    fn ready_states(&self) -> Vec<ReadyState> {
        ready_states::<PodSet>(&self.stores)
    }

    /// Carries out the next step of a PodSet, and writes its status.
    async fn reconcile(&self, key: Key) -> ReconcileResult {
        let Some(context) = self.status_writer.begin(key.clone()) else {
            // It was deleted. Its pods are garbage-collected or orphaned, as the client chose.
            return Ok(Requeue::Done);
        };
        let began = Began::now();
        let wanted = match &context.unreadable {
            Some(why) => Err(why.failure()),
            None => Wanted::of(&context.object).map_err(Failure::from),
        };
        let advance = match &wanted {
            Err(failure) => StepResult::Blocked(vec![failure.clone().into()]),
            Ok(wanted) => self.advance(&context, wanted).await,
        };
        let (errors, stepped) = match advance {
            StepResult::Ended(error) => return Err(error),
            // A status for each of a hundred pods is not worth a write.
            StepResult::Stepped if !self.is_due(&key) => return Ok(Requeue::Now),
            StepResult::Stepped => (Vec::new(), true),
            StepResult::Settled => (Vec::new(), false),
            StepResult::Blocked(errors) => (errors, false),
        };
        match self.finish(&context, wanted.as_ref().ok(), &errors, began).await {
            Ok(Requeue::Done | Requeue::After(_)) if stepped => Ok(Requeue::Now),
            result => result,
        }
    }

    async fn report(&self, key: &Key, failure: Failure) {
        self.status_writer.report(key, failure).await;
    }
}

impl Reconciler {
    async fn advance(&self, context: &ReconcileContext<PodSet>, wanted: &Wanted) -> StepResult {
        let ReconcileContext { key, object: set, .. } = context;
        let pods = &self.stores.set_pods;
        if let Some(why) = pods.kind.health.unseen(&key.namespace) {
            return StepResult::Blocked(vec![Failure::Blind { resource: "pods", why }.into()]);
        }
        let applier = Applier {
            caller: &self.caller,
            stores: &self.stores,
            wake: &|other| self.status_writer.wake(other),
            slots: &self.slots,
            own_slot: Semaphore::new(1),
            key,
            set,
            wanted,
        };
        // A set that is being deleted releases no pod.
        let lost = if wanted.deleting {
            Vec::new()
        } else {
            self.lost_pods(key)
        };
        let (found, error) = applier.read_all_lost(&lost).await;
        self.states.with(key, |state| {
            for pod in &found {
                state.lost_pods.remove(&pod.uid);
            }
        });
        if let Some(error) = error {
            return StepResult::Blocked(vec![error]);
        }
        let (began, mut failed, mut errors) = (Instant::now(), None, Vec::new());
        loop {
            match self.step(context, &applier, failed.as_ref()).await {
                // Steps that do not depend on the failed one are carried out before the failure is reported.
                (Some(step), StepResult::Blocked(more)) => {
                    errors.extend(more);
                    failed = Some(step);
                }
                (None, StepResult::Blocked(more)) => {
                    errors.extend(more);
                    return StepResult::Blocked(errors);
                }
                (_, advance) if errors.is_empty() => return advance,
                (_, StepResult::Stepped | StepResult::Ended(Error::Stale)) => {}
                (_, StepResult::Settled | StepResult::Ended(_)) => return StepResult::Blocked(errors),
            }
            if began.elapsed() >= DESPITE_FAILURES {
                return StepResult::Blocked(errors);
            }
        }
    }

    /// Decides on the next step, or on one that is possible although a step has failed, and carries it out. Returns the step, if it was
    /// attempted, and its result.
    async fn step(
        &self,
        context: &ReconcileContext<PodSet>,
        applier: &Applier<'_>,
        failed: Option<&Step>,
    ) -> (Option<Step>, StepResult) {
        let ReconcileContext { key, object: set, .. } = context;
        let (pods, wanted) = (&self.stores.set_pods, applier.wanted);
        let known = pods.of(key);
        let doubts = self.record_owned(context, wanted, &known);
        let memory = self.progress(key, |progress| progress.memory(&wanted.template));
        let now = Timestamp::now().as_second();
        let seen = known.seen(&memory, now);
        let step = match failed {
            None => next_step(wanted, seen),
            Some(failed) => next_step_despite(wanted, seen, failed),
        }
        // The rest is another step: no step may take longer than a reconcile.
        .at_most(CONCURRENCY);
        if step == Step::Settled {
            if failed.is_some() {
                return (None, StepResult::Settled);
            }
            self.progress(key, Progress::settled);
            let conflicts: Vec<PodError> = conflicts(wanted, seen).into_iter().map(PodError::from).collect();
            let advance = if conflicts.is_empty() {
                StepResult::Settled
            } else {
                StepResult::Blocked(conflicts)
            };
            return (None, advance);
        }
        // No pod is created or adopted for a deleted set: it would be garbage-collected.
        let needs_the_set = matches!(step, Step::Adopt(_)) || doubts.lost && matches!(step, Step::Create(_));
        let reads = needs_the_set || doubts.unverified;
        match if reads {
            self.status_writer.verify_owner(context).await
        } else {
            Ok(OwnerState::Same)
        } {
            Ok(OwnerState::Same) if reads => self.states.owner_verified(key),
            Ok(OwnerState::Same) => {}
            Ok(OwnerState::Changed) => return (None, StepResult::Ended(Error::Stale)),
            Ok(OwnerState::Gone) => return (None, StepResult::Ended(Error::Deleted)),
            Err(failure) => return (None, StepResult::Blocked(vec![failure.into()])),
        }
        for pod in step.given_up() {
            self.states.expect_deletion(key, &pod.uid);
        }
        let outcome = applier.execute(&step, memory.pace).await;
        self.record_owned(context, wanted, &pods.of(key));
        let done = outcome.errors.is_empty();
        // After a failure, only the regular next step shows that it is over.
        let taken = outcome.taken;
        self.progress(key, |progress| progress.stepped(done && failed.is_none(), taken));
        let ended = Ended::of(&known, &outcome.removed);
        let ages = ended.pods.iter().map(|(pod, _)| now - pod.created);
        self.progress(key, |progress| progress.ended(&wanted.template, ages));
        self.record_ended(set, &ended).await;
        let advance = match (done, outcome.stale) {
            (false, _) => StepResult::Blocked(outcome.errors),
            (true, true) => StepResult::Ended(Error::Stale),
            (true, false) => StepResult::Stepped,
        };
        (Some(step), advance)
    }

    /// Records which pods exist, and returns why the set must be re-read before they are changed.
    fn record_owned(&self, context: &ReconcileContext<PodSet>, wanted: &Wanted, known: &Known) -> Doubts {
        let ours = |pod: &&SetPod| pod.is_controlled_by(wanted) && !pod.deleting;
        let pods = known.pods.iter().filter(ours).map(|pod| &*pod.uid);
        let has_status = context.object.status.is_some();
        self.states.record_owned(&context.key, has_status, Present::new(pods))
    }

    /// Returns the pods of a set that may have lost the label.
    fn lost_pods(&self, set: &Key) -> Vec<PodRef> {
        let lost = self
            .states
            .with(set, |state| state.lost_pods.values().cloned().collect());
        lost.unwrap_or_default()
    }

    /// Reads or changes the progress of a set.
    fn progress<R>(&self, set: &Key, change: impl FnOnce(&mut Progress) -> R) -> R {
        self.states
            .with_new(set, |state| change(state.progress.get_or_insert_default()))
    }

    /// Whether the status is due although more steps follow: they continue, and the last write was a while ago.
    fn is_due(&self, key: &Key) -> bool {
        let is_due = self.states.with(key, |state| {
            state.progress.as_ref().is_some_and(|progress| progress.is_long()) && state.status.is_due()
        });
        is_due.unwrap_or_default()
    }

    async fn finish(
        &self,
        context: &ReconcileContext<PodSet>,
        wanted: Option<&Wanted>,
        errors: &[PodError],
        began: Began,
    ) -> ReconcileResult {
        let failures: Vec<Failure> = errors.iter().map(|error| error.failure.clone()).collect();
        let update = |now: Timestamp| {
            let mut known = self.stores.set_pods.of(&context.key);
            self.states.add_probe_events(&context.key, known.states.iter_mut());
            let memory = self.progress(&context.key, |progress| {
                if wanted.is_none() {
                    // An invalid spec has no progress.
                    *progress = Progress::default();
                }
                progress.memory(wanted.map_or("", |wanted| &wanted.template))
            });
            let (then, now_seconds) = (began.clock.as_second(), now.as_second());
            let progressed_at = wanted.map_or(then, |wanted| {
                let marks = marks(&context.object, wanted, known.knowledge(&memory, now_seconds, then));
                self.progress(&context.key, |progress| progress.progressed_at(marks, then))
            });
            let knowledge = known.knowledge(&memory, now_seconds, progressed_at);
            // At the time when the reconcile began: no decision has considered what became due since.
            let before = known.knowledge(&memory, then, progressed_at);
            let clock = wanted.and_then(|wanted| changes_in(wanted, before));
            let changes_in = clock
                .into_iter()
                .chain(self.progress(&context.key, |progress| progress.tries_again_in(began.instant)))
                .min();
            let outdated = self
                .stores
                .set_pods
                .kind
                .outdated("pods", &context.key)
                .map(PodError::from);
            let errors: Vec<PodError> = errors.iter().cloned().chain(outdated).collect();
            let status = status(&context.object, wanted, knowledge, &errors, now);
            StatusUpdate {
                asks: asks(&status, wanted, knowledge),
                status,
                changes_in: changes_in.map(|wait| wait.saturating_sub(began.instant.elapsed())),
            }
        };
        self.status_writer.finish(context, &failures, update).await
    }

    /// Writes an Event for each deleted pod that had ended: the pod would have shown why.
    async fn record_ended(&self, set: &PodSet, ended: &Ended<'_>) {
        let events = stream::iter(&ended.pods).for_each_concurrent(EVENT_CONCURRENCY, async |(pod, state)| {
            let message = podset::obituary(set, &pod.name, Some(state));
            self.status_writer.warn(set, "PodEnded", &message).await;
        });
        if timeout(EVENT_TIMEOUT, events).await.is_err() {
            debug!("not all Events about ended pods could be written in time");
        }
    }
}

/// Pods that had ended and were deleted, with their states.
struct Ended<'a> {
    pods: Vec<(&'a SetPod, &'a PodState)>,
}

impl<'a> Ended<'a> {
    fn of(known: &'a Known, removed: &[Removal]) -> Self {
        let finished = removed.iter().filter(|removal| removal.why == Why::Finished);
        let uids: HashSet<&str> = finished.map(|removal| &*removal.pod.uid).collect();
        let all = known.pods.iter().zip(&known.states);
        Self {
            pods: all.filter(|(pod, _)| uids.contains(&*pod.uid)).collect(),
        }
    }
}
