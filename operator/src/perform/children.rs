//! Carries out the plan of an application: writes to its Deployment, Service and Ingress.

use http::Request as HttpRequest;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{DynamicObject, Request, Status};
use model::plan::{our_ports_alone, taken};
use model::{Action, ChildKind, Failure, observed};
use serde_json::Value;
use tracing::{debug, info};

use super::Outcome;
use crate::call::{CallError, Caller, about, by_us, is_another_uid};
use crate::key::Key;
use crate::seeded::{self, Bug};
use crate::world::{World, child};

/// What the write of a child needs.
pub struct Performer<'a> {
    /// Who sends it.
    pub caller: &'a Caller,
    /// Where answers are taken in.
    pub world: &'a World,
    /// The application.
    pub app: &'a Key,
    /// Its identity.
    pub uid: &'a str,
}

impl Performer<'_> {
    /// Carries out one write and takes in the answer.
    ///
    /// # Errors
    /// Says what stands in the way, as the status of the application tells it.
    pub async fn perform(&self, action: Action) -> Result<Outcome, Failure> {
        let kind = action.kind();
        match action {
            Action::Create { object, .. } => self.create(kind, &object).await,
            Action::Apply { .. } if seeded::is(Bug::DriftIgnored) => Ok(Outcome::Done),
            Action::Apply {
                object, fold, because, ..
            } => {
                info!(child = kind.as_str(), because, "applying");
                self.apply(kind, &object, fold.map(|fold| fold.patch)).await
            }
            Action::Delete { uid, .. } => self.delete(kind, &uid).await,
        }
    }

    async fn create(&self, kind: ChildKind, object: &Value) -> Result<Outcome, Failure> {
        let params = PostParams {
            field_manager: Some(crd::FIELD_MANAGER.into()),
            dry_run: false,
        };
        let sent = seeded::created(object).to_string();
        let request = self.collection(kind).create(&params, sent.into_bytes());
        match self.write("create", kind, request).await {
            Ok(created) => {
                info!(child = kind.as_str(), "created");
                self.take_in(kind, &created);
                Ok(Outcome::Done)
            }
            Err(CallError::Refused(status)) if status.is_already_exists() && seeded::is(Bug::TakesForeign) => {
                self.apply(kind, object, None).await
            }
            Err(CallError::Refused(status)) if status.is_already_exists() => self.who_has_the_name(kind).await,
            Err(CallError::Lost(_)) if seeded::is(Bug::LostIsDone) => Ok(Outcome::Done),
            Err(error) => Err(self.failure("create", kind, error)),
        }
    }

    /// A name that we thought was free is taken. If the object is ours (it had lost the label by which we find
    /// it, or our own create was committed although its answer was lost), it is taken in. If not, it is left
    /// exactly as it is.
    async fn who_has_the_name(&self, kind: ChildKind) -> Result<Outcome, Failure> {
        let request = self.collection(kind).get(&self.app.name, &GetParams::default());
        match self.write("get", kind, request).await {
            Ok(found) => match observed::controller(&found.metadata) {
                Some((_, uid)) if uid == self.uid => {
                    self.take_in(kind, &found);
                    Ok(Outcome::Again)
                }
                _ => Err(taken(kind, &self.app.name, &child(kind, &found).value)),
            },
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(Outcome::Again),
            Err(error) => Err(self.failure("get", kind, error)),
        }
    }

    async fn apply(&self, kind: ChildKind, object: &Value, fold: Option<Value>) -> Result<Outcome, Failure> {
        if let Some(patch) = fold {
            debug!(
                child = kind.as_str(),
                "folding the fields of the create into those of the apply"
            );
            let patch = serde_json::from_value(patch)
                .map_err(|error| self.failure("fold", kind, CallError::Lost(error.to_string())))?;
            let request = self
                .collection(kind)
                .patch(&self.app.name, &by_us(), &Patch::Json::<()>(patch));
            match self.write("patch", kind, request).await {
                Ok(_) => {}
                Err(CallError::Refused(status)) if status.is_not_found() => return Ok(self.gone(kind)),
                // A test of the patch failed: the entries have moved, or it is another object. Look at it.
                Err(CallError::Refused(status)) if status.code == 422 => return self.who_has_the_name(kind).await,
                Err(error) => return Err(self.failure("patch", kind, error)),
            }
        }
        let mut answer = self.send_apply(kind, object).await;
        if let Err(CallError::Refused(status)) = &answer
            && is_duplicate_port(status)
            && let Some(patch) = our_ports_alone(kind, object)
        {
            info!(child = kind.as_str(), "a port was given another number; taking it away");
            let request = self
                .collection(kind)
                .patch(&self.app.name, &by_us(), &Patch::Strategic(&patch));
            answer = match self.write("patch", kind, request).await {
                Ok(_) => self.send_apply(kind, object).await,
                Err(error) => Err(error),
            };
        }
        match answer {
            Ok(applied) => {
                self.take_in(kind, &applied);
                Ok(Outcome::Done)
            }
            // The object that we meant is gone, whether or not a namesake took its place.
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => Ok(self.gone(kind)),
            Err(error) => Err(self.failure("patch", kind, error)),
        }
    }

    async fn send_apply(&self, kind: ChildKind, object: &Value) -> Result<DynamicObject, CallError> {
        let params = PatchParams::apply(crd::FIELD_MANAGER).force().validation_strict();
        let request = self
            .collection(kind)
            .patch(&self.app.name, &params, &Patch::Apply(object));
        self.write("patch", kind, request).await
    }

    async fn delete(&self, kind: ChildKind, uid: &str) -> Result<Outcome, Failure> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        // The answer is a Status, or the object where a finalizer keeps it. Either way the watch tells its end.
        match self
            .write("delete", kind, self.collection(kind).delete(&self.app.name, &params))
            .await
        {
            Ok(answer) => {
                info!(child = kind.as_str(), "deleted what is no longer wanted");
                let cache = &self.world.children(kind).cache;
                if answer.metadata.uid.as_deref() == Some(uid) && answer.metadata.deletion_timestamp.is_some() {
                    // It is still there, and an Ingress still serves its host.
                    cache.upsert_known(child(kind, &answer));
                } else {
                    cache.forget(self.app);
                }
                Ok(Outcome::Done)
            }
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => Ok(self.gone(kind)),
            Err(error) => Err(self.failure("delete", kind, error)),
        }
    }

    fn gone(&self, kind: ChildKind) -> Outcome {
        self.world.children(kind).cache.forget(self.app);
        Outcome::Again
    }

    fn take_in(&self, kind: ChildKind, object: &DynamicObject) {
        self.world.children(kind).cache.upsert(child(kind, object));
    }

    async fn write(
        &self,
        verb: &'static str,
        kind: ChildKind,
        request: Result<HttpRequest<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<DynamicObject, CallError> {
        let answer = self.caller.send(verb, kind.resource(), request).await?;
        // A delete is answered by a Status, which has no name.
        if verb == "delete" {
            return Ok(answer);
        }
        about(&self.app.name, answer)
    }

    fn failure(&self, verb: &str, kind: ChildKind, error: CallError) -> Failure {
        error.failure(verb, kind.as_str(), &self.app.name)
    }

    fn collection(&self, kind: ChildKind) -> Request {
        collection(self.app, kind)
    }
}

/// Reads the Ingress of an application from the API server, and takes in what it answers.
///
/// # Errors
/// Says why it could not be read.
pub async fn read_ingress(caller: &Caller, world: &World, app: &Key) -> Result<(), Failure> {
    let kind = ChildKind::Ingress;
    let request = collection(app, kind).get(&app.name, &GetParams::default());
    let answer = caller.send("get", kind.resource(), request).await;
    match answer.and_then(|found| about(&app.name, found)) {
        Ok(found) => {
            let found = child(kind, &found);
            // Also that of a predecessor, which serves until the garbage collector has removed it.
            if found.value.is_of_app(&app.name) {
                world.children(kind).cache.upsert(found);
            }
            Ok(())
        }
        // The watch reports when one that is cached was deleted.
        Err(CallError::Refused(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.failure("get", kind.as_str(), &app.name)),
    }
}

fn collection(app: &Key, kind: ChildKind) -> Request {
    let namespace = seeded::namespace(&app.namespace);
    Request::new(match kind {
        ChildKind::Deployment => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        ChildKind::Service => format!("/api/v1/namespaces/{namespace}/services"),
        ChildKind::Ingress => format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"),
    })
}

/// Whether an apply was refused because a port of ours would stand beside the one that somebody made of it.
fn is_duplicate_port(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid() && causes.any(|cause| cause.reason == "FieldValueDuplicate" && cause.field.contains("ports["))
}
