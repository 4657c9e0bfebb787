//! The controller of AppQueues: observe, validate, decide on the next step, carry it out, report the status; repeated until no step is
//! left. The steps are calls to a service outside of the cluster.

mod credentials;
mod output;
mod service;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crd::{AppQueue, AppQueueStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::core::{Request, Resource as _};
use kube::discovery::ApiResource;
use model::Failure;
use model::queue::{
    self, Call, Desired, Lifecycle, Memory, Observed, Outcome, Removal, Retry, Step, StepInput, record,
};
use serde_json::json;
use tracing::{info, warn};

use super::status_writer::{OwnerState, ReconcileContext, StatusUpdate, StatusWriter};
use super::stored::{Stored as _, informer, ready_states};
use crate::call::{CallError, Caller};
use crate::controller::Controller;
use crate::deps::Deps;
use crate::informer::{Informer, Need, Select, Source, Wake, waking};
use crate::key::Key;
use crate::metrics::Metrics;
use crate::object_state::ObjectStates;
use crate::object_state::retry::Retries;
use crate::primary::{Primary as _, ReadyState, Root};
use crate::queue::{Priority, Queue};
use crate::result::{Error, ReconcileResult, Requeue};
use crate::stores::Stores;
use crate::stores::queue_outputs::QueueOutput;
use output::OutputWriter;
use service::{Service, has_lost_credentials};

/// More steps than any reconcile needs. A service whose answers contradict each other must not keep a reconcile going.
const MOST_STEPS: usize = 24;

/// Reconciles AppQueues.
pub struct Reconciler {
    caller: Caller,
    stores: Arc<Stores>,
    metrics: Arc<Metrics>,
    status_writer: StatusWriter<AppQueue>,
    /// What is kept of each AppQueue.
    states: Arc<ObjectStates<AppQueueStatus>>,
    queue: Arc<Queue<Key>>,
    service: Service,
    /// The time between two reads of a queue.
    resync: Duration,
}

/// How the steps of a reconcile ended.
enum StepsResult {
    /// Nothing is left to do.
    Settled(Outcome),
    /// The object was deleted, or will be when its last finalizer is removed.
    Released,
    /// A write to the API server failed.
    Failed(Failure),
    /// The reconcile must end: the cached object was outdated.
    Ended(Error),
}

impl Reconciler {
    /// Returns a controller that has reconciled nothing yet.
    #[must_use]
    pub fn new(deps: &Deps) -> Self {
        let queue = Arc::new(deps.metrics.queue(AppQueue::NAMES.singular));
        let (caller, stores, metrics) = (deps.caller.clone(), deps.stores.clone(), deps.metrics.clone());
        let states = Arc::new(ObjectStates::default());
        Self {
            status_writer: StatusWriter::new(
                caller.clone(),
                stores.clone(),
                states.clone(),
                queue.clone(),
                metrics.clone(),
            ),
            service: Service::new(caller.clone(), metrics.clone(), &deps.settings),
            resync: deps.settings.external_resync_period,
            caller,
            stores,
            metrics,
            states,
            queue,
        }
    }
}

#[async_trait]
impl Controller for Reconciler {
    fn kind(&self) -> &'static str {
        AppQueue::NAMES.kind
    }

    fn name(&self) -> &'static str {
        AppQueue::NAMES.singular
    }

    fn queue(&self) -> &Arc<Queue<Key>> {
        &self.queue
    }

    fn retries(&self) -> &dyn Retries {
        &*self.states
    }

    fn informers(&self) -> Vec<Informer> {
        let outputs = Source::<QueueOutput> {
            resource: "configmaps",
            api: ApiResource::erase::<ConfigMap>(&()),
            is_namespaced: true,
            select: Select::Labels(format!("{}={}", crd::label::MANAGED_BY, crd::label::MANAGED_BY_VALUE)),
            need: Need::Helps,
            store: self.stores.queue_outputs.clone(),
            wake: waking(&self.queue),
            on_vanish: None,
        };
        let queues = informer::<AppQueue>(&self.stores, Need::IfServed, waking_sources(&self.stores, &self.queue));
        vec![queues, outputs.into()]
    }

    fn keys(&self) -> Vec<Key> {
        self.stores.queues.cache.keys()
    }

    fn ready_states(&self) -> Vec<ReadyState> {
        ready_states::<AppQueue>(&self.stores)
    }

    async fn reconcile(&self, key: Key) -> ReconcileResult {
        let Some(mut context) = self.status_writer.begin(key) else {
            self.forget_unused_credentials();
            return Ok(Requeue::Done);
        };
        let desired = match &context.unreadable {
            Some(why) => Err(why.failure()),
            None => queue::desired(&context.object, |name| self.find(&context.key, name)).map_err(Failure::from),
        };
        let desired = match desired {
            Ok(desired) => desired,
            Err(failure) => return self.finish(&context, None, Some(failure)).await,
        };
        let outcome = match self.advance(&mut context, &desired).await {
            StepsResult::Settled(outcome) => outcome,
            StepsResult::Released => return Ok(Requeue::Done),
            StepsResult::Ended(error) => return Err(error),
            StepsResult::Failed(failure) => return self.finish(&context, None, Some(failure)).await,
        };
        self.report_drift(&context, &outcome).await;
        let failure = self.write_output(&context, &desired, &outcome).await;
        self.finish(&context, Some(&outcome), failure).await
    }

    async fn report(&self, key: &Key, failure: Failure) {
        self.status_writer.report(key, failure).await;
    }
}

impl Reconciler {
    /// Returns an AppQueue in the namespace of another.
    fn find(&self, key: &Key, name: &str) -> Option<Arc<AppQueue>> {
        match self.stores.queues.cache.get(&Key::new(&key.namespace, name))? {
            Root::Readable(queue) => Some(queue),
            Root::Unreadable { .. } => None,
        }
    }

    /// Carries out steps until none is left.
    async fn advance(&self, context: &mut ReconcileContext<AppQueue>, desired: &Desired) -> StepsResult {
        let key = context.key.clone();
        let mut lifecycle = Lifecycle::of(&context.object, false);
        let mut is_confirmed = false;
        let mut observed = Observed::default();
        let mut memory = self.memory(context);
        let is_live = |uid: &str| self.is_live(uid);
        for _ in 0..MOST_STEPS {
            let step = queue::next_step(StepInput {
                object: &lifecycle,
                desired,
                observed: &observed,
                memory: &memory,
                is_live: &is_live,
                now: now(),
            });
            match step {
                Step::Call(call) => {
                    if matches!(call, Call::Create { .. }) && !is_confirmed {
                        match self.confirm(context).await {
                            Ok(()) => is_confirmed = true,
                            Err(result) => return result,
                        }
                    }
                    self.expect_loss(&key, &call, &memory);
                    let result = self.service.call(&key, desired, lifecycle.is_deleting, &call).await;
                    if lifecycle.is_deleting && result.as_ref().is_err_and(has_lost_credentials) {
                        lifecycle.is_namespace_terminating = self.is_namespace_terminating(context, desired).await;
                    }
                    record(&call, result, &lifecycle.uid, &mut observed, &mut memory, now());
                    self.remember(&key, &memory);
                }
                Step::AddFinalizer => match self.set_finalizer(context, true).await {
                    Ok(()) => (is_confirmed, lifecycle.has_finalizer) = (true, true),
                    Err(result) => return result,
                },
                Step::RemoveFinalizer(removal) => {
                    match self.set_finalizer(context, false).await {
                        Ok(()) => lifecycle.has_finalizer = false,
                        Err(result) => return result,
                    }
                    report_removal(removal, context.object.status.as_ref());
                    if lifecycle.is_deleting {
                        return StepsResult::Released;
                    }
                }
                Step::Settled(outcome) => {
                    memory.settle(desired, &outcome, self.jittered_resync(), now());
                    self.remember(&key, &memory);
                    return StepsResult::Settled(outcome);
                }
            }
        }
        let why = "its answers contradict each other".to_owned();
        warn!(why, "the queue service can't be used");
        StepsResult::Failed(Failure::Unavailable {
            what: "the queue service".to_owned(),
            why,
        })
    }

    /// Reads the AppQueue before its queue is created. If it was deleted and the watch is late, nothing would delete that queue.
    async fn confirm(&self, context: &ReconcileContext<AppQueue>) -> Result<(), StepsResult> {
        match self.status_writer.verify_owner(context).await {
            Ok(OwnerState::Same) => Ok(()),
            Ok(OwnerState::Changed) => Err(StepsResult::Ended(Error::Stale)),
            Ok(OwnerState::Gone) => Err(StepsResult::Ended(Error::Deleted)),
            Err(failure) => Err(StepsResult::Failed(failure)),
        }
    }

    /// Adds our finalizer to an AppQueue, or removes it.
    async fn set_finalizer(
        &self,
        context: &mut ReconcileContext<AppQueue>,
        has_finalizer: bool,
    ) -> Result<(), StepsResult> {
        let ReconcileContext { key, object, .. } = context;
        let before = object.metadata.finalizers.iter().flatten();
        let mut finalizers: Vec<&str> = before
            .map(String::as_str)
            .filter(|name| *name != crd::finalizer::QUEUE)
            .collect();
        if has_finalizer {
            finalizers.push(crd::finalizer::QUEUE);
        }
        // A list is replaced as a whole: with the version, another writer's finalizer is not lost.
        let patch = Patch::Merge(json!({"metadata": {
            "uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version, "finalizers": finalizers,
        }}));
        let params = PatchParams {
            field_manager: Some(crd::FIELD_MANAGER.into()),
            ..PatchParams::default()
        };
        let request = Request::new(AppQueue::url_path(&(), Some(&key.namespace))).patch(&key.name, &params, &patch);
        match self.caller.send("patch", AppQueue::NAMES.plural, request).await {
            Ok(written) => {
                self.status_writer.continue_with(context, written);
                Ok(())
            }
            Err(CallError::Refused(status)) if status.is_not_found() => Err(StepsResult::Ended(Error::Deleted)),
            // It has changed, which the watch reports.
            Err(CallError::Refused(status)) if status.code == 409 => Err(StepsResult::Ended(Error::Stale)),
            Err(error) => Err(StepsResult::Failed(error.failure(
                "patch",
                AppQueue::NAMES.kind,
                &key.name,
            ))),
        }
    }

    /// Returns what is kept of a queue. After a restart, its URL is read from the status.
    fn memory(&self, context: &ReconcileContext<AppQueue>) -> Memory {
        let kept = self
            .states
            .with(&context.key, |state| state.external_queue.as_deref().cloned())
            .flatten();
        kept.unwrap_or_else(|| Memory::of_status(context.object.status.as_ref()))
    }

    fn remember(&self, key: &Key, memory: &Memory) {
        self.states
            .with(key, |state| state.external_queue = Some(Box::new(memory.clone())));
    }

    /// Records that the answer to a create is lost, until there is one: this reconcile may be aborted during the call.
    fn expect_loss(&self, key: &Key, call: &Call, memory: &Memory) {
        if matches!(call, Call::Create { .. }) {
            let mut memory = memory.clone();
            memory.lose_create(now());
            self.remember(key, &memory);
        }
    }

    /// Whether an AppQueue with this UID exists.
    fn is_live(&self, uid: &str) -> bool {
        let mut is_live = false;
        self.stores
            .queues
            .cache
            .for_each(|root| is_live |= root.meta().uid.as_deref() == Some(uid));
        is_live
    }

    /// Whether the namespace is being deleted: then nothing can be created in it, which a dry run shows without a right to read
    /// namespaces.
    async fn is_namespace_terminating(&self, context: &ReconcileContext<AppQueue>, desired: &Desired) -> bool {
        self.output().is_namespace_terminating(&context.object, desired).await
    }

    fn output(&self) -> OutputWriter<'_> {
        OutputWriter {
            caller: &self.caller,
            stores: &self.stores,
        }
    }

    async fn write_output(
        &self,
        context: &ReconcileContext<AppQueue>,
        desired: &Desired,
        outcome: &Outcome,
    ) -> Option<Failure> {
        let view = outcome
            .view()
            .filter(|_| context.object.metadata.deletion_timestamp.is_none())?;
        self.output().write(&context.object, desired, view).await.err()
    }

    /// Reports what others have changed outside of the cluster.
    async fn report_drift(&self, context: &ReconcileContext<AppQueue>, outcome: &Outcome) {
        for drift in &outcome.drift {
            info!(%drift, "repaired a change outside of the cluster");
            self.metrics.queue_drift(drift.kind());
            self.status_writer
                .warn(&context.object, "Drift", &format!("{drift}; it was repaired"))
                .await;
        }
    }

    /// Writes the status.
    async fn finish(
        &self,
        context: &ReconcileContext<AppQueue>,
        outcome: Option<&Outcome>,
        failure: Option<Failure>,
    ) -> ReconcileResult {
        let update = |now: Timestamp| StatusUpdate {
            status: queue::status(&context.object, outcome, failure.as_ref(), now),
            changes_in: outcome.and_then(|outcome| self.checks_in(&context.key, outcome, now)),
            asks: None,
        };
        let failures: Vec<Failure> = failure.iter().cloned().collect();
        let result = self.status_writer.finish(context, &failures, update).await;
        match (result, outcome.map(Outcome::retry)) {
            (Ok(_), Some(Retry::Backoff)) => Err(Error::Failed),
            (result, _) => result,
        }
    }

    /// Returns when the queue is read again.
    fn checks_in(&self, key: &Key, outcome: &Outcome, now: Timestamp) -> Option<Duration> {
        if matches!(outcome.state, queue::State::Deleting) {
            return None;
        }
        let expires_in = self
            .states
            .with(key, |state| state.external_queue.as_ref()?.expires_in(now.as_second()))
            .flatten()?;
        // A moment later than that, so that the outcome no longer holds.
        u64::try_from(expires_in)
            .ok()
            .map(|seconds| Duration::from_secs(seconds) + Duration::from_millis(fastrand::u64(50..1000)))
    }

    /// Returns the time until the next read, in seconds: shortened at random, so that queues are not read at the same time.
    fn jittered_resync(&self) -> i64 {
        let resync = i64::try_from(self.resync.as_secs()).unwrap_or(i64::MAX);
        resync - fastrand::i64(0..=resync / 10)
    }

    /// Forgets the Secrets that no AppQueue names.
    fn forget_unused_credentials(&self) {
        let mut named = std::collections::HashSet::new();
        self.stores.queues.cache.for_each(|root| {
            if let Root::Readable(queue) = root
                && let Some(credentials) = &queue.spec.credentials
                && let Some(namespace) = &queue.metadata.namespace
            {
                named.insert(Key::new(namespace, &credentials.secret_ref.name));
            }
        });
        self.service.credentials.keep(|secret| named.contains(secret));
    }
}

/// Wakes AppQueues that have changed, and those of which they are the dead letter queue.
fn waking_sources(stores: &Arc<Stores>, queue: &Arc<Queue<Key>>) -> Wake {
    let (stores, wake) = (stores.clone(), waking(queue));
    Arc::new(move |queues, reason| {
        let sources = queues.iter().flat_map(|key| AppQueue::note(&stores, key)).collect();
        wake(sources, Priority::Related.into());
        wake(queues, reason);
    })
}

/// Logs why a finalizer was removed.
fn report_removal(removal: Removal, status: Option<&AppQueueStatus>) {
    let url = status.and_then(|status| status.url.as_deref());
    match removal {
        Removal::Deleted => info!(url, "deleted the queue"),
        Removal::Retained => info!(url, "the queue is kept, as the deletion policy says"),
        Removal::NotOurs => info!(url, "the queue is not ours, and is kept"),
        Removal::Orphaned => warn!(
            url,
            "the credentials were deleted with the namespace: the queue is kept, and nothing manages it"
        ),
    }
}

fn now() -> i64 {
    Timestamp::now().as_second()
}
