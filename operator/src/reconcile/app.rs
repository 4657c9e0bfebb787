//! The controller of AppDeploys: observes, validates, renders, plans and applies the children, and writes the status.

mod children;
mod informers;

use std::sync::Arc;

use async_trait::async_trait;
use crd::{AppDeploy, AppDeployStatus};
use model::admit::{Admitted as _, without_review};
use model::config_maps;
use model::status::{StatusOptions, changes_in, event_query};
use model::{Failure, Invalid, Observed, Valid, host, status, validate};
use tracing::warn;

use super::config_maps::ConfigMapReader;
use super::status_writer::{ReconcileContext, StatusUpdate, StatusWriter};
use super::stored::ready_states;
use crate::apply::children::read_ingress;
use crate::call::Caller;
use crate::controller::Controller;
use crate::deps::Deps;
use crate::informer::Informer;
use crate::key::Key;
use crate::object_state::ObjectStates;
use crate::object_state::owned_objects::Present;
use crate::object_state::retry::Retries;
use crate::primary::{Primary as _, ReadyState, Root};
use crate::queue::Queue;
use crate::result::{Error, ReconcileResult, Requeue};
use crate::settings::IngressAddress;
use crate::stores::Stores;

/// Reconciles AppDeploys.
pub struct Reconciler {
    /// Sends requests.
    pub caller: Caller,
    /// The caches.
    pub stores: Arc<Stores>,
    /// Options of the status.
    pub options: StatusOptions,
    /// The allowed suffixes of hosts; empty if any host is allowed.
    pub host_suffixes: Vec<String>,
    /// Whether fields that need the right to create pods are accepted.
    pub accepts_gated_fields: bool,
    /// Reads ConfigMaps whose changes restart pods.
    config_maps: ConfigMapReader<AppDeploy>,
    /// Writes statuses.
    pub status_writer: StatusWriter<AppDeploy>,
    /// The state of each app between reconciles.
    states: Arc<ObjectStates<AppDeployStatus>>,
    queue: Arc<Queue<Key>>,
}

impl Reconciler {
    /// Creates the controller.
    #[must_use]
    pub fn new(deps: &Deps) -> Self {
        let queue = Arc::new(deps.metrics.queue(AppDeploy::NAMES.singular));
        let states = Arc::new(ObjectStates::default());
        Self {
            caller: deps.caller.clone(),
            stores: deps.stores.clone(),
            options: StatusOptions {
                needs_address: deps.settings.ingress_address == IngressAddress::Require,
            },
            host_suffixes: deps.settings.allowed_host_suffix.clone(),
            accepts_gated_fields: deps.settings.accepts_gated_fields(),
            config_maps: ConfigMapReader::new(
                crd::Kind::AppDeploy,
                deps.caller.clone(),
                deps.stores.clone(),
                states.clone(),
                deps.settings.watch_configmaps,
            ),
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
        AppDeploy::NAMES.kind
    }

    fn name(&self) -> &'static str {
        AppDeploy::NAMES.singular
    }

    fn queue(&self) -> &Arc<Queue<Key>> {
        &self.queue
    }

    fn retries(&self) -> &dyn Retries {
        &*self.states
    }

    fn informers(&self) -> Vec<Informer> {
        let mut all = informers::all(&self.stores, &self.queue);
        if self.config_maps.is_watched {
            all.push(informers::config_maps(&self.stores));
        }
        all
    }

    fn is_new(&self, key: &Key) -> bool {
        match self.stores.apps.cache.get(key) {
            Some(Root::Readable(app)) => is_new(&app),
            Some(Root::Unreadable { .. }) => false,
            // It was new, and was deleted.
            None => true,
        }
    }

    fn keys(&self) -> Vec<Key> {
        self.stores.apps.cache.keys()
    }

    fn ready_states(&self) -> Vec<ReadyState> {
        ready_states::<AppDeploy>(&self.stores)
    }

    /// Applies the children of an app, and writes its status.
    async fn reconcile(&self, key: Key) -> ReconcileResult {
        let verified = self.verify_host(&key).await;
        let Some(context) = self.status_writer.begin(key.clone()) else {
            // It was deleted. Its children are garbage-collected.
            self.release_host(&key);
            self.config_maps.forget(&key);
            return verified.map_or(Err(Error::Failed), |()| Ok(Requeue::Done));
        };
        let (app, outdated) = self.config_maps.refresh(&context).await;
        let app = &*app;
        let valid = match &context.unreadable {
            Some(why) => Err(why.failure()),
            None => validate(app)
                .map_err(Failure::from)
                .map(|valid| Valid {
                    served: self.stores.children.served(),
                    ..valid
                })
                .and_then(|valid| self.validate_host(valid))
                .and_then(|valid| self.validate_gated_fields(valid))
                .and_then(|valid| self.validate_config_maps(valid)),
        };
        let failures = match &valid {
            Err(failure) => vec![failure.clone()],
            Ok(_) if app.metadata.deletion_timestamp.is_some() => Vec::new(),
            Ok(_) if verified.is_err() => Vec::new(),
            Ok(valid) => match self.apply_children(&context, valid).await {
                Ok(failures) => failures.into_iter().chain(outdated).collect(),
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
                let observed = self.observe(&context);
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

/// Whether an app was never reconciled to its end. Its children are created, which is rejected if they exist.
fn is_new(app: &AppDeploy) -> bool {
    app.status.is_none() && app.metadata.deletion_timestamp.is_none()
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

    /// Rejects fields that need the right to create pods if no webhook reviews it.
    fn validate_gated_fields<'a>(&self, valid: Valid<'a>) -> Result<Valid<'a>, Failure> {
        if !self.accepts_gated_fields {
            without_review(valid.pod, AppDeploy::POD)?;
        }
        Ok(valid)
    }

    /// Rejects restarts after changes of ConfigMaps if these are not watched.
    fn validate_config_maps<'a>(&self, valid: Valid<'a>) -> Result<Valid<'a>, Failure> {
        config_maps::check(valid.pod, AppDeploy::POD, self.config_maps.is_watched)?;
        Ok(valid)
    }

    /// Returns the cached children and surroundings of an app.
    fn observe(&self, context: &ReconcileContext<AppDeploy>) -> Observed {
        let mut observed = self.stores.observe(&context.key, is_new(&context.object));
        self.states.add_probe_events(&context.key, observed.pods.iter_mut());
        let dropped = self
            .states
            .with(&context.key, |state| state.child_writes.dropped().to_vec());
        observed.dropped = dropped.unwrap_or_default();
        observed
    }

    /// Records which children exist, and returns whether the app must be re-read before one is created.
    fn record_owned(&self, context: &ReconcileContext<AppDeploy>, valid: &Valid<'_>, observed: &Observed) -> bool {
        let children = observed.children.iter().map(|(_, child)| child);
        let children = children.filter(|child| child.is_controlled_by(&valid.uid) && !child.deleting);
        let children = children.map(|child| child.uid.to_string());
        let has_status = context.object.status.is_some();
        self.states
            .record_owned(&context.key, has_status, Present::new(children))
    }
}
