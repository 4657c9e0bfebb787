//! Applies the children of an app.

use std::collections::VecDeque;

use crd::AppDeploy;
use model::children::DroppedFields;
use model::desired::{desired_hash, render};
use model::plan::{deletions_after, target};
use model::{Action, ChildId, Desired, Failure, Observed, Plan, Valid, host, plan};
use tracing::warn;

use super::super::status_writer::{OwnerState, ReconcileContext};
use super::Reconciler;
use crate::apply::Outcome;
use crate::apply::children::Applier;
use crate::result::Error;

impl Reconciler {
    /// Writes the children that differ from the desired ones, and returns what failed.
    ///
    /// # Errors
    /// Returns an error if the reconcile must end, because cached objects were outdated.
    pub(super) async fn apply_children(
        &self,
        context: &ReconcileContext<AppDeploy>,
        valid: &Valid<'_>,
    ) -> Result<Vec<Failure>, Error> {
        let (desired, conflict) = self.desired_children(context, valid);
        let observed = self.observe(context);
        let lost = self.record_owned(context, valid, &observed);
        let Plan {
            actions,
            mut failures,
            other_scaler,
        } = plan(valid, &desired, &observed);
        failures.extend(conflict);
        let actions = self.limit_rewrites(context, actions).await;
        let has_writes = !actions.is_empty();
        match self.verify_owner(context, lost, &actions).await? {
            Ok(()) => failures.extend(self.execute_all(context, valid, &observed, actions).await?),
            Err(failure) => failures.push(failure),
        }
        if let Some(manager) = other_scaler {
            self.warn_of_scaler(&context.object, &manager).await;
        }
        // Without a write, the children are those that were recorded above.
        if has_writes {
            self.record_owned(context, valid, &self.observe(context));
        }
        Ok(failures)
    }

    /// Renders the children of an app, and reserves its host. If another app has the host, the children that would serve it
    /// are left out, and the conflict is returned.
    fn desired_children(&self, context: &ReconcileContext<AppDeploy>, valid: &Valid<'_>) -> (Desired, Option<Failure>) {
        let mut desired = render(self.stores.children.kinds(), valid);
        match self.stores.reserve_host(&context.key) {
            Ok(others) => {
                self.wake(others);
                (desired, None)
            }
            Err(conflict) => {
                let (claim, blocking) = *conflict;
                desired.retain(|kind| !kind.serves_hosts);
                (desired, Some(host::host_conflict(&claim, &blocking)))
            }
        }
    }

    /// Leaves out writes that another client has reverted, unless they may be repeated now.
    async fn limit_rewrites(&self, context: &ReconcileContext<AppDeploy>, mut actions: Vec<Action>) -> Vec<Action> {
        let is_rewrite = |action: &Action| {
            let hash = content_hash(action);
            let is_repeated = self
                .states
                .with(&context.key, |state| state.child_writes.is_repeated(action.id(), hash));
            is_repeated.unwrap_or_default()
        };
        if actions.iter().any(is_rewrite) && !self.status_writer.may_rewrite(context).await {
            actions.retain(|action| !is_rewrite(action));
        }
        actions
    }

    /// Reads the app from the API server before a child is created, if children were `lost`: the app may have been deleted. The inner
    /// error is the reason why it could not be read; then no action must be executed.
    ///
    /// # Errors
    /// Returns an error if the app has changed or was deleted.
    async fn verify_owner(
        &self,
        context: &ReconcileContext<AppDeploy>,
        lost: bool,
        actions: &[Action],
    ) -> Result<Result<(), Failure>, Error> {
        if !lost || !actions.iter().any(is_create) {
            return Ok(Ok(()));
        }
        match self.status_writer.verify_owner(context).await {
            Ok(OwnerState::Same) => {
                self.states.owner_verified(&context.key);
                Ok(Ok(()))
            }
            Ok(OwnerState::Changed) => Err(Error::Stale),
            Ok(OwnerState::Gone) => Err(Error::Deleted),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Executes actions in their order, and returns what failed. A failure can add deletions, and the loss of the API server
    /// skips the rest.
    ///
    /// # Errors
    /// Returns an error if a cached child was outdated.
    async fn execute_all(
        &self,
        context: &ReconcileContext<AppDeploy>,
        valid: &Valid<'_>,
        observed: &Observed,
        actions: Vec<Action>,
    ) -> Result<Vec<Failure>, Error> {
        let applier = Applier {
            caller: &self.caller,
            stores: &self.stores,
            app: &context.key,
            uid: &valid.uid,
            queue: &self.queue,
        };
        let mut actions = VecDeque::from(actions);
        let mut failures = Vec::new();
        while let Some(action) = actions.pop_front() {
            let is_ours = |target: ChildId| {
                let child = self.stores.children.get(&valid.namespace, &target);
                child.is_some_and(|child| child.is_controlled_by(&valid.uid))
            };
            if !target(&action, valid).is_none_or(is_ours) {
                continue;
            }
            if let Action::Delete { uid, .. } = &action {
                self.states.expect_deletion(&context.key, uid);
            }
            let (id, written) = (action.id().clone(), content_hash(&action));
            match self.execute(&applier, action).await {
                Ok(Outcome::Done { dropped: paths }) => {
                    let dropped = DroppedFields {
                        id,
                        content: written,
                        paths,
                    };
                    self.note_write(context, dropped).await;
                }
                Ok(Outcome::Stale) => return Err(Error::Stale),
                Err(failure) => {
                    // The next request would not be answered, either. A webhook that does not answer may be for one kind only.
                    let is_unreachable = matches!(failure, Failure::Unavailable { .. }) && !failure.is_of_a_webhook();
                    actions.extend(deletions_after(&failure, valid, observed));
                    failures.push(failure);
                    if is_unreachable {
                        break;
                    }
                }
            }
        }
        Ok(failures)
    }

    /// Records a write that has succeeded. An Event reports fields that the API server has not stored, once.
    async fn note_write(&self, context: &ReconcileContext<AppDeploy>, dropped: DroppedFields) {
        let message = (!dropped.paths.is_empty()).then(|| dropped.message());
        let is_news = self.states.with(&context.key, |state| {
            state.child_writes.written(dropped.id.clone(), dropped.content);
            state.child_writes.set_dropped(dropped)
        });
        if let (Some(true), Some(message)) = (is_news, message) {
            warn!(message, "fields were not stored, and are not written again");
            self.status_writer
                .warn(&context.object, "FieldsDropped", &message)
                .await;
        }
    }

    /// Executes one action. The host of an Ingress stays reserved until the result is known.
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

    /// Creates an Event about a client that scales the Deployment of an app.
    async fn warn_of_scaler(&self, app: &AppDeploy, manager: &str) {
        let name = app.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "{manager} has scaled Deployment {name}, and the operator has reverted this: the number of pods is spec.replicas of \
             AppDeploy {name}. A HorizontalPodAutoscaler works if its scaleTargetRef is AppDeploy {name}"
        );
        self.status_writer.warn(app, "ScaledByAnother", &message).await;
    }
}

fn is_create(action: &Action) -> bool {
    matches!(action, Action::Create { .. })
}

/// Returns the hash of the child that an action writes.
fn content_hash(action: &Action) -> u64 {
    match action {
        Action::Create { object, .. } | Action::Change { object, .. } => desired_hash(object),
        Action::Delete { .. } => 0,
    }
}
