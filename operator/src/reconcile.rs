//! One look at one application, as a sentence: observe, validate, desired, plan, perform, status.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crd::{AppDeploy, AppDeployStatus};
use jiff::Timestamp;
use kube::api::Patch;
use kube::core::Request;
use model::status::{StatusOptions, changes_in};
use model::{Failure, Plan, desired, plan, status, validate};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tracing::{debug, info, instrument, warn};

use crate::call::{CallError, Caller, by_us};
use crate::dispatch::Verdict;
use crate::event;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::perform::Outcome;
use crate::perform::children::Performer;
use crate::queue::Queue;
use crate::world::{Root, World, root};

/// The shortest time between two writes of one status. Pods come and go in bursts; who reads the status
/// reads the last one.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long the API server may fail at our writes before an application is said to suffer from it. A request
/// that is tried again a moment later is nobody's business.
const PATIENCE: Duration = Duration::from_secs(5);

/// What reconciling needs.
pub struct Reconciler {
    /// Who asks the API server.
    pub caller: Caller,
    /// What is known.
    pub world: Arc<World>,
    /// Where to come back later.
    pub queue: Arc<Queue<Key>>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How strict the status is.
    pub options: StatusOptions,
    /// What is remembered of each application from one look to the next.
    pub memory: Mutex<HashMap<Key, Memory>>,
}

/// What is remembered of an application. Nothing is lost with it but a second of patience.
#[derive(Debug, Default)]
pub struct Memory {
    /// When its status was last written.
    told: Option<Instant>,
    /// Of an application whose stored status can't be read, what was written there.
    unreadable: Option<AppDeployStatus>,
    /// Since when the API server has not answered as it should.
    unavailable: Option<Instant>,
}

impl Reconciler {
    /// Brings one application to where its spec wants it, as far as it can be, and says how it is.
    #[instrument(skip_all, fields(app = %key))]
    pub async fn reconcile(&self, key: Key) -> Verdict {
        let Some(root) = self.world.apps.cache.get(&key) else {
            // It is gone. Its children go with it: they carry its owner reference.
            self.memory().remove(&key);
            return Verdict::Settled;
        };
        match root {
            Root::Readable(app) => self.reconcile_app(&key, &app).await,
            Root::Unreadable { meta, error } => {
                let status = self.memory().get(&key).and_then(|memory| memory.unreadable.clone());
                let app = AppDeploy {
                    metadata: (*meta).clone(),
                    spec: crd::AppDeploySpec::default(),
                    status,
                };
                self.conclude(&key, &app, &[Failure::Unreadable(error.to_string())], true)
                    .await
            }
        }
    }

    async fn reconcile_app(&self, key: &Key, app: &AppDeploy) -> Verdict {
        let failures = match validate(app) {
            Err(invalid) => vec![invalid.into()],
            Ok(_) if app.metadata.deletion_timestamp.is_some() => Vec::new(),
            Ok(valid) => {
                let Plan {
                    actions,
                    mut failures,
                    rival_scaler,
                } = plan(&valid, &desired(&valid), &self.world.observe(key));
                let performer = Performer {
                    caller: &self.caller,
                    world: &self.world,
                    app: key,
                    uid: &valid.uid,
                };
                for action in actions {
                    match performer.perform(action).await {
                        Ok(Outcome::Done) => {}
                        Ok(Outcome::Again) => return Verdict::Again,
                        Err(failure) => {
                            // Of a server that does not answer, the next request would be as late.
                            let lost = matches!(failure, Failure::Unavailable { .. });
                            failures.push(failure);
                            if lost {
                                break;
                            }
                        }
                    }
                }
                if let Some(rival) = rival_scaler {
                    self.warn_of_rival(app, &rival).await;
                }
                failures
            }
        };
        self.conclude(key, app, &failures, false).await
    }

    /// Writes the status, whatever happened.
    async fn conclude(&self, key: &Key, app: &AppDeploy, failures: &[Failure], unreadable: bool) -> Verdict {
        for failure in failures {
            self.metrics.failed(failure.class());
            warn!(%failure, "not as wanted");
        }
        if self.may_pass(key, failures) {
            return Verdict::Failed;
        }
        let valid = validate(app).ok().filter(|_| !unreadable);
        // The answers to our writes have been taken in, so that one status tells of them.
        let observed = self.world.observe(key);
        let now = Timestamp::now();
        let wanted = status(app, valid.as_ref(), &observed, failures, self.options, now);
        if let Some(wait) = changes_in(&observed, now) {
            self.queue.add_after(key.clone(), wait);
        }
        let told = self.write_status(key, app, &wanted, unreadable).await;
        match (failures.iter().any(Failure::is_worth_a_retry), told) {
            (_, Err(())) | (true, _) => Verdict::Failed,
            (false, Ok(())) if failures.is_empty() => Verdict::Settled,
            (false, Ok(())) => Verdict::GaveUp,
        }
    }

    async fn write_status(
        &self,
        key: &Key,
        app: &AppDeploy,
        wanted: &AppDeployStatus,
        unreadable: bool,
    ) -> Result<(), ()> {
        if app.status.as_ref() == Some(wanted) {
            return Ok(());
        }
        let last = self
            .memory()
            .get(key)
            .and_then(|memory| memory.told)
            .map(|told| told.elapsed());
        if let Some(wait) = last.and_then(|elapsed| STATUS_INTERVAL.checked_sub(elapsed)) {
            self.queue.add_after(key.clone(), wait);
            return Ok(());
        }
        let patch = status_patch(app, wanted);
        let url = format!(
            "/apis/{}/{}/namespaces/{}/appdeploys",
            crd::GROUP,
            crd::VERSION,
            key.namespace
        );
        let request = Request::new(url).patch_subresource("status", &key.name, &by_us(), &Patch::Merge(&patch));
        let answer = self.caller.send("patch", "appdeploys/status", request).await;
        match answer {
            Ok(answer) => {
                self.world.apps.cache.upsert(root(answer));
                if let Some(memory) = self.memory().get_mut(key) {
                    memory.told = Some(Instant::now());
                    memory.unreadable = unreadable.then(|| wanted.clone());
                }
                self.tell_of_a_change(app, wanted).await;
                Ok(())
            }
            // It was deleted meanwhile; the watch says so soon.
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(()),
            Err(CallError::Refused(status)) => {
                warn!(code = status.code, message = status.message, "the status was refused");
                Err(())
            }
            Err(CallError::Lost(why)) => {
                warn!(why, "the status could not be written");
                Err(())
            }
        }
    }

    /// An Event when the cause changes: not for what is normal, and not again for what was said.
    async fn tell_of_a_change(&self, app: &AppDeploy, wanted: &AppDeployStatus) {
        let before = app.status.as_ref().and_then(|status| status.cause.as_ref());
        match &wanted.cause {
            Some(cause) if before.map(|before| &before.reason) != Some(&cause.reason) => {
                info!(reason = cause.reason, message = cause.message, "not ready");
                event::publish(
                    &self.caller,
                    event::warning(
                        crd::Kind::AppDeploy,
                        &app.metadata,
                        &cause.reason,
                        &cause.message,
                        Timestamp::now(),
                    ),
                )
                .await;
            }
            Some(_) => {}
            None => debug!(ready = wanted.ready_replicas, "told"),
        }
    }

    async fn warn_of_rival(&self, app: &AppDeploy, rival: &str) {
        let name = app.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "{rival} has scaled Deployment {name}, and was overruled: the number of pods is spec.replicas of AppDeploy \
             {name}. A HorizontalPodAutoscaler works if its scaleTargetRef is AppDeploy {name}"
        );
        event::publish(
            &self.caller,
            event::warning(
                crd::Kind::AppDeploy,
                &app.metadata,
                "ScaledByAnother",
                &message,
                Timestamp::now(),
            ),
        )
        .await;
    }

    /// Whether all that failed is the API server itself, and not for long.
    fn may_pass(&self, key: &Key, failures: &[Failure]) -> bool {
        let unavailable = !failures.is_empty()
            && failures
                .iter()
                .all(|failure| matches!(failure, Failure::Unavailable { .. }));
        let mut all = self.memory();
        let memory = all.entry(key.clone()).or_default();
        if !unavailable {
            memory.unavailable = None;
            return false;
        }
        memory.unavailable.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the merge patch (RFC 7386) that turns the stored status into the wanted one. The UID makes it fail on
/// an application of the same name that was made anew.
fn status_patch(app: &AppDeploy, wanted: &AppDeployStatus) -> Value {
    let fields = |status: &AppDeployStatus| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut patch = fields(wanted);
    for field in app.status.as_ref().map(fields).unwrap_or_default().keys() {
        patch.entry(field).or_insert(Value::Null);
    }
    // Below the list level a merge patch replaces; below an object it merges, and would keep an old `next`.
    if let Some(Value::Object(cause)) = patch.get_mut("cause") {
        cause.entry("next").or_insert(Value::Null);
    }
    json!({"metadata": {"uid": app.metadata.uid}, "status": patch})
}

#[cfg(test)]
mod tests {
    use crd::Cause;

    use super::*;

    #[test]
    fn what_is_no_longer_true_is_removed() {
        let before = AppDeployStatus {
            url: Some("http://web.default/".into()),
            cause: Some(Cause {
                reason: "CrashLoop".into(),
                message: "it ends".into(),
                next: Some("kubectl logs".into()),
            }),
            ..AppDeployStatus::default()
        };
        let app = AppDeploy {
            status: Some(before),
            ..AppDeploy::default()
        };
        let after = AppDeployStatus {
            url: Some("http://web.default/".into()),
            ..AppDeployStatus::default()
        };
        assert_eq!(
            status_patch(&app, &after)["status"],
            json!({"url": "http://web.default/", "cause": null})
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
            status_patch(&app, &after)["status"],
            json!({"url": null, "cause": {"reason": "Evicted", "message": "no room", "next": null}})
        );
    }
}
