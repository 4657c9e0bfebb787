//! The controller of AppDeploys: observe, validate, desired, plan, apply, status.

mod informers;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use crd::{AppDeploy, AppDeployStatus};
use model::desired::render;
use model::digest::stable_hash;
use model::plan::{deletions_after, may_write};
use model::status::{StatusOptions, changes_in, event_query};
use model::{Action, ChildId, Failure, Invalid, Observed, Plan, Valid, host, plan, status, validate};
use tracing::warn;

use super::status_writer::{OwnerState, ReconcileContext, StatusUpdate, StatusWriter};
use super::stored::ready_states;
use crate::apply::Outcome;
use crate::apply::children::{Applier, read_ingress};
use crate::call::Caller;
use crate::controller::Controller;
use crate::deps::Deps;
use crate::informer::Informer;
use crate::key::Key;
use crate::object_state::ObjectStates;
use crate::object_state::owned_objects::{Doubts, Present};
use crate::object_state::retry::Retries;
use crate::primary::{Primary as _, ReadyState};
use crate::queue::Queue;
use crate::result::{Error, ReconcileResult, Requeue};
use crate::settings::IngressAddress;
use crate::stores::Stores;

/// Reconciles AppDeploys.
pub struct Reconciler {
    /// Sends requests.
    pub caller: Caller,
    /// What is cached.
    pub stores: Arc<Stores>,
    /// How strict the status is.
    pub options: StatusOptions,
    /// The suffixes that hosts must have; empty if any host is allowed.
    pub host_suffixes: Vec<String>,
    /// Writes statuses.
    pub status_writer: StatusWriter<AppDeploy>,
    /// What is kept of each app.
    states: Arc<ObjectStates<AppDeployStatus>>,
    queue: Arc<Queue<Key>>,
}

impl Reconciler {
    /// Returns a controller that has reconciled nothing yet.
    #[must_use]
    pub fn new(deps: &Deps) -> Self {
        let queue = Arc::new(deps.metrics.queue(AppDeploy::KIND.singular()));
        let states = Arc::new(ObjectStates::default());
        Self {
            caller: deps.caller.clone(),
            stores: deps.stores.clone(),
            options: StatusOptions {
                needs_address: deps.settings.ingress_address == IngressAddress::Require,
            },
            host_suffixes: deps.settings.allowed_host_suffix.clone(),
            status_writer: StatusWriter::new(
                deps.caller.clone(),
                deps.stores.clone(),
                states.clone(),
                queue.clone(),
                deps.metrics.clone(),
            ),
            states,
            queue,
        }
    }
}

#[async_trait]
impl Controller for Reconciler {
    fn kind(&self) -> &'static str {
        AppDeploy::KIND.as_str()
    }

    fn name(&self) -> &'static str {
        AppDeploy::KIND.singular()
    }

    fn queue(&self) -> &Arc<Queue<Key>> {
        &self.queue
    }

    fn retries(&self) -> &dyn Retries {
        &*self.states
    }

    fn informers(&self) -> Vec<Informer> {
        informers::all(&self.stores, &self.queue)
    }

    fn keys(&self) -> Vec<Key> {
        self.stores.apps.cache.keys()
    }

    fn ready_states(&self) -> Vec<ReadyState> {
        ready_states::<AppDeploy>(&self.stores)
    }

    /// Writes the children of an app, and its status.
    async fn reconcile(&self, key: Key) -> ReconcileResult {
        let verified = self.verify_host(&key).await;
        let Some(context) = self.status_writer.begin(key.clone()) else {
            // It was deleted. Its children are garbage-collected.
            self.release_host(&key);
            return verified.map_or(Err(Error::Failed), |()| Ok(Requeue::Done));
        };
        let app = &*context.object;
        let valid = match &context.unreadable {
            Some(why) => Err(why.failure()),
            None => validate(app)
                .map_err(Failure::from)
                .and_then(|valid| self.validate_host(valid)),
        };
        let failures = match &valid {
            Err(failure) => vec![failure.clone()],
            Ok(_) if app.metadata.deletion_timestamp.is_some() => Vec::new(),
            Ok(_) if verified.is_err() => Vec::new(),
            Ok(valid) => match self.apply_children(&context, valid).await {
                Ok(failures) => failures,
                Err(error) => {
                    self.release_host(&context.key);
                    return Err(error);
                }
            },
        };
        let failures = [failures, Vec::from_iter(verified.err())].concat();
        // An app that is retried soon keeps its reservation: no other app gets the host in the meantime.
        if !failures
            .iter()
            .any(|failure| matches!(failure, Failure::Unavailable { .. }))
        {
            self.release_host(&context.key);
        }
        self.status_writer
            .finish(&context, &failures, |now| {
                let observed = self.observe(&context.key);
                let failures = [failures.clone(), self.stores.children.outdated(&context.key, &observed)].concat();
                let status = status(app, valid.as_ref().ok(), &observed, &failures, self.options, now);
                StatusUpdate {
                    changes_in: changes_in(&observed, now),
                    asks: event_query(&status, &observed, now),
                    status,
                }
            })
            .await
    }

    async fn report(&self, key: &Key, failure: Failure) {
        self.status_writer.report(key, failure).await;
    }
}

impl Reconciler {
    /// Ends the reservation of an app, unless its host is unverified, and queues the apps that may have a host because of it.
    fn release_host(&self, app: &Key) {
        self.wake(self.stores.release_host(app));
    }

    fn wake(&self, others: Vec<Key>) {
        for other in others {
            self.status_writer.wake(other);
        }
    }

    /// Reads the Ingress of an app if the answer to its last write was lost. Otherwise another namespace could get
    /// the host of an Ingress that no watch has shown yet.
    ///
    /// # Errors
    /// Returns why the Ingress could not be read. Then no Ingress must be written, and the reservation stays.
    async fn verify_host(&self, app: &Key) -> Result<(), Failure> {
        if !self.stores.host_is_unverified(app) {
            return Ok(());
        }
        read_ingress(&self.caller, &self.stores, app)
            .await
            .inspect_err(|failure| warn!(%failure, "the host stays reserved: the result of a write is unknown"))?;
        self.stores.end_ingress_write(app);
        self.wake(self.stores.note_host(app));
        Ok(())
    }

    /// Checks the host against the suffixes that the administrator allows.
    fn validate_host<'a>(&self, valid: Valid<'a>) -> Result<Valid<'a>, Failure> {
        match host::allowed(&valid, &self.host_suffixes) {
            Ok(()) => Ok(valid),
            Err(problem) => Err(Invalid(vec![problem]).into()),
        }
    }

    /// Returns the cached children and surroundings of an app.
    fn observe(&self, app: &Key) -> Observed {
        let mut observed = self.stores.observe(app);
        self.states.add_probe_events(app, observed.pods.iter_mut());
        observed
    }

    /// Writes what is not as wanted, and returns what failed.
    ///
    /// # Errors
    /// Returns an error if the reconcile must end, because cached objects were outdated.
    async fn apply_children(
        &self,
        context: &ReconcileContext<AppDeploy>,
        valid: &Valid<'_>,
    ) -> Result<Vec<Failure>, Error> {
        let mut wanted = render(self.stores.children.kinds(), valid);
        let conflict = match self.stores.reserve_host(&context.key) {
            Ok(others) => {
                self.wake(others);
                None
            }
            Err(lost) => {
                let (claim, rival) = *lost;
                wanted.retain(|kind| !kind.serves_hosts);
                Some(host::host_conflict(&claim, &rival))
            }
        };
        let observed = self.observe(&context.key);
        let doubts = self.record_owned(context, valid, &observed);
        let Plan {
            actions,
            mut failures,
            other_scaler,
        } = plan(valid, &wanted, &observed);
        failures.extend(conflict);
        let mut actions = VecDeque::from(actions);
        let is_undone = |action: &Action| {
            let hash = content_hash(action);
            let is_repeated = self
                .states
                .with(&context.key, |state| state.child_writes.is_repeated(action.id(), hash));
            is_repeated.unwrap_or_default()
        };
        if actions.iter().any(is_undone) && !self.status_writer.may_rewrite(context).await {
            actions.retain(|action| !is_undone(action));
        }
        let creates = actions.iter().any(|action| matches!(action, Action::Create { .. }));
        if doubts.lost && creates || doubts.unverified && !actions.is_empty() {
            match self.status_writer.verify_owner(context).await {
                Ok(OwnerState::Same) => self.states.owner_verified(&context.key),
                Ok(OwnerState::Changed) => return Err(Error::Stale),
                Ok(OwnerState::Gone) => return Err(Error::Deleted),
                Err(failure) => {
                    failures.push(failure);
                    actions.clear();
                }
            }
        }
        let applier = Applier {
            caller: &self.caller,
            stores: &self.stores,
            app: &context.key,
            uid: &valid.uid,
        };
        while let Some(action) = actions.pop_front() {
            let target = action.kind().routes_to.map(|kind| ChildId::new(kind, &valid.name));
            let target = target.and_then(|target| self.stores.children.get(&valid.namespace, &target));
            if !may_write(&action, &valid.uid, target.as_deref()) {
                continue;
            }
            if let Action::Delete { uid, .. } = &action {
                self.states.expect_deletion(&context.key, uid);
            }
            let (id, written) = (action.id().clone(), content_hash(&action));
            match self.execute(&applier, action).await {
                Ok(Outcome::Done) => {
                    self.states
                        .with(&context.key, |state| state.child_writes.written(id, written));
                }
                Ok(Outcome::Stale) => return Err(Error::Stale),
                Err(failure) => {
                    // A server that does not answer would not answer the next request, either. A webhook may be called for one kind only.
                    let lost = matches!(failure, Failure::Unavailable { .. }) && !failure.is_of_a_webhook();
                    actions.extend(deletions_after(&failure, valid, &observed));
                    failures.push(failure);
                    if lost {
                        break;
                    }
                }
            }
        }
        if let Some(rival) = other_scaler {
            self.warn_of_rival(&context.object, &rival).await;
        }
        self.record_owned(context, valid, &self.observe(&context.key));
        Ok(failures)
    }

    /// Carries out one write. The host of an Ingress stays reserved until the result is known.
    async fn execute(&self, applier: &Applier<'_>, action: Action) -> Result<Outcome, Failure> {
        let gives_host = action.kind().serves_hosts && !matches!(action, Action::Delete { .. });
        if gives_host {
            self.stores.begin_ingress_write(applier.app);
        }
        let result = applier.execute(action).await;
        if gives_host && !matches!(result, Err(Failure::Unavailable { .. })) {
            self.stores.end_ingress_write(applier.app);
        }
        result
    }

    /// Records which children exist, and returns why the app must be re-read before they are changed.
    fn record_owned(&self, context: &ReconcileContext<AppDeploy>, valid: &Valid<'_>, observed: &Observed) -> Doubts {
        let children = observed.children.iter().map(|(_, child)| child);
        let children = children.filter(|child| child.is_controlled_by(&valid.uid) && !child.deleting);
        let children = children.map(|child| &*child.uid);
        let has_status = context.object.status.is_some();
        self.states
            .record_owned(&context.key, has_status, Present::new(children))
    }

    async fn warn_of_rival(&self, app: &AppDeploy, rival: &str) {
        let name = app.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "{rival} has scaled Deployment {name}, which was undone: the number of pods is spec.replicas of AppDeploy \
             {name}. A HorizontalPodAutoscaler works if its scaleTargetRef is AppDeploy {name}"
        );
        self.status_writer.warn(app, "ScaledByAnother", &message).await;
    }
}

/// Returns a hash of the child that an action writes.
fn content_hash(action: &Action) -> u64 {
    match action {
        Action::Create { object, .. } | Action::Apply { object, .. } => stable_hash(object),
        Action::Delete { .. } => 0,
    }
}
