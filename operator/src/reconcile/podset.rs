//! The controller of PodSets: observe, validate, decide on the next step, apply it, report the status; repeated until no
//! step is left.

mod steps;

use std::sync::Arc;

use async_trait::async_trait;
use crd::{PodSet, PodSetStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::discovery::ApiResource;
use model::admit::{Admitted as _, without_review};
use model::config_maps;
use model::podset::{PodError, ValidPodSet, changes_in, event_query, progress_counts, status};
use model::{Failure, Invalid};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::config_maps::ConfigMapReader;
use super::status_writer::{ReconcileContext, StatusUpdate, StatusWriter};
use super::stored::{informer, ready_states};
use crate::apply::pods::CONCURRENCY;
use crate::call::Caller;
use crate::controller::Controller;
use crate::deps::Deps;
use crate::informer::{Informer, Need, Select, Source, waking};
use crate::key::Key;
use crate::object_state::ObjectStates;
use crate::object_state::progress::Progress;
use crate::object_state::retry::Retries;
use crate::primary::{Primary as _, ReadyState};
use crate::queue::Queue;
use crate::result::{ReconcileResult, Requeue};
use crate::stores::set_pods::Member;
use crate::stores::{PodSetPods, Stores};
use steps::StepResult;

/// Reconciles PodSets.
pub struct Reconciler {
    caller: Caller,
    stores: Arc<Stores>,
    /// Whether fields that need the right to create pods are accepted.
    accepts_gated_fields: bool,
    /// Reads ConfigMaps whose changes restart pods.
    config_maps: ConfigMapReader<PodSet>,
    status_writer: StatusWriter<PodSet>,
    slots: Semaphore,
    /// The state of each PodSet between reconciles.
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

impl Reconciler {
    /// Returns a controller that has reconciled nothing yet.
    #[must_use]
    pub fn new(deps: &Deps) -> Self {
        let queue = Arc::new(deps.metrics.queue(PodSet::NAMES.singular));
        let (caller, stores) = (deps.caller.clone(), deps.stores.clone());
        let states = Arc::new(ObjectStates::default());
        let metrics = deps.metrics.clone();
        Self {
            config_maps: ConfigMapReader::new(
                crd::Kind::PodSet,
                caller.clone(),
                stores.clone(),
                states.clone(),
                deps.settings.watch_configmaps,
            ),
            status_writer: StatusWriter::new(caller.clone(), stores.clone(), states.clone(), queue.clone(), metrics),
            caller,
            stores,
            accepts_gated_fields: deps.settings.accepts_gated_fields(),
            slots: Semaphore::new(CONCURRENCY),
            states,
            queue,
        }
    }
}

impl Reconciler {
    /// Validates a PodSet, and rejects fields that need the right to create pods if no webhook reviews it.
    fn validate(&self, set: &PodSet) -> Result<ValidPodSet, Invalid> {
        let valid = ValidPodSet::of(set)?;
        if !self.accepts_gated_fields {
            without_review(set.pod(), PodSet::POD)?;
        }
        config_maps::check(set.pod(), PodSet::POD, self.config_maps.is_watched)?;
        Ok(valid)
    }
}

#[async_trait]
impl Controller for Reconciler {
    fn kind(&self) -> &'static str {
        PodSet::NAMES.kind
    }

    fn name(&self) -> &'static str {
        PodSet::NAMES.singular
    }

    fn queue(&self) -> &Arc<Queue<Key>> {
        &self.queue
    }

    fn retries(&self) -> &dyn Retries {
        &*self.states
    }

    fn informers(&self) -> Vec<Informer> {
        self.stores
            .config_maps
            .wake_with(crd::Kind::PodSet, waking(&self.queue));
        let states = self.states.clone();
        let pods = Source::<PodSetPods> {
            resource: "podset-pods",
            api: ApiResource::erase::<Pod>(&()),
            is_namespaced: true,
            select: Select::Labels(crd::label::PODSET.to_owned()),
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
            self.config_maps.forget(&key);
            // It was deleted. Its pods are garbage-collected or orphaned, as the client chose.
            return Ok(Requeue::Done);
        };
        let began = Began::now();
        let (set, outdated) = self.config_maps.refresh(&context).await;
        let valid = match &context.unreadable {
            Some(why) => Err(why.failure()),
            None => self.validate(&set).map_err(Failure::from),
        };
        let advance = match &valid {
            Err(failure) => StepResult::Blocked(vec![failure.clone().into()]),
            Ok(valid) => self.advance(&context, valid).await,
        };
        let (errors, stepped) = match advance {
            StepResult::Ended(error) => return Err(error),
            // A status for each of a hundred pods is not worth a write.
            StepResult::Stepped if !self.is_due(&key) => return Ok(Requeue::Now),
            StepResult::Stepped => (Vec::new(), true),
            StepResult::Settled => (Vec::new(), false),
            StepResult::Blocked(errors) => (errors, false),
        };
        let errors: Vec<PodError> = errors.into_iter().chain(outdated.map(PodError::from)).collect();
        match self.finish(&context, &set, valid.as_ref().ok(), &errors, began).await {
            Ok(Requeue::Done | Requeue::After(_)) if stepped => Ok(Requeue::Now),
            result => result,
        }
    }

    async fn report(&self, key: &Key, failure: Failure) {
        self.status_writer.report(key, failure).await;
    }
}

impl Reconciler {
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
        set: &PodSet,
        valid: Option<&ValidPodSet>,
        errors: &[PodError],
        began: Began,
    ) -> ReconcileResult {
        let failures: Vec<Failure> = errors.iter().map(|error| error.failure.clone()).collect();
        let update = |now: Timestamp| {
            let mut known = self.stores.set_pods.of(&context.key);
            self.states.add_probe_events(&context.key, known.states.iter_mut());
            let memory = self.progress(&context.key, |progress| {
                if valid.is_none() {
                    // An invalid spec has no progress.
                    *progress = Progress::default();
                }
                progress.memory(valid.map_or("", |valid| &valid.template))
            });
            let (then, now_seconds) = (began.clock.as_second(), now.as_second());
            let progressed_at = valid.map_or(then, |valid| {
                let marks = progress_counts(set, valid, known.knowledge(&memory, now_seconds, then));
                self.progress(&context.key, |progress| progress.progressed_at(marks, then))
            });
            let knowledge = known.knowledge(&memory, now_seconds, progressed_at);
            // At the time when the reconcile began: the decision does not include later changes.
            let before = known.knowledge(&memory, then, progressed_at);
            let clock = valid.and_then(|valid| changes_in(valid, before));
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
            let status = status(set, valid, knowledge, &errors, now);
            StatusUpdate {
                asks: event_query(&status, valid, knowledge),
                status,
                changes_in: changes_in.map(|wait| wait.saturating_sub(began.instant.elapsed())),
            }
        };
        self.status_writer.finish(context, &failures, update).await
    }
}
