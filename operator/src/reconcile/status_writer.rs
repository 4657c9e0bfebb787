//! Begins and ends each reconcile, whatever the kind of the object, and writes its status.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use kube::Resource as _;
use kube::api::{GetParams, Patch};
use kube::core::{ObjectMeta, Request, request};
use model::Failure;
use model::pod::EventQuery;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::{Span, debug, info, warn};

use super::probe_event_fetcher::ProbeEventFetcher;
use super::stored::Stored;
use crate::attempt;
use crate::call::{CallError, Caller, about, by_us};
use crate::event::{self, Recorder};
use crate::key::Key;
use crate::metrics::Metrics;
use crate::object_state::ObjectStates;
use crate::object_state::status::TOLERATED_OUTAGE;
use crate::primary::{Root, Unusable, differ_only_in_status};
use crate::queue::{Priority, Queue};
use crate::reduced::{Outcome, Reduced};
use crate::result::{Error, ReconcileResult, Requeue};
use crate::stores::Stores;
use crate::watch::chain;

/// Writes the statuses of the objects of one kind, at most one per second and object, and Events about them.
pub struct StatusWriter<K: Stored> {
    caller: Caller,
    stores: Arc<Stores>,
    queue: Arc<Queue<Key>>,
    metrics: Arc<Metrics>,
    states: Arc<ObjectStates<K::Status>>,
    probe_event_fetcher: Arc<ProbeEventFetcher<K::Status>>,
    events: Recorder,
}

/// An object that is being reconciled.
pub struct ReconcileContext<K> {
    /// Its name.
    pub key: Key,
    /// The object. If it can't be read, its metadata and the status that was written last.
    pub object: Arc<K>,
    /// Why it can't be read.
    pub unreadable: Option<Unusable>,
}

/// How an object has changed since its reconcile began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// At most its status has changed.
    Same,
    /// It has changed, was replaced, or is being deleted. The store has been updated.
    Changed,
    /// It was deleted. The watch has not reported that yet.
    Gone,
}

/// The status that an object is to have.
pub struct StatusUpdate<S> {
    /// Its status.
    pub status: S,
    /// The time after which the status changes without an event.
    pub changes_in: Option<Duration>,
    /// The probe events that would explain it.
    pub asks: Option<EventQuery>,
}

impl<K: Stored> StatusWriter<K> {
    /// Returns a writer that requeues objects in this queue.
    #[must_use]
    pub fn new(
        caller: Caller,
        stores: Arc<Stores>,
        states: Arc<ObjectStates<K::Status>>,
        queue: Arc<Queue<Key>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            probe_event_fetcher: ProbeEventFetcher::new(caller.clone(), states.clone(), queue.clone()).into(),
            events: Recorder::new(caller.clone()),
            caller,
            stores,
            queue,
            metrics,
            states,
        }
    }

    /// Begins the reconcile of an object; `None` if it was deleted.
    pub fn begin(&self, key: Key) -> Option<ReconcileContext<K>> {
        let Some(root) = K::store(&self.stores).cache.get(&key) else {
            self.states.remove(&key);
            return None;
        };
        Span::current().record("generation", root.meta().generation);
        self.states.begin(&key, root.meta().uid.as_deref().unwrap_or_default());
        let (object, unreadable) = match root {
            Root::Readable(object) => (object, None),
            Root::Unreadable { meta, why } => {
                let mut object = K::default();
                *object.meta_mut() = (*meta).clone();
                *object.status_mut() = self
                    .states
                    .with(&key, |state| state.status.unreadable().cloned())
                    .flatten();
                (Arc::new(object), Some(why))
            }
        };
        Some(ReconcileContext {
            key,
            object,
            unreadable,
        })
    }

    /// Ends a reconcile: writes the status on every outcome. `update` makes it from what is cached by then, which includes the
    /// answers to our writes.
    ///
    /// # Errors
    /// Why the status could not be written.
    pub async fn finish(
        &self,
        context: &ReconcileContext<K>,
        failures: &[Failure],
        update: impl FnOnce(Timestamp) -> StatusUpdate<K::Status> + Send,
    ) -> ReconcileResult {
        attempt::conclude(Box::pin(self.finish_in_time(context, failures, update))).await
    }

    /// Writes the status of an object whose reconcile panicked or timed out.
    pub async fn report(&self, key: &Key, failure: Failure) {
        let Some(context) = self.begin(key.clone()) else { return };
        self.metrics.failed(K::NAMES.singular, failure.class());
        let status = context.object.unfinished(&failure, Timestamp::now());
        // A failure is logged, and the reconcile is retried in any case.
        let _ = self.write_status(&context, &status, &[failure]).await;
    }

    async fn finish_in_time(
        &self,
        context: &ReconcileContext<K>,
        failures: &[Failure],
        update: impl FnOnce(Timestamp) -> StatusUpdate<K::Status> + Send,
    ) -> ReconcileResult {
        for failure in failures {
            self.metrics.failed(K::NAMES.singular, failure.class());
            warn!(%failure, "not as wanted");
        }
        // A short outage of the API server is not reported, unless this reconcile has waited that long already.
        let is_short = self
            .states
            .with(&context.key, |state| state.status.is_short_outage(failures));
        if is_short == Some(true) && attempt::unanswered_for() < TOLERATED_OUTAGE {
            return Err(Error::Failed);
        }
        let update = update(Timestamp::now());
        self.probe_event_fetcher.ask(&context.key, update.asks);
        let written = self.write_status(context, &update.status, failures).await;
        let result = match (failures.iter().any(Failure::is_worth_a_retry), written) {
            (_, Err(error)) => Err(error),
            (true, Ok(())) => Err(Error::Failed),
            (false, Ok(())) if failures.is_empty() => {
                return Ok(update.changes_in.map_or(Requeue::Done, Requeue::After));
            }
            (false, Ok(())) => Err(Error::Terminal),
        };
        if let Some(wait) = update.changes_in {
            self.queue.add_after(context.key.clone(), wait);
        }
        result
    }

    /// Re-reads an object before children are created for it, which would be garbage-collected with it.
    ///
    /// # Errors
    /// Says why it could not be read.
    pub async fn verify_owner(&self, context: &ReconcileContext<K>) -> Result<OwnerState, Failure> {
        let key = &context.key;
        let request = Request::new(K::url_path(&(), Some(&key.namespace))).get(&key.name, &GetParams::default());
        let answer = self.send("get", K::NAMES.plural, request).await;
        match answer.and_then(|live| about(&key.name, live)) {
            Ok(live) => Ok(if self.store(context, live) {
                OwnerState::Changed
            } else {
                OwnerState::Same
            }),
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(OwnerState::Gone),
            Err(error) => Err(error.failure("get", K::NAMES.kind, &key.name)),
        }
    }

    /// Stores the API server's answer about an object. Returns whether more than the status differs from the reconciled
    /// object: the watch does not report a version that is stored already.
    fn store(&self, context: &ReconcileContext<K>, live: Reduced<Root<K>>) -> bool {
        let Outcome::Kept(live) = live.outcome else {
            return false;
        };
        let is_other = !differ_only_in_status(context.object.meta(), live.value.meta());
        if !K::store(&self.stores).cache.upsert(live).is_empty() {
            for other in K::note(&self.stores, &context.key) {
                self.wake(other);
            }
        }
        is_other
    }

    /// Continues a reconcile with the API server's answer to our own change of the object.
    pub fn continue_with(&self, context: &mut ReconcileContext<K>, written: Reduced<Root<K>>) {
        let object = match &written.outcome {
            Outcome::Kept(item) => match &item.value {
                Root::Readable(object) => Some(object.clone()),
                Root::Unreadable { .. } => None,
            },
            Outcome::Ignored | Outcome::Failed => None,
        };
        self.store(context, written);
        if let Some(object) = object {
            context.object = object;
        }
    }

    /// Publishes an Event about an object.
    pub async fn warn(&self, object: &K, reason: &str, message: &str) {
        let warning = event::warning(K::NAMES, object.meta(), reason, message, Timestamp::now());
        self.events.publish(warning).await;
    }

    /// Whether a write that was undone may be repeated now. If another writer undoes each of them, an Event reports it, and the
    /// object is reconciled again later.
    pub async fn may_rewrite(&self, context: &ReconcileContext<K>) -> bool {
        let generation = context.object.meta().generation;
        let repair = self
            .states
            .with(&context.key, |state| state.child_writes.take_repair(generation));
        let Some(Err(fight)) = repair else {
            return true;
        };
        self.queue.add_after(context.key.clone(), fight.wait);
        if fight.is_news {
            let name = &context.key.name;
            let message = format!(
                "another client undoes each write to the children of {name}; from now on they are written every few seconds; \
                 metadata.managedFields of the children show the client"
            );
            warn!("another client undoes each write; writing every few seconds from now on");
            self.warn(&context.object, "Overruled", &message).await;
        }
        false
    }

    /// Queues another object that a change of this one concerns.
    pub fn wake(&self, key: Key) {
        self.queue.add(key, Priority::Related);
    }

    async fn write_status(
        &self,
        context: &ReconcileContext<K>,
        wanted: &K::Status,
        failures: &[Failure],
    ) -> Result<(), Error> {
        let ReconcileContext { key, object, .. } = context;
        let before = object.status();
        if before == Some(wanted) {
            return Ok(());
        }
        if let Some(wait) = self.states.with(key, |state| state.status.delay()).flatten() {
            self.queue.add_after(key.clone(), wait);
            return Ok(());
        }
        let patch = status_patch(object.meta(), before, wanted);
        let url = K::url_path(&(), Some(&key.namespace));
        let request = Request::new(url).patch_subresource("status", &key.name, &by_us(), &Patch::Merge(&patch));
        let answer = self.send("patch", K::STATUS, request).await;
        match answer.and_then(|answer| about(&key.name, answer)) {
            Ok(answer) => {
                let version = answer.meta().resource_version.clone().unwrap_or_default();
                if self.store(context, answer) {
                    self.wake(key.clone());
                }
                self.queue.wrote(key, &version);
                let unreadable = context.unreadable.is_some().then(|| wanted.clone());
                self.states.with(key, |state| state.status.written(unreadable));
                // A namespace that is being deleted takes no Event, either.
                if !failures.contains(&Failure::NamespaceTerminating) {
                    self.record_change(object, wanted).await;
                }
                Ok(())
            }
            // It was deleted, which the watch will report.
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(()),
            // Another writer has changed the object, perhaps its conditions, which the patch would have replaced.
            Err(CallError::Refused(status)) if status.code == 409 => {
                debug!(message = status.message, "the object has changed; reconciling it again");
                if let Err(failure) = self.verify_owner(context).await {
                    warn!(%failure, "the status could not be written");
                    return Err(Error::Failed);
                }
                self.wake(key.clone());
                Ok(())
            }
            Err(CallError::Refused(status)) => {
                warn!(code = status.code, message = status.message, "the status was refused");
                Err(Error::Failed)
            }
            Err(CallError::Lost(why)) => {
                warn!(why, "the status could not be written");
                Err(Error::Failed)
            }
        }
    }

    /// Sends a request about an object, and reduces the answer.
    async fn send(
        &self,
        verb: &'static str,
        resource: &'static str,
        request: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<Reduced<Root<K>>, CallError> {
        let cache = &K::store(&self.stores).cache;
        let parse = |answer: Bytes| {
            let parts = serde_json::from_slice(&answer).map_err(|error| chain(&error))?;
            Reduced::of_answer(parts, cache).map_err(|error| error.to_string())
        };
        self.caller.send_and_parse(verb, resource, request, parse).await
    }

    /// Writes an Event when the cause changes.
    async fn record_change(&self, object: &K, wanted: &K::Status) {
        let before = object.status().and_then(K::cause);
        match K::cause(wanted) {
            Some(cause) if before.map(|before| &before.reason) != Some(&cause.reason) => {
                // The message may quote the app's log, which not all readers of this log may read.
                info!(reason = cause.reason, "not ready");
                debug!(message = cause.message, "not ready because of this");
                self.warn(object, &cause.reason, &cause.message).await;
            }
            Some(_) => {}
            None => debug!("status written"),
        }
    }
}

/// Returns the merge patch (RFC 7386) that turns the stored status into the wanted one. The UID makes it fail on
/// an object of the same name that was created again, and the version on one that has changed: a merge patch replaces a list as a
/// whole, and another writer may just have added a condition.
fn status_patch<S: Serialize>(meta: &ObjectMeta, before: Option<&S>, wanted: &S) -> Value {
    let fields = |status: &S| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut patch = fields(wanted);
    for field in before.map(fields).unwrap_or_default().keys() {
        patch.entry(field).or_insert(Value::Null);
    }
    // Below the list level a merge patch replaces; below an object it merges, and would keep an old `next`.
    if let Some(Value::Object(cause)) = patch.get_mut("cause") {
        cause.entry("next").or_insert(Value::Null);
    }
    json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": patch})
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use crd::{AppDeploy, AppDeployStatus, Cause};
    use http_body_util::BodyExt as _;
    use kube::Client;
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::lease::Fence;
    use crate::primary::Root;

    /// The reconcile itself can't report it: its code has failed, or has no time left.
    #[tokio::test]
    async fn status_reports_a_panic_or_a_timeout() {
        for (failure, reason) in [
            (Failure::Panicked, "InternalError"),
            (Failure::TimedOut { seconds: 25 }, "ReconcileTimeout"),
        ] {
            let written = Arc::new(Mutex::new(Vec::new()));
            let log = written.clone();
            let service = service_fn(move |request: http::Request<Body>| {
                let log = log.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let body: Value = serde_json::from_slice(&body).unwrap();
                    log.lock().unwrap().push((head.uri.path().to_owned(), body.clone()));
                    let answer = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "2"},
                        "spec": {"image": "nginx"}, "status": body["status"]});
                    Ok::<_, Infallible>(http::Response::new(Body::from(answer.to_string().into_bytes())))
                }
            });
            let app: AppDeploy = serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop",
                "uid": "u1", "resourceVersion": "1", "generation": 3}, "spec": {"image": "nginx"}}))
            .unwrap();
            let (stores, metrics) = (Arc::new(Stores::default()), Arc::new(Metrics::default()));
            let key = Key::of(&app.metadata);
            stores.apps.cache.upsert(crate::cache::Item {
                owners: [key.clone()].into(),
                key: key.clone(),
                version: "1".into(),
                value: Root::Readable(Arc::new(app)),
            });
            let caller = Caller::new(Client::new(service, "default"), metrics.clone(), Fence::open());
            let status_writer = StatusWriter::<AppDeploy>::new(caller, stores, Arc::default(), Arc::default(), metrics);
            status_writer.report(&key, failure).await;
            let written = written.lock().unwrap();
            let (path, body) = &written[0];
            assert!(path.ends_with("/namespaces/shop/appdeploys/web/status"), "{path}");
            let status = &body["status"];
            assert_eq!(status["cause"]["reason"], reason);
            assert_eq!(status["observedGeneration"], 3);
            assert_eq!(
                (&status["conditions"][0]["type"], &status["conditions"][0]["status"]),
                (&json!("Ready"), &json!("Unknown"))
            );
        }
    }

    #[test]
    fn outdated_fields_are_removed() {
        let meta = ObjectMeta {
            uid: Some("u1".into()),
            resource_version: Some("7".into()),
            ..ObjectMeta::default()
        };
        let before = AppDeployStatus {
            url: Some("http://web.default/".into()),
            cause: Some(Cause {
                reason: "CrashLoop".into(),
                message: "it ends".into(),
                next: Some("kubectl logs".into()),
            }),
            ..AppDeployStatus::default()
        };
        let after = AppDeployStatus {
            url: Some("http://web.default/".into()),
            ..AppDeployStatus::default()
        };
        assert_eq!(
            status_patch(&meta, Some(&before), &after),
            json!({"metadata": {"uid": "u1", "resourceVersion": "7"}, "status": {"url": "http://web.default/", "cause": null}})
        );
        let after = AppDeployStatus {
            cause: Some(Cause {
                reason: "Evicted".into(),
                message: "no room".into(),
                next: None,
            }),
            ..AppDeployStatus::default()
        };
        assert_eq!(
            status_patch(&meta, Some(&before), &after)["status"],
            json!({"url": null, "cause": {"reason": "Evicted", "message": "no room", "next": null}})
        );
    }
}
