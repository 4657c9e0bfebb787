//! Scenarios: user actions, step by step, and when each step has settled.

use serde_json::{Value, json};

use super::call::Call;
use super::history::{ObjectVersion, existing, text, version};
use super::invariant::THIRD_PARTY;
use super::kind::{APP, INGRESS, Kind, POD, PODSET, SERVICE};
use super::service::{Outside, Server};

/// A scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// Whether there is a standby operator. The holder of the Lease writes, which at first is the operator into whose
    /// calls the fault is injected.
    pub is_led: bool,
    /// Whether a hostile tenant has a second namespace, which the operator also manages.
    pub has_tenant: bool,
    /// Whether API servers call the operator's webhooks.
    pub has_webhooks: bool,
    /// The queue server of its AppQueues, if it has any.
    pub queues: Option<Server>,
}

impl Scenario {
    pub(super) fn new(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            name,
            steps,
            is_led: false,
            has_tenant: false,
            has_webhooks: false,
            queues: None,
        }
    }

    /// Returns whether faults are injected into a call. A scenario with AppQueues leaves the calls for other kinds to the
    /// other scenarios.
    pub(super) fn concerns(&self, call: &Call) -> bool {
        let resource = call.resource.split('/').next().unwrap_or_default();
        let is_of_queues = matches!(resource, "appqueues" | "configmaps" | "secrets" | "events");
        self.queues.is_none() || call.is_outside() || is_of_queues
    }

    pub(super) fn with_queues(self, server: Server) -> Self {
        Self {
            queues: Some(server),
            ..self
        }
    }

    pub(super) fn with_tenant(self) -> Self {
        Self {
            has_tenant: true,
            ..self
        }
    }

    pub(super) fn with_webhooks(self) -> Self {
        Self {
            has_webhooks: true,
            ..self
        }
    }

    fn led(self) -> Self {
        Self { is_led: true, ..self }
    }
}

/// A user action.
#[derive(Debug, Clone)]
pub struct Step {
    /// The action.
    pub user_action: UserAction,
    /// Returns, from the history and the object after the action, whether the operator is done with the step.
    pub settled: fn(&[ObjectVersion], &Value) -> bool,
}

/// The action.
#[derive(Debug, Clone)]
pub enum UserAction {
    /// An object is created.
    Create(Kind, Value),
    /// An object is changed by a merge patch.
    Patch(Kind, &'static str, Value),
    /// An object is deleted.
    Delete(Kind, &'static str),
    /// An object is applied by another field manager.
    Apply(Kind, Value),
    /// The status of an object is applied by another field manager.
    ApplyStatus(Kind, Value),
    /// An object is created with an owner reference to the app `web` of the run as its controller.
    CreateOwned(Kind, Value),
    /// An action in the tenant's namespace.
    ByTenant(Box<UserAction>),
    /// An action that the API server may reject.
    Attempt(Box<UserAction>),
    /// An action outside the cluster.
    Outside(Outside),
}

impl UserAction {
    /// Returns whether the action may create an object.
    #[must_use]
    pub fn is_creation(&self) -> bool {
        match self {
            Self::Create(..) | Self::Apply(..) | Self::CreateOwned(..) => true,
            Self::Patch(..) | Self::Delete(..) | Self::ApplyStatus(..) | Self::Outside(_) => false,
            Self::ByTenant(user_action) | Self::Attempt(user_action) => user_action.is_creation(),
        }
    }
}

/// Returns the scenarios of AppDeploys and PodSets without a hostile tenant.
pub(super) fn of_apps_and_sets() -> Vec<Scenario> {
    let image = json!({"image": "nginx:1.28"});
    vec![
        Scenario::new("app-create", vec![app("web", json!({}))]),
        Scenario::new(
            "app-image",
            vec![app("web", json!({})), change(APP, "web", image.clone())],
        ),
        Scenario::new(
            "app-change",
            vec![
                app("web", json!({})),
                change(APP, "web", json!({"port": 8080})),
                change(APP, "web", json!({"replicas": 3})),
                change(APP, "web", json!({"host": "shop.example.com"})),
            ],
        ),
        Scenario::new(
            "app-delete",
            vec![app("web", json!({})), delete(APP, "web", only_bystanders)],
        ),
        Scenario::new(
            "app-heal",
            vec![
                app("web", json!({})),
                delete(SERVICE, "web", is_back),
                delete(INGRESS, "web", is_back),
                Step {
                    user_action: UserAction::Patch(
                        SERVICE,
                        "web",
                        json!({"spec": {"selector": {crd::label::APP: "other"}}}),
                    ),
                    settled: is_rewritten,
                },
            ],
        ),
        Scenario::new(
            "app-hosts",
            vec![
                app("web", json!({"host": "shop.example.com"})),
                Step {
                    settled: is_refused_the_host,
                    ..app("web-too", json!({"host": "shop.example.com"}))
                },
                delete(APP, "web", the_other_is_ready),
            ],
        ),
        // These names are taken by third-party objects.
        Scenario::new(
            "app-taken",
            vec![Step {
                settled: is_refused_the_names,
                ..app(THIRD_PARTY, json!({}))
            }],
        ),
        Scenario::new(
            "set-scale",
            vec![
                set(0),
                change(PODSET, "set", json!({"replicas": 5})),
                change(PODSET, "set", json!({"replicas": 2})),
                change(PODSET, "set", json!({"replicas": 0})),
            ],
        ),
        Scenario::new(
            "set-template",
            vec![
                set(2),
                change(
                    PODSET,
                    "set",
                    json!({"template": {"env": [{"name": "COLOR", "value": "blue"}]}}),
                ),
            ],
        ),
        Scenario::new(
            "set-release",
            vec![
                set(2),
                Step {
                    user_action: UserAction::Patch(
                        POD,
                        "set-0",
                        json!({"metadata": {"labels": {crd::label::PODSET: null}}}),
                    ),
                    settled: is_released,
                },
            ],
        ),
        Scenario::new("set-delete", vec![set(2), delete(PODSET, "set", only_bystanders)]),
        Scenario::new("led-app", vec![app("web", json!({})), change(APP, "web", image)]).led(),
        Scenario::new("led-set", vec![set(2), change(PODSET, "set", json!({"replicas": 1}))]).led(),
    ]
}

/// Creates an app, with additional fields.
pub(super) fn app(name: &'static str, more: Value) -> Step {
    let mut spec = json!({"image": "nginx:1.27", "port": 80, "replicas": 2});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    Step {
        user_action: UserAction::Create(APP, json!({"metadata": {"name": name}, "spec": spec})),
        settled: is_ready,
    }
}

/// Creates a pod set.
fn set(replicas: u32) -> Step {
    let spec = json!({"replicas": replicas, "template": {"image": "nginx:1.27"}});
    Step {
        user_action: UserAction::Create(PODSET, json!({"metadata": {"name": "set"}, "spec": spec})),
        settled: is_ready,
    }
}

/// Changes fields of a spec.
pub(super) fn change(kind: Kind, name: &'static str, spec: Value) -> Step {
    Step {
        user_action: UserAction::Patch(kind, name, json!({"spec": spec})),
        settled: is_ready,
    }
}

pub(super) fn delete(kind: Kind, name: &'static str, settled: fn(&[ObjectVersion], &Value) -> bool) -> Step {
    Step {
        user_action: UserAction::Delete(kind, name),
        settled,
    }
}

/// Returns whether the status of the object after the action, or of a later version, is ready.
pub(super) fn is_ready(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let number = |value: &Value| value.pointer("/metadata/generation").and_then(Value::as_i64);
    existing
        .get(text(left, "/metadata/uid"))
        .is_some_and(|seen| number(&seen.object) >= number(left) && ready(&seen.object) == Some(("True", "")))
}

/// Returns the status of the Ready condition, and its reason if that is not `True`; `None` before the operator has
/// written it for the current spec.
pub(super) fn ready(object: &Value) -> Option<(&str, &str)> {
    let status = object.get("status")?;
    let condition = status["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == "Ready")?;
    let is_current = status["observedGeneration"] == object["metadata"]["generation"];
    let (word, reason) = (text(condition, "/status"), text(condition, "/reason"));
    is_current.then_some((word, if word == "True" { "" } else { reason }))
}

/// Returns whether only third-party objects are left.
fn only_bystanders(history: &[ObjectVersion], _: &Value) -> bool {
    existing(history).values().all(|seen| seen.name() == THIRD_PARTY)
}

/// Returns whether another object has the name of a deleted one.
fn is_back(history: &[ObjectVersion], left: &Value) -> bool {
    let named =
        |seen: &&ObjectVersion| seen.object["kind"] == left["kind"] && seen.name() == text(left, "/metadata/name");
    let uid = text(left, "/metadata/uid");
    existing(history)
        .into_values()
        .filter(named)
        .any(|seen| seen.uid() != uid)
}

/// Returns whether the object was written after the action.
pub(super) fn is_rewritten(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let seen = existing.get(text(left, "/metadata/uid"));
    seen.is_some_and(|seen| seen.version() > version(left))
}

/// Returns whether the app reports that its host is taken.
fn is_refused_the_host(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let seen = existing.get(text(left, "/metadata/uid"));
    seen.is_some_and(|seen| ready(&seen.object) == Some(("False", "HostConflict")))
}

/// Returns whether the app reports that the names of its children are taken.
fn is_refused_the_names(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let seen = existing.get(text(left, "/metadata/uid"));
    seen.is_some_and(|seen| ready(&seen.object) == Some(("False", "NameConflict")))
}

/// Returns whether the app that waited for a host has it, and the app that had it before was deleted.
fn the_other_is_ready(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let of = |name: &str| existing.values().filter(|seen| seen.name() == name).count();
    let mut apps = existing.values().filter(|seen| seen.resource == APP.plural());
    of(text(left, "/metadata/name")) == 0 && apps.all(|seen| ready(&seen.object) == Some(("True", "")))
}

/// Returns whether the pod has no controller any more, another pod replaces it, and the set has been ready since: its status may
/// still be that of before, and a new pod without a probe counts as available only after some seconds.
fn is_released(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let pods = existing.values().filter(|seen| seen.resource == POD.plural());
    let (owned, free): (Vec<&ObjectVersion>, Vec<&ObjectVersion>) =
        pods.partition(|seen| !seen.controllers().is_empty());
    let mut sets = existing.values().filter(|seen| seen.resource == PODSET.plural());
    free.iter().any(|seen| seen.uid() == text(left, "/metadata/uid"))
        && owned.len() == 2
        && sets.all(|set| {
            let is_newest = owned.iter().all(|pod| pod.version() < set.version());
            is_newest && ready(&set.object) == Some(("True", ""))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pod_is_replaced_once_the_set_is_ready_after_it() {
        let pod = |name: &str, version: u64, owned: bool| {
            let owner = json!([{"kind": "PodSet", "name": "set", "uid": "s", "controller": true}]);
            let owners = if owned { owner } else { json!([]) };
            ObjectVersion {
                resource: POD.plural(),
                object: json!({"metadata": {"uid": name, "resourceVersion": version.to_string(), "ownerReferences": owners}}),
                deleted: false,
            }
        };
        let set = |version: u64, ready: &str| ObjectVersion {
            resource: PODSET.plural(),
            object: json!({"metadata": {"uid": "s", "resourceVersion": version.to_string(), "generation": 1},
                "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": ready}]}}),
            deleted: false,
        };
        let left = json!({"metadata": {"uid": "free"}});
        let released = |set| {
            let pods = [pod("old", 3, true), pod("free", 6, false), pod("new", 7, true)];
            is_released(&pods.into_iter().chain([set]).collect::<Vec<_>>(), &left)
        };
        assert!(!released(set(5, "True")), "the status is that of before");
        assert!(!released(set(8, "False")), "the new pod is not available yet");
        assert!(released(set(9, "True")));
    }

    fn seen(generation: i64, observed: i64, ready: &str) -> ObjectVersion {
        let status = json!({"observedGeneration": observed, "conditions": [{"type": "Ready", "status": ready}]});
        ObjectVersion {
            resource: "appdeploys",
            object: json!({"metadata": {"uid": "a", "generation": generation}, "status": status}),
            deleted: false,
        }
    }

    #[test]
    fn ready_is_that_of_the_newest_generation() {
        let left = seen(2, 1, "True").object;
        assert!(is_ready(&[seen(2, 2, "True")], &left));
        assert!(is_ready(&[seen(3, 3, "True")], &left));
        assert!(
            !is_ready(&[seen(1, 1, "True")], &left),
            "the user_action was not seen yet"
        );
        assert!(!is_ready(&[seen(2, 1, "True")], &left));
        assert!(!is_ready(&[seen(2, 2, "False")], &left));
        assert!(!is_ready(&[], &left));
    }
}
