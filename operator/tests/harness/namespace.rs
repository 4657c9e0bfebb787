//! One test's namespace: what is in it, what a person does to it, and what they wait for.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::StreamExt as _;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, Request};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Error};
use serde_json::{Value, json};
use testcluster::audit::Mark;
use tokio::time::timeout;

use super::kind::{APP, CLASS, Kind, VALIDATING_WEBHOOK};
use super::{Cluster, PATIENCE, is_observed};

/// Who the tests are to the API server, as far as fields have managers.
const PERSON: &str = "kubectl-edit";

/// What the names of sentinels start with.
pub const SENTINEL: &str = "sentinel-";

/// Returns the name of another sentinel.
pub fn sentinel() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{SENTINEL}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A namespace of a cluster.
pub struct Namespace {
    pub cluster: Arc<Cluster>,
    pub name: String,
}

impl Namespace {
    pub fn new(cluster: Arc<Cluster>, name: &str) -> Self {
        Self {
            cluster,
            name: name.to_owned(),
        }
    }

    /// Creates an application.
    pub fn app(&self, name: &str, spec: Value) -> Value {
        self.create(APP, json!({"metadata": {"name": name}, "spec": spec}))
    }

    /// Creates an application, and waits until the operator has said how it is.
    pub fn settled_app(&self, name: &str, spec: Value) -> Value {
        self.app(name, spec);
        self.until_reported(name)
    }

    /// Waits until the status is about the current spec.
    pub fn until_reported(&self, name: &str) -> Value {
        self.until(APP, name, "the status is about the current spec", is_observed)
    }

    /// Changes fields of an application's spec.
    pub fn set(&self, name: &str, spec: Value) {
        self.patch(APP, name, Patch::Merge(json!({"spec": spec})));
    }

    pub fn create(&self, kind: Kind, object: Value) -> Value {
        self.try_create(kind, object).unwrap()
    }

    /// Creates an object, or returns what the API server has against it.
    pub fn try_create(&self, kind: Kind, mut object: Value) -> Result<Value, Error> {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let params = PostParams {
            field_manager: Some(PERSON.to_owned()),
            ..PostParams::default()
        };
        self.cluster
            .block_on(self.api(kind).create(&params, &object))
            .map(|created| serde_json::to_value(created).unwrap())
    }

    /// Returns an object, or null.
    pub fn get(&self, kind: Kind, name: &str) -> Value {
        let object = self.cluster.block_on(self.api(kind).get_opt(name)).unwrap();
        serde_json::to_value(object).unwrap()
    }

    /// Returns an object as the bytes that the API server sends.
    pub fn bytes(&self, kind: Kind, name: &str) -> String {
        let url = self.api(kind).resource_url().to_owned();
        let request = Request::new(url).get(name, &GetParams::default()).unwrap();
        self.cluster
            .block_on(self.cluster.client.request_text(request))
            .unwrap()
    }

    pub fn list(&self, kind: Kind) -> Vec<Value> {
        let list = self
            .cluster
            .block_on(self.api(kind).list(&ListParams::default()))
            .unwrap();
        list.items
            .into_iter()
            .map(|item| serde_json::to_value(item).unwrap())
            .collect()
    }

    /// Returns the reasons of the Events about an application, sorted.
    pub fn events_about(&self, name: &str) -> Vec<String> {
        let events = self.app_events(name);
        let mut reasons: Vec<String> = events
            .iter()
            .map(|event| super::text(event, "/reason").to_owned())
            .collect();
        reasons.sort();
        reasons
    }

    /// Returns the Events about an application. A busy API server may have one of its own, about the address of the Service
    /// of that name.
    pub fn app_events(&self, name: &str) -> Vec<Value> {
        let mut events = self.list(super::EVENT);
        events.retain(|event| event["involvedObject"]["name"] == name && event["involvedObject"]["kind"] == APP.name());
        events
    }

    pub fn patch<P: serde::Serialize + Debug>(&self, kind: Kind, name: &str, patch: Patch<P>) -> Value {
        let params = PatchParams {
            field_manager: Some(PERSON.to_owned()),
            ..PatchParams::default()
        };
        let patched = self
            .cluster
            .block_on(self.api(kind).patch(name, &params, &patch))
            .unwrap();
        serde_json::to_value(patched).unwrap()
    }

    /// Changes a status, as the controller would that is not there.
    pub fn patch_status(&self, kind: Kind, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        let api = self.api(kind);
        let patched = api.patch_subresource("status", name, &params, &patch);
        self.cluster.block_on(patched).unwrap();
    }

    /// Says of a Deployment what the Deployment controller says when all pods are ready.
    pub fn pods_become_ready(&self, name: &str) {
        let deployment = self.get(super::DEPLOYMENT, name);
        let replicas = &deployment["spec"]["replicas"];
        let status = json!({
            "observedGeneration": deployment["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        });
        self.patch_status(super::DEPLOYMENT, name, status);
    }

    /// Creates an app with one pod that runs and answers its health check with 503, and the Events of a kubelet about it.
    pub fn unhealthy_app(&self, name: &str) {
        let check = json!({"path": "/healthz"});
        self.settled_app(name, json!({"image": "nginx", "port": 8080, "healthCheck": check}));
        // The Deployment's controller has seen the spec, and made the pod.
        let seen = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1});
        self.patch_status(super::DEPLOYMENT, name, seen);
        let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}});
        let pod = self.create(
            super::POD,
            json!({"metadata": {"name": format!("{name}-1"), "labels": {"appdeploy.dev/app": name}},
                "spec": {"containers": [{"name": "app", "image": "nginx", "readinessProbe": probe}]}}),
        );
        let time = "2026-01-01T00:00:00Z";
        self.create(
            super::EVENT,
            json!({"metadata": {"name": format!("{name}-1.1")}, "type": "Warning", "reason": "Unhealthy",
                "message": "Readiness probe failed: HTTP probe failed with statuscode: 503", "lastTimestamp": time,
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": format!("{name}-1"),
                    "namespace": self.name, "uid": super::uid(&pod)}}),
        );
        let own = json!({"name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": 0,
            "started": true, "state": {"running": {"startedAt": time}}});
        self.patch_status(
            super::POD,
            &format!("{name}-1"),
            json!({"phase": "Running", "containerStatuses": [own]}),
        );
    }

    pub fn delete(&self, kind: Kind, name: &str) {
        self.delete_with(kind, name, &DeleteParams::background());
    }

    pub fn delete_with(&self, kind: Kind, name: &str, params: &DeleteParams) {
        self.cluster.block_on(self.api(kind).delete(name, params)).unwrap();
    }

    /// Waits until an object is as wanted, and returns it. Null is one that is not there.
    pub fn until(&self, kind: Kind, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let api = self.api(kind);
        let seen = async {
            let mut sights = pin!(watch_object(api, name).default_backoff());
            while let Some(sight) = sights.next().await {
                if let Ok(object) = sight {
                    last = serde_json::to_value(object).unwrap();
                    if wanted(&last) {
                        break;
                    }
                }
            }
        };
        // A timeout is made inside of the runtime.
        let seen = self.cluster.block_on(async { timeout(PATIENCE, seen).await });
        if seen.is_err() {
            let log = self.cluster.operator.as_ref().map(|operator| operator.log_tail(40));
            if let Some(meta) = last.get_mut("metadata").and_then(Value::as_object_mut) {
                meta.remove("managedFields");
            }
            panic!(
                "not within {PATIENCE:?}: {what}\n{} {name} in {} is:\n{last:#}\n{}",
                kind.name(),
                self.name,
                log.unwrap_or_default()
            );
        }
        last
    }

    /// Waits until an object is there, and returns it.
    pub fn until_there(&self, kind: Kind, name: &str) -> Value {
        self.until(kind, name, "it is there", |object| !object.is_null())
    }

    /// Waits until an object is deleted.
    pub fn until_gone(&self, kind: Kind, name: &str) {
        self.until(kind, name, "it is deleted", Value::is_null);
    }

    /// Waits until there is an object of this name and another UID.
    pub fn until_back(&self, kind: Kind, before: &Value) -> Value {
        let name = super::text(before, "/metadata/name");
        self.until(kind, name, "it is recreated", |object| {
            !object.is_null() && super::uid(object) != super::uid(before)
        })
    }

    /// Waits until the operator of this namespace has handled all that happened before this call: writes a sentinel app, and
    /// waits for the status of its creation and of a change of it. An operator holds the second one back for a second, as it
    /// does any other status. What it writes for the sentinel does not count in [`Self::asked_since`].
    pub fn settle(&self) {
        let name = sentinel();
        self.settled_app(&name, json!({"image": "sentinel:1"}));
        self.set(&name, json!({"image": "sentinel:2"}));
        self.until_reported(&name);
    }

    /// Marks a place in the audit log.
    pub fn mark(&self) -> Mark {
        self.cluster.control_plane.audit().mark().unwrap()
    }

    /// Returns what operators have asked about this namespace since, watches aside.
    pub fn asked_since(&self, mark: Mark) -> testcluster::audit::Requests {
        let requests = self.cluster.control_plane.audit().since(mark).unwrap();
        requests
            .by_user_agent_prefix("appdeploy-operator/")
            .in_namespace(&self.name)
            .that(|request| request.verb != "watch" && !request.name.starts_with(SENTINEL))
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let all: Vec<&str> = ["-n", &self.name]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        self.cluster.control_plane.kubectl(&all).unwrap()
    }

    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let client = self.cluster.client.clone();
        if [CLASS, VALIDATING_WEBHOOK]
            .iter()
            .any(|global| kind.plural() == global.plural())
        {
            return Api::all_with(client, &kind.resource());
        }
        Api::namespaced_with(client, &self.name, &kind.resource())
    }
}
