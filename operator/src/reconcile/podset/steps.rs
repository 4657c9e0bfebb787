//! The steps of a PodSet: decides on the next one, and carries it out.

use std::collections::HashSet;
use std::time::Duration;

use crd::PodSet;
use crd::status::condition::FIELDS_DROPPED;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use model::pod::PodState;
use model::podset::{
    Deletion, DeletionReason, PodError, PodRef, SetPod, Step, ValidPodSet, conflicts, next_step, next_step_despite,
};
use model::{Failure, podset};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::Reconciler;
use crate::apply::pods::{Applier, CONCURRENCY};
use crate::key::Key;
use crate::object_state::owned_objects::Present;
use crate::object_state::progress::Progress;
use crate::reconcile::status_writer::{OwnerState, ReconcileContext};
use crate::result::Error;
use crate::stores::set_pods::Known;

/// How many Events about ended pods are written concurrently. A lost node ends many pods.
const EVENT_CONCURRENCY: usize = 16;

/// How long these Events may take. A reconcile has a deadline, and the status must report what was done.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);

/// For how long steps continue that do not depend on a failed one, before the failure is reported.
const DESPITE_FAILURES: Duration = Duration::from_secs(5);

/// The result of a step.
pub(super) enum StepResult {
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
    /// Carries out the next step. If it fails, carries out steps that do not depend on it, for a limited time.
    pub(super) async fn advance(&self, context: &ReconcileContext<PodSet>, valid: &ValidPodSet) -> StepResult {
        let ReconcileContext { key, object: set, .. } = context;
        let pods = &self.stores.set_pods;
        if let Some(why) = pods.kind.health.unseen(&key.namespace) {
            return StepResult::Blocked(vec![Failure::WatchFailed { resource: "pods", why }.into()]);
        }
        let applier = Applier {
            caller: &self.caller,
            stores: &self.stores,
            wake: &|other| self.status_writer.wake(other),
            slots: &self.slots,
            own_slot: Semaphore::new(1),
            key,
            set,
            valid,
        };
        // A set that is being deleted releases no pod.
        let lost = if valid.deleting {
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
        let (pods, valid) = (&self.stores.set_pods, applier.valid);
        let known = pods.of(key);
        let lost = self.record_owned(context, valid, &known);
        let memory = self.progress(key, |progress| progress.memory(&valid.template));
        let now = Timestamp::now().as_second();
        let seen = known.seen(&memory, now);
        let step = match failed {
            None => next_step(valid, seen),
            Some(failed) => next_step_despite(valid, seen, failed),
        }
        // The rest is another step: no step may take longer than a reconcile.
        .at_most(CONCURRENCY);
        if step == Step::Settled {
            if failed.is_some() {
                return (None, StepResult::Settled);
            }
            self.progress(key, Progress::settled);
            let conflicts: Vec<PodError> = conflicts(valid, seen).into_iter().map(PodError::from).collect();
            let advance = if conflicts.is_empty() {
                StepResult::Settled
            } else {
                StepResult::Blocked(conflicts)
            };
            return (None, advance);
        }
        // No pod is created or adopted for a deleted set: it would be garbage-collected.
        let needs_the_set = matches!(step, Step::Adopt(_)) || lost && matches!(step, Step::Create(_));
        match if needs_the_set {
            self.status_writer.verify_owner(context).await
        } else {
            Ok(OwnerState::Same)
        } {
            Ok(OwnerState::Same) if needs_the_set => self.states.owner_verified(key),
            Ok(OwnerState::Same) => {}
            Ok(OwnerState::Changed) => return (None, StepResult::Ended(Error::Stale)),
            Ok(OwnerState::Gone) => return (None, StepResult::Ended(Error::Deleted)),
            Err(failure) => return (None, StepResult::Blocked(vec![failure.into()])),
        }
        for pod in step.removed_pods() {
            self.states.expect_deletion(key, &pod.uid);
        }
        let outcome = applier.execute(&step, memory.pace).await;
        self.record_owned(context, valid, &pods.of(key));
        if let Some(dropped) = outcome.dropped {
            self.note_created(set, &valid.template, dropped, key).await;
        }
        let done = outcome.errors.is_empty();
        // After a failure, only the regular next step shows that it is over.
        let taken = outcome.taken;
        self.progress(key, |progress| progress.stepped(done && failed.is_none(), taken));
        let ended = Ended::of(&known, &outcome.removed);
        let ages = ended.pods.iter().map(|(pod, _)| now - pod.created);
        self.progress(key, |progress| progress.ended(&valid.template, ages));
        self.record_ended(set, &ended).await;
        let advance = match (done, outcome.stale) {
            (false, _) => StepResult::Blocked(outcome.errors),
            (true, true) => StepResult::Ended(Error::Stale),
            (true, false) => StepResult::Stepped,
        };
        (Some(step), advance)
    }

    /// Records which pods exist, and returns whether the set must be re-read before one is created.
    fn record_owned(&self, context: &ReconcileContext<PodSet>, valid: &ValidPodSet, known: &Known) -> bool {
        let ours = |pod: &&SetPod| pod.is_controlled_by(valid) && !pod.deleting;
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

    /// Records that pods were created. An Event reports fields that the API server has not stored, unless the status does.
    async fn note_created(&self, set: &PodSet, template: &str, dropped: Vec<String>, key: &Key) {
        let message = podset::describe_dropped(&dropped);
        let is_news = self.progress(key, |progress| progress.created(template, dropped));
        let mut reported = set.status.iter().flat_map(|status| &status.conditions);
        if let Some(message) = message.filter(|_| is_news)
            && !reported.any(|reported| reported.type_ == FIELDS_DROPPED && reported.message == message)
        {
            warn!(message, "fields were not stored");
            self.status_writer.warn(set, "FieldsDropped", &message).await;
        }
    }

    /// Writes an Event for each deleted pod that had ended: the pod would have shown why.
    async fn record_ended(&self, set: &PodSet, ended: &Ended<'_>) {
        let events = stream::iter(&ended.pods).for_each_concurrent(EVENT_CONCURRENCY, async |(pod, state)| {
            let message = podset::describe_end(set, &pod.name, Some(state));
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
    fn of(known: &'a Known, removed: &[Deletion]) -> Self {
        let finished = removed
            .iter()
            .filter(|removal| removal.reason == DeletionReason::Finished);
        let uids: HashSet<&str> = finished.map(|removal| &*removal.pod.uid).collect();
        let all = known.pods.iter().zip(&known.states);
        Self {
            pods: all.filter(|(pod, _)| uids.contains(&*pod.uid)).collect(),
        }
    }
}
