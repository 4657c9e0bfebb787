//! Writes the ConfigMap with the address of a queue.

use std::sync::Arc;

use crd::AppQueue;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{GetParams, Patch, PostParams};
use kube::core::{Request, Resource as _};
use model::Failure;
use model::queue::{Desired, View, config_map};
use tracing::info;

use crate::call::{CallError, Caller, about, applied_by_us, is_another_uid};
use crate::key::Key;
use crate::stores::Stores;
use crate::stores::queue_outputs::{QueueOutput, output};

const RESOURCE: &str = "configmaps";
const KIND: &str = "ConfigMap";

/// Writes ConfigMaps.
pub struct OutputWriter<'a> {
    /// Sends the requests.
    pub caller: &'a Caller,
    /// What is cached.
    pub stores: &'a Stores,
}

impl OutputWriter<'_> {
    /// Writes the ConfigMap of a queue, unless it is as wanted. A ConfigMap that is not ours is not changed.
    ///
    /// # Errors
    /// Returns the failure that the status reports.
    pub async fn write(&self, queue: &AppQueue, desired: &Desired, view: &View) -> Result<(), Failure> {
        let wanted = config_map(queue, desired, view);
        let key = Key::of(&wanted.metadata);
        let uid = queue.uid().unwrap_or_default();
        match self.stores.queue_outputs.cache.get(&key) {
            Some(found) if found.owner.as_deref() != Some(&uid) => Err(conflict(&key.name, &found)),
            Some(found) if found.is_as(&wanted) => Ok(()),
            Some(found) => self.apply(&wanted, &found.uid).await,
            None => self.create(&wanted, &uid).await,
        }
    }

    /// Whether the namespace is being deleted.
    pub async fn is_namespace_terminating(&self, queue: &AppQueue, desired: &Desired) -> bool {
        let probe = config_map(queue, desired, &View::default());
        let answer = self.post(&probe, true).await;
        let failure = answer
            .err()
            .map(|error| error.failure("create", KIND, &probe.name_any()));
        matches!(failure, Some(Failure::NamespaceTerminating))
    }

    async fn create(&self, wanted: &ConfigMap, owner: &str) -> Result<(), Failure> {
        let name = wanted.name_any();
        match self.post(wanted, false).await {
            Ok(created) => {
                info!(config_map = name, "created");
                self.store(&created);
                Ok(())
            }
            Err(CallError::Refused(status)) if status.is_already_exists() => {
                let request = collection(wanted).get(&name, &GetParams::default());
                let found = self.caller.send::<ConfigMap>("get", RESOURCE, request).await;
                let found = found
                    .and_then(|found| about(&name, found))
                    .map_err(|error| error.failure("get", KIND, &name))?;
                let known = output(&found);
                if known.owner.as_deref() != Some(owner) {
                    return Err(conflict(&name, &known));
                }
                self.store(&found);
                if known.is_as(wanted) {
                    Ok(())
                } else {
                    self.apply(wanted, &known.uid).await
                }
            }
            Err(error) => Err(error.failure("create", KIND, &name)),
        }
    }

    async fn apply(&self, wanted: &ConfigMap, uid: &str) -> Result<(), Failure> {
        let name = wanted.name_any();
        let mut wanted = wanted.clone();
        wanted.metadata.uid = Some(uid.to_owned());
        let request = collection(&wanted).patch(&name, &applied_by_us(), &Patch::Apply(&wanted));
        match self
            .caller
            .send::<ConfigMap>("patch", RESOURCE, request)
            .await
            .and_then(|found| about(&name, found))
        {
            Ok(applied) => {
                info!(config_map = name, "applied");
                self.store(&applied);
                Ok(())
            }
            // It was deleted; the next reconcile creates it.
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => {
                self.stores.queue_outputs.cache.forget(&Key::of(&wanted.metadata));
                Err(Failure::Unavailable {
                    what: format!("patch {KIND} {name}"),
                    why: "it was deleted".to_owned(),
                })
            }
            Err(error) => Err(error.failure("patch", KIND, &name)),
        }
    }

    async fn post(&self, wanted: &ConfigMap, dry_run: bool) -> Result<ConfigMap, CallError> {
        let params = PostParams {
            field_manager: Some(crd::FIELD_MANAGER.into()),
            dry_run,
        };
        let body = serde_json::to_vec(wanted).map_err(|error| CallError::Lost(error.to_string()))?;
        self.caller
            .send("create", RESOURCE, collection(wanted).create(&params, body))
            .await
    }

    fn store(&self, found: &ConfigMap) {
        self.stores.queue_outputs.cache.upsert(QueueOutput::item(found));
    }
}

fn conflict(name: &str, found: &Arc<crate::stores::queue_outputs::Output>) -> Failure {
    Failure::NameConflict {
        kind: KIND,
        name: name.to_owned(),
        owner: found.owner_name.clone(),
    }
}

fn collection(config_map: &ConfigMap) -> Request {
    Request::new(ConfigMap::url_path(&(), config_map.metadata.namespace.as_deref()))
}
