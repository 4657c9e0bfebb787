//! Carries out the plan of an application: writes to its children.

use std::sync::Arc;

use http::{HeaderValue, Request as HttpRequest, header};
use hyper::body::Bytes;
use kube::api::{DeleteParams, GetParams, Patch, PostParams, Preconditions, PropagationPolicy};
use kube::core::{Request, Status, request};
use model::children::INGRESS;
use model::digest::missing;
use model::plan::Means;
use model::plan::{name_conflict, ports_patch, recreate_patch};
use model::unstored::without_undeclared;
use model::{Action, Child, ChildId, ChildKind, Failure};
use serde_json::Value;
use tracing::{debug, info};

use super::Outcome;
use crate::cache::{Cache, Item};
use crate::call::{CallError, Caller, about, applied_by_us, by_us, is_another_uid};
use crate::key::Key;
use crate::protobuf;
use crate::queue::Queue;
use crate::reduced::{Outcome as Reducing, Parts, Reduced};
use crate::stores::children::{ChildObject, reading};
use crate::stores::{Store, Stores};

/// Writes the children of one app.
pub struct Applier<'a> {
    /// Sends the requests.
    pub caller: &'a Caller,
    /// Where answers are stored.
    pub stores: &'a Stores,
    /// The app.
    pub app: &'a Key,
    /// Its UID.
    pub uid: &'a str,
    /// The queue of apps.
    pub queue: &'a Queue<Key>,
}

impl Applier<'_> {
    /// Carries out one write and stores the answer.
    ///
    /// # Errors
    /// Returns the failure that the status reports.
    pub async fn execute(&self, action: Action) -> Result<Outcome, Failure> {
        match action {
            Action::Create { id, object } => self.create(&id, &object).await,
            Action::Change {
                id,
                object,
                means,
                because,
            } => {
                info!(child = id.kind.as_str(), because, "changing");
                match means {
                    Means::Apply => self.apply(&id, &object, None).await,
                    Means::FoldAndApply(fold) => self.apply(&id, &object, Some(fold.patch)).await,
                    Means::Patch(patch) => {
                        let answer = self.send_patch(&id, &patch).await;
                        self.changed(&id, &object, answer)
                    }
                }
            }
            Action::Delete { id, uid } => self.delete(&id, &uid).await,
        }
    }

    async fn create(&self, id: &ChildId, object: &Value) -> Result<Outcome, Failure> {
        let params = PostParams {
            field_manager: Some(crd::FIELD_MANAGER.into()),
            dry_run: false,
        };
        let body = serde_json::to_vec(object).map_err(request::Error::SerializeBody);
        let request = body.and_then(|body| self.collection(id).create(&params, body));
        match self.write("create", id, request).await {
            Ok(created) => {
                info!(child = id.kind.as_str(), "created");
                Ok(self.stored(id, object, created))
            }
            Err(CallError::Refused(status)) if status.is_already_exists() => self.read_name_owner(id).await,
            Err(error) => Err(failure("create", id, error)),
        }
    }

    /// Reads an object whose name was expected to be free. If it is ours (it had lost the label by which the watch selects, or
    /// the answer to its creation was lost), it is stored. Otherwise it stays as it is.
    async fn read_name_owner(&self, id: &ChildId) -> Result<Outcome, Failure> {
        let request = self.collection(id).get(&id.name, &GetParams::default());
        match self.write("get", id, request).await {
            Ok(found) if found.child.value.is_controlled_by(self.uid) => {
                self.cache(id).upsert(found.child);
                Ok(Outcome::Stale)
            }
            Ok(found) => Err(name_conflict(id, &self.app.name, &found.child.value)),
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(Outcome::Stale),
            Err(error) => Err(failure("get", id, error)),
        }
    }

    async fn apply(&self, id: &ChildId, object: &Value, fold: Option<Value>) -> Result<Outcome, Failure> {
        if let Some(patch) = fold {
            debug!(
                child = id.kind.as_str(),
                "folding the fields of the create into those of the apply"
            );
            let patch = serde_json::from_value(patch)
                .map_err(|error| failure("fold", id, CallError::Lost(error.to_string())))?;
            let request = self.collection(id).patch(&id.name, &by_us(), &Patch::Json::<()>(patch));
            match self.write("patch", id, request).await {
                Ok(_) => {}
                Err(CallError::Refused(status)) if status.is_not_found() => return Ok(self.forget(id)),
                // A test of the patch failed: the entries have moved, or it is another object. Read it.
                Err(CallError::Refused(status)) if status.code == 422 => return self.read_name_owner(id).await,
                Err(error) => return Err(failure("patch", id, error)),
            }
        }
        let mut answer = self.send_apply(id, object).await;
        if let Err(CallError::Refused(status)) = &answer
            && let Some(patch) = patch_before(status, id.kind, object)
        {
            answer = match self.send_patch(id, &patch).await {
                Ok(_) => self.send_apply(id, object).await,
                Err(error) => Err(error),
            };
        }
        if let Err(CallError::Refused(status)) = &answer
            && let Some(known) = without_undeclared(object, &status.message)
        {
            info!(
                child = id.kind.as_str(),
                "leaving out fields that the API server does not know"
            );
            answer = self.send_apply(id, &known).await;
        }
        self.changed(id, object, answer)
    }

    /// Stores the answer to a change.
    fn changed(&self, id: &ChildId, object: &Value, answer: Result<Answer, CallError>) -> Result<Outcome, Failure> {
        match answer {
            Ok(changed) => Ok(self.stored(id, object, changed)),
            // The object was deleted, whether or not another one has its name now.
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => Ok(self.forget(id)),
            Err(error) => Err(failure("patch", id, error)),
        }
    }

    async fn send_patch(&self, id: &ChildId, patch: &Value) -> Result<Answer, CallError> {
        let request = self.collection(id).patch(&id.name, &by_us(), &Patch::Strategic(patch));
        self.write("patch", id, request).await
    }

    /// Stores the answer to a write, and finds out which fields it lacks. Of a write that was stored as it was sent, no more is
    /// learned when the watch reports it.
    fn stored(&self, id: &ChildId, sent: &Value, answer: Answer) -> Outcome {
        let dropped = if answer.child.value.digest.lacks(sent).is_some() {
            missing(sent, &answer.whole())
        } else {
            self.queue.wrote(self.app, &answer.child.version);
            Vec::new()
        };
        self.cache(id).upsert(answer.child);
        Outcome::Done { dropped }
    }

    async fn send_apply(&self, id: &ChildId, object: &Value) -> Result<Answer, CallError> {
        let request = self
            .collection(id)
            .patch(&id.name, &applied_by_us(), &Patch::Apply(object));
        self.write("patch", id, request).await
    }

    async fn delete(&self, id: &ChildId, uid: &str) -> Result<Outcome, Failure> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        // The answer is a Status, or the object if it has a finalizer. In both cases the watch reports the deletion.
        match send(
            self.caller,
            self.stores,
            "delete",
            id.kind,
            self.collection(id).delete(&id.name, &params),
        )
        .await
        {
            Ok((_, answer)) => {
                info!(child = id.kind.as_str(), "deleted what is no longer wanted");
                let cache = self.cache(id);
                match answer.outcome {
                    // It still exists, and an Ingress still serves its host.
                    Reducing::Kept(child) if child.value.uid == uid.into() && child.value.deleting => {
                        cache.upsert_known(child);
                    }
                    _ => {
                        cache.forget(&self.key(id));
                    }
                }
                Ok(Outcome::Done { dropped: Vec::new() })
            }
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => Ok(self.forget(id)),
            Err(error) => Err(failure("delete", id, error)),
        }
    }

    fn forget(&self, id: &ChildId) -> Outcome {
        self.cache(id).forget(&self.key(id));
        Outcome::Stale
    }

    async fn write(
        &self,
        verb: &'static str,
        id: &ChildId,
        request: Result<HttpRequest<Vec<u8>>, request::Error>,
    ) -> Result<Answer, CallError> {
        exchange(self.caller, self.stores, verb, id.kind, &id.name, request).await
    }

    fn collection(&self, id: &ChildId) -> Request {
        collection(&self.app.namespace, id.kind)
    }

    fn cache(&self, id: &ChildId) -> &Cache<Arc<Child>> {
        &self.stores.children.of(id.kind).cache
    }

    fn key(&self, id: &ChildId) -> Key {
        Key::new(&self.app.namespace, &id.name)
    }
}

/// Reads the Ingress of an app from the API server, and stores it.
///
/// # Errors
/// Returns why it could not be read.
pub async fn read_ingress(caller: &Caller, stores: &Stores, app: &Key) -> Result<(), Failure> {
    let kind = &INGRESS;
    let request = collection(&app.namespace, kind).get(&app.name, &GetParams::default());
    match exchange(caller, stores, "get", kind, &app.name, request).await {
        Ok(found) => {
            // This includes the Ingress of a deleted app of the same name, which serves until it is garbage-collected.
            if found.child.value.is_of_app(&app.name, &app.name) {
                stores.children.of(kind).cache.upsert(found.child);
            }
            Ok(())
        }
        // The watch reports when one that is cached was deleted.
        Err(CallError::Refused(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.failure("get", kind.as_str(), &app.name)),
    }
}

/// Sends a request, and returns the child that the answer is about.
async fn exchange(
    caller: &Caller,
    stores: &Stores,
    verb: &'static str,
    kind: &'static ChildKind,
    name: &str,
    request: Result<HttpRequest<Vec<u8>>, request::Error>,
) -> Result<Answer, CallError> {
    let (body, reduced) = send(caller, stores, verb, kind, request).await?;
    match about(name, reduced)?.outcome {
        Reducing::Kept(child) => Ok(Answer { body, kind, child }),
        Reducing::Ignored | Reducing::Failed => Err(CallError::Lost("the answer could not be read".to_owned())),
    }
}

async fn send(
    caller: &Caller,
    stores: &Stores,
    verb: &'static str,
    kind: &'static ChildKind,
    request: Result<HttpRequest<Vec<u8>>, request::Error>,
) -> Result<(Bytes, Reduced<ChildObject>), CallError> {
    let Store { cache, encoding, .. } = &**stores.children.of(kind);
    let descriptor = encoding.descriptor(protobuf::descriptor(kind.group, kind.kind));
    let request = request.map(|mut request| {
        if descriptor.is_some() {
            let accept = HeaderValue::from_static(protobuf::ACCEPT);
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        request
    });
    let parse = |body: Bytes| {
        let parts = match descriptor.zip(protobuf::Answer::of(&body)) {
            Some((descriptor, answer)) => answer.and_then(|answer| Parts::of_answer(answer, descriptor)),
            None => Ok(serde_json::from_slice(&body).map_err(|error| error.to_string())?),
        };
        let reduced = parts
            .and_then(|parts| Reduced::of_answer(parts, cache))
            .inspect_err(|error| encoding.fall_back(kind.plural, error))
            .map_err(|error| error.to_string())?;
        Ok((body, reduced))
    };
    reading(kind, caller.send_and_parse(verb, kind.plural, request, parse)).await
}

/// An answer about a child.
struct Answer {
    body: Bytes,
    kind: &'static ChildKind,
    child: Item<Arc<Child>>,
}

impl Answer {
    /// Parses the whole object.
    fn whole(&self) -> Value {
        let descriptor = protobuf::descriptor(self.kind.group, self.kind.kind);
        match descriptor.zip(protobuf::Answer::of(&self.body)) {
            Some((descriptor, answer)) => answer.and_then(|answer| answer.object(descriptor).read()).ok(),
            None => serde_json::from_slice(&self.body).ok(),
        }
        .unwrap_or_default()
    }
}

fn failure(verb: &str, id: &ChildId, error: CallError) -> Failure {
    error.failure(verb, id.kind.as_str(), &id.name)
}

fn collection(namespace: &str, kind: &ChildKind) -> Request {
    Request::new(kind.path(namespace))
}

/// Returns the patch after which an apply that was rejected for this reason succeeds.
fn patch_before(status: &Status, kind: &ChildKind, object: &Value) -> Option<Value> {
    if is_duplicate_port(status) {
        let patch = ports_patch(kind, object)?;
        info!(child = kind.as_str(), "a port was given another number; removing it");
        Some(patch)
    } else if is_of_rolling_updates(status) {
        let patch = recreate_patch(object)?;
        info!(child = kind.as_str(), "removing the settings of rolling updates");
        Some(patch)
    } else {
        None
    }
}

/// Whether an apply was rejected because a Deployment that recreates its pods still has the settings of rolling updates.
fn is_of_rolling_updates(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid()
        && causes.any(|cause| cause.reason == "FieldValueForbidden" && cause.field == "spec.strategy.rollingUpdate")
}

/// Whether an apply was rejected because another client has changed a port of ours, which would be a duplicate.
fn is_duplicate_port(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid() && causes.any(|cause| cause.reason == "FieldValueDuplicate" && cause.field.contains("ports["))
}
