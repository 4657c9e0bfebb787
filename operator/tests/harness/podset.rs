//! What people, nodes and tests do to PodSets and their pods.

use std::collections::BTreeMap;

use kube::api::Patch;
use serde_json::{Value, json};

use super::kind::{EVENT, Kind, POD, PODSET};
use super::namespace::Namespace;
use super::{is_observed, ready, text};

impl Namespace {
    /// Creates a PodSet.
    pub fn podset(&self, name: &str, spec: Value) -> Value {
        self.create(PODSET, json!({"metadata": {"name": name}, "spec": spec}))
    }

    /// Creates a PodSet, and waits until all of its pods are ready.
    pub fn ready_podset(&self, name: &str, spec: Value) -> Value {
        self.podset(name, spec);
        self.until_podset_ready(name)
    }

    /// Creates a PodSet where no node makes pods ready, and waits until the status names these pods.
    pub fn podset_of(&self, name: &str, spec: Value, pods: &[&str]) -> Value {
        self.podset(name, spec);
        self.until_pods(name, pods)
    }

    /// Changes fields of a PodSet's spec.
    pub fn set_podset(&self, name: &str, spec: Value) {
        self.patch(PODSET, name, Patch::Merge(json!({"spec": spec})));
    }

    /// Waits until a PodSet's status is about the current spec, and as wanted.
    pub fn until_podset(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(PODSET, name, what, |set| is_observed(set) && wanted(set))
    }

    pub fn until_podset_ready(&self, name: &str) -> Value {
        self.until_podset(name, "all pods are ready", |set| ready(set).0 == "True")
    }

    /// Waits until the status names these pods.
    pub fn until_pods(&self, name: &str, pods: &[&str]) -> Value {
        self.until_podset(name, &format!("its pods are {pods:?}"), |set| pods_of(set) == pods)
    }

    /// Waits until the operator of this namespace has handled all that happened to PodSets and their pods before this call:
    /// creates a sentinel PodSet with a pod, scales it to none, and waits for both in its status. As with [`Self::settle`], the
    /// second status is held back for a second, and what the operator writes for it does not count in [`Self::asked_since`].
    pub fn settle_podsets(&self) {
        let name = super::namespace::sentinel();
        let pod = format!("{name}-0");
        self.podset_of(&name, json!({"replicas": 1}), &[&pod]);
        self.set_podset(&name, json!({"replicas": 0}));
        self.until_podset(&name, "it has no pods", |set| count_of(set, "replicas") == 0);
        self.until_gone(POD, &pod);
    }

    /// Returns all pods that are there, ending or not.
    pub fn pods(&self) -> BTreeMap<String, Value> {
        let named = |pod: Value| (text(&pod, "/metadata/name").to_owned(), pod);
        self.list(POD).into_iter().map(named).collect()
    }

    /// Returns the UID of each pod.
    pub fn pod_uids(&self) -> BTreeMap<String, String> {
        let uids = self.pods().into_iter();
        uids.map(|(name, pod)| (name, super::uid(&pod).to_owned())).collect()
    }

    /// Gives a pod a label, or takes it with null.
    pub fn label_pod(&self, name: &str, label: &str, value: Value) {
        self.patch(POD, name, Patch::Merge(json!({"metadata": {"labels": {label: value}}})));
    }

    /// Keeps an object from going when it is deleted.
    pub fn hold(&self, kind: Kind, name: &str) {
        let held = json!({"metadata": {"finalizers": ["test.appdeploy.dev/held"]}});
        self.patch(kind, name, Patch::Merge(held));
    }

    /// Lets an object go that was held.
    pub fn remove_finalizers(&self, kind: Kind, name: &str) {
        self.patch(kind, name, Patch::Merge(json!({"metadata": {"finalizers": null}})));
    }

    /// Says of a pod what a node says: it runs, in this container, and is ready or not.
    pub fn pod_runs(&self, name: &str, container: &str, ready: bool) {
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
        let own = json!({"name": "app", "image": "app", "imageID": "", "ready": ready, "restartCount": 0,
            "containerID": format!("fake://{container}"), "state": {"running": {}}});
        let status = json!({"phase": "Running", "conditions": [condition], "containerStatuses": [own]});
        self.patch_status(POD, name, status);
    }

    /// Says of a pod what a node says: it has restarted in this container, and was ready all the time, as without a
    /// readiness probe.
    pub fn pod_restarts(&self, name: &str, container: &str) {
        let own = json!({"name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 1,
            "containerID": format!("fake://{container}"),
            "state": {"running": {"startedAt": jiff::Timestamp::now().to_string()}}});
        self.patch_status(POD, name, json!({"containerStatuses": [own]}));
    }

    /// Returns the reasons and messages of the Events about a PodSet, sorted.
    pub fn events_about_podset(&self, name: &str) -> Vec<(String, String)> {
        let about = |event: &Value| {
            text(event, "/involvedObject/kind") == PODSET.name() && text(event, "/involvedObject/name") == name
        };
        let mut events: Vec<_> = self
            .list(EVENT)
            .iter()
            .filter(|event| about(event))
            .map(|event| (text(event, "/reason").to_owned(), text(event, "/message").to_owned()))
            .collect();
        events.sort();
        events
    }
}

/// Returns the names of the pods in a PodSet's status.
pub fn pods_of(set: &Value) -> Vec<&str> {
    let names = set.pointer("/status/podNames").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns a count of a PodSet's status.
pub fn count_of(set: &Value, count: &str) -> i64 {
    set["status"][count].as_i64().unwrap_or(-1)
}
