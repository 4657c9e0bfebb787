//! Carries out a plan: the only place that writes children.

use std::future::Future;

use http::Request as HttpRequest;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{DynamicObject, Request, Status, response::reason};
use model::plan::{our_ports_alone, taken};
use model::{Action, ChildKind, Failure, observed};
use serde_json::Value;
use tokio::time::timeout;
use tracing::{debug, info};

use crate::client::DEADLINE;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::watch::chain;
use crate::world::{World, child};

/// What became of one write.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// The world was not as it was believed to be. What is known was set right: look again.
    Again,
}

/// What a write needs.
pub struct Performer<'a> {
    /// The connection.
    pub client: &'a Client,
    /// Where answers are taken in.
    pub world: &'a World,
    /// Where writes are counted.
    pub metrics: &'a Metrics,
    /// The application.
    pub app: &'a Key,
    /// Its identity.
    pub uid: &'a str,
}

/// Why a request failed.
#[derive(Debug)]
pub enum CallError {
    /// The API server said no.
    Refused(Box<Status>),
    /// There was no answer, or none that could be understood.
    Lost(String),
}

/// Waits for an answer, but not for longer than [`DEADLINE`].
///
/// # Errors
/// Says whether the API server refused, or did not answer.
pub async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match timeout(DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(CallError::Refused(status)),
        Ok(Err(error)) => Err(CallError::Lost(chain(&error))),
        Err(_) => Err(CallError::Lost(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
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
            Action::Apply {
                object, fold, because, ..
            } => {
                info!(app = %self.app, kind = kind.as_str(), because, "applying");
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
        let request = self.collection(kind).create(&params, object.to_string().into_bytes());
        match self.write("create", kind, request).await {
            Ok(created) => {
                info!(app = %self.app, kind = kind.as_str(), "created");
                self.take_in(kind, &created);
                Ok(Outcome::Done)
            }
            Err(CallError::Refused(status)) if status.is_already_exists() => self.who_has_the_name(kind).await,
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
            debug!(app = %self.app, kind = kind.as_str(), "folding the fields of the create into those of the apply");
            let patch = serde_json::from_value(patch).map_err(|error| self.lost("fold", kind, &error.to_string()))?;
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
            info!(app = %self.app, kind = kind.as_str(), "a port was given another number; taking it away");
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
            Ok(_) => {
                info!(app = %self.app, kind = kind.as_str(), "deleted what is no longer wanted");
                self.world.children(kind).cache.forget(self.app);
                Ok(Outcome::Done)
            }
            Err(CallError::Refused(status)) if status.is_not_found() || status.is_conflict() => Ok(self.gone(kind)),
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
        let request = request.map_err(|error| CallError::Lost(error.to_string()))?;
        self.metrics.request(verb, kind.resource());
        call(self.client.request(request)).await
    }

    fn collection(&self, kind: ChildKind) -> Request {
        let namespace = &self.app.namespace;
        Request::new(match kind {
            ChildKind::Deployment => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            ChildKind::Service => format!("/api/v1/namespaces/{namespace}/services"),
            ChildKind::Ingress => format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"),
        })
    }

    fn failure(&self, verb: &str, kind: ChildKind, error: CallError) -> Failure {
        match error {
            CallError::Lost(why) => self.lost(verb, kind, &why),
            CallError::Refused(status) => refusal(kind, &self.app.name, verb, &status),
        }
    }

    fn lost(&self, verb: &str, kind: ChildKind, why: &str) -> Failure {
        Failure::Unavailable {
            what: format!("{verb} {kind} {}", self.app.name),
            why: why.to_owned(),
        }
    }
}

fn by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(crd::FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// Whether an apply was refused because a port of ours would stand beside the one that somebody made of it.
fn is_duplicate_port(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid() && causes.any(|cause| cause.reason == "FieldValueDuplicate" && cause.field.contains("ports["))
}

/// Tells an answer about the object from an answer about our rights and from one about the server.
fn refusal(kind: ChildKind, name: &str, verb: &str, status: &Status) -> Failure {
    let message = status.message.clone();
    let terminating = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|c| c.reason == "NamespaceTerminating");
    if terminating {
        return Failure::NamespaceTerminating;
    }
    match status.code {
        // "User … cannot create resource …" is an access rule; any other 403 comes from admission.
        403 if message.contains("cannot ") && message.contains(" resource ") => Failure::Forbidden(message),
        400 | 403 | 413 | 422 => Failure::Rejected {
            kind: kind.as_str(),
            name: name.to_owned(),
            message,
        },
        _ => Failure::Unavailable {
            what: format!("{verb} {kind} {name}"),
            why: message,
        },
    }
}

/// An apply with the UID of an object that was deleted is a conflict, and of one that was replaced by a namesake
/// invalid in that very field.
fn is_another_uid(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let says = |words: &str| status.message.contains(words);
    (status.reason == reason::CONFLICT && (says("uid mismatch") || says("UID in precondition")))
        || (status.is_invalid() && causes.any(|cause| cause.field == "metadata.uid"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(code: u16, message: &str) -> Status {
        serde_json::from_value(json!({"code": code, "message": message, "status": "Failure"})).unwrap()
    }

    #[test]
    fn a_missing_right_is_told_from_a_refusal_of_the_object() {
        let rbac = status(
            403,
            "services is forbidden: User \"x\" cannot create resource \"services\" in API group \"\"",
        );
        let quota = status(403, "services \"web\" is forbidden: exceeded quota: small");
        assert!(matches!(
            refusal(ChildKind::Service, "web", "create", &rbac),
            Failure::Forbidden(_)
        ));
        assert!(matches!(
            refusal(ChildKind::Service, "web", "create", &quota),
            Failure::Rejected { .. }
        ));
    }

    #[test]
    fn a_server_in_trouble_is_no_verdict_on_the_object() {
        for code in [409, 429, 500, 503, 504] {
            let failure = refusal(ChildKind::Service, "web", "create", &status(code, "later"));
            assert!(matches!(failure, Failure::Unavailable { .. }), "{code}");
        }
    }

    #[test]
    fn a_terminating_namespace_is_no_rejection() {
        let status: Status = serde_json::from_value(
            json!({"code": 403, "message": "forbidden: unable to create new content",
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace x is being terminated"}]}}),
        )
        .unwrap();
        assert_eq!(
            refusal(ChildKind::Service, "web", "create", &status),
            Failure::NamespaceTerminating
        );
    }

    #[test]
    fn a_name_that_contains_uid_is_no_other_identity() {
        let refused: Status = serde_json::from_value(json!({"code": 422, "reason": "Invalid",
            "message": "Deployment.apps \"squid\" is invalid: spec.replicas: Invalid value: -1",
            "details": {"causes": [{"reason": "FieldValueInvalid", "message": "Invalid value: -1", "field": "spec.replicas"}]}}))
        .unwrap();
        assert!(!is_another_uid(&refused));
        let replaced: Status = serde_json::from_value(json!({"code": 422, "reason": "Invalid", "message": "…",
            "details": {"causes": [{"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}]}}))
        .unwrap();
        assert!(is_another_uid(&replaced));
    }
}
