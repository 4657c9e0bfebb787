//! What was seen of an application's children: the few values that decisions and the status are made of.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DeploymentStatus;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::host::Place;
use crate::inverse::Additions;
use crate::pod::PodState;
use crate::{ChildKind, Digest};

/// The annotation in which the Deployment controller numbers revisions.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// What could be seen of one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sight<T> {
    /// It can't be listed; the text says why. Nothing is concluded and nothing is written.
    Blind(String),
    /// It is not there.
    #[default]
    Absent,
    /// It is there.
    Seen(T),
}

impl<T> Sight<T> {
    /// Returns what was seen, if anything.
    pub const fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(thing) => Some(thing),
            Self::Blind(_) | Self::Absent => None,
        }
    }
}

/// All that is known of one application's surroundings at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The Deployment of the application's name.
    pub deployment: Sight<Child>,
    /// The Service of the application's name.
    pub service: Sight<Child>,
    /// The Ingress of the application's name.
    pub ingress: Sight<Child>,
    /// The pods that carry the application's label.
    pub pods: Vec<PodState>,
    /// The classes of Ingress that the cluster has.
    pub ingress_classes: IngressClasses,
}

impl Observed {
    /// Returns what was seen of one kind of child.
    #[must_use]
    pub const fn child(&self, kind: ChildKind) -> &Sight<Child> {
        match kind {
            ChildKind::Deployment => &self.deployment,
            ChildKind::Service => &self.service,
            ChildKind::Ingress => &self.ingress,
        }
    }

    /// Returns the same without the children of others: a status must not tell of their pods and addresses.
    #[must_use]
    pub fn ours(&self, uid: &str) -> Self {
        let ours = |sight: &Sight<Child>| match sight {
            Sight::Seen(child) if !child.is_controlled_by(uid) => Sight::Absent,
            other => other.clone(),
        };
        Self {
            deployment: ours(&self.deployment),
            service: ours(&self.service),
            ingress: ours(&self.ingress),
            ..self.clone()
        }
    }
}

/// One child, as small as it can be kept: a cluster may have ten thousands of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Child {
    /// The identity of this very object.
    pub uid: String,
    /// The UID in its controller reference.
    pub controller: Option<String>,
    /// Its controller, in words for the case that this is somebody else.
    pub foreign_owner: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// What its deletion waits for.
    pub finalizers: Vec<String>,
    /// The hash that was written with it.
    pub desired_hash: Option<String>,
    /// Who owns its fields.
    pub managers: Managers,
    /// The fingerprint of its labels, annotations, owner references and spec.
    pub digest: Digest,
    /// What its status says.
    pub state: ChildState,
}

/// What the status of a child says.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ChildState {
    /// Nothing that matters.
    #[default]
    None,
    /// Of a Deployment.
    Deployment(Box<Rollout>),
    /// Of a Service: its cluster IP.
    Service(Option<String>),
    /// Of an Ingress.
    Ingress {
        /// The IP or host name of its load balancer.
        address: Option<String>,
        /// It names a class.
        has_class: bool,
        /// The places that it serves.
        places: Box<[Place]>,
    },
}

/// How far a Deployment is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The Deployment controller has seen the current spec.
    pub observed: bool,
    /// Pods that are wanted.
    pub wanted: i32,
    /// Pods that exist.
    pub replicas: i32,
    /// Pods of the current template.
    pub updated: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that have been ready for long enough.
    pub available: i32,
    /// Why the ReplicaSet can't create pods.
    pub refused: Option<String>,
    /// It made no progress for `progressDeadlineSeconds`.
    pub overdue: bool,
    /// Somebody has paused it.
    pub paused: bool,
    /// The number of its newest revision.
    pub revision: Option<i64>,
    /// The spec that it was last written from, as JSON.
    pub revision_spec: Option<String>,
    /// What its pods have that this spec does not stand for.
    pub additions: Additions,
}

impl Rollout {
    /// Whether every wanted pod runs the current template and is available, and no other is left: what
    /// `kubectl rollout status` waits for.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.observed && self.updated == self.wanted && self.replicas == self.wanted && self.available == self.wanted
    }
}

/// Who owns the fields of a child, as far as the next write depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    /// The place, in `managedFields`, of what the first write (a POST) left there. While it is there, an apply
    /// can't remove a field.
    pub created_entry: Option<usize>,
    /// We have applied before.
    pub applied: bool,
    /// Somebody else sets the number of replicas through the scale subresource, as an autoscaler does.
    pub scaled_by: Option<String>,
}

/// The IngressClasses of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IngressClasses {
    /// We may not read them.
    #[default]
    Unreadable,
    /// They are these.
    Known {
        /// Their names.
        names: BTreeSet<String>,
        /// One of them is the default.
        has_default: bool,
    },
}

impl IngressClasses {
    /// Whether somebody looks after an Ingress of this class (`None`: of no class in particular).
    #[must_use]
    pub fn apply_to(&self, class: Option<&str>) -> bool {
        match (self, class) {
            (Self::Unreadable, _) => false,
            (Self::Known { names, .. }, Some(class)) => names.contains(class),
            (Self::Known { has_default, .. }, None) => *has_default,
        }
    }
}

impl Child {
    /// Reads a live object: its metadata, and the rest of it as JSON (`spec` and `status`).
    #[must_use]
    pub fn read(kind: ChildKind, meta: &ObjectMeta, data: &Value) -> Self {
        let annotation = |key: &str| meta.annotations.as_ref()?.get(key).cloned();
        let whole = serde_json::json!({
            "metadata": {"labels": meta.labels, "annotations": meta.annotations, "ownerReferences": meta.owner_references},
        });
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            controller: controller(meta).map(|(_, uid)| uid.to_owned()),
            foreign_owner: foreign_owner(meta),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            desired_hash: annotation(crd::annotation::DESIRED_HASH),
            managers: managers(meta),
            digest: Digest::of_parts(&whole, data),
            state: match kind {
                ChildKind::Deployment => ChildState::Deployment(Box::new(rollout(
                    meta,
                    data,
                    annotation(crd::annotation::REVISION_SPEC),
                ))),
                ChildKind::Service => ChildState::Service(text(data, "/spec/clusterIP")),
                ChildKind::Ingress => ChildState::Ingress {
                    address: text(data, "/status/loadBalancer/ingress/0/ip")
                        .or_else(|| text(data, "/status/loadBalancer/ingress/0/hostname")),
                    has_class: text(data, "/spec/ingressClassName").is_some(),
                    places: places(data),
                },
            },
        }
    }

    /// Whether the controller reference carries this UID: only then is the object ours to write or delete.
    #[must_use]
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_deref() == Some(uid)
    }

    /// Whether it belongs to an AppDeploy of this name that was deleted: the garbage collector is about to take it.
    #[must_use]
    pub fn is_left_by_a_predecessor(&self, name: &str) -> bool {
        self.foreign_owner.as_deref() == Some(&*another(&format!("AppDeploy {name}")))
    }

    /// Whether its controller is an AppDeploy of this name: the one that exists, or a predecessor.
    #[must_use]
    pub fn is_of_app(&self, name: &str) -> bool {
        self.is_left_by_a_predecessor(name)
    }

    /// Returns the places that an Ingress serves.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        match &self.state {
            ChildState::Ingress { places, .. } => places,
            _ => &[],
        }
    }

    /// Returns the state of a Deployment.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        match &self.state {
            ChildState::Deployment(rollout) => Some(rollout),
            _ => None,
        }
    }

    /// Returns the address of a Service or an Ingress.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        match &self.state {
            ChildState::Service(address) | ChildState::Ingress { address, .. } => address.as_deref(),
            _ => None,
        }
    }

    /// Whether an Ingress names its class.
    #[must_use]
    pub const fn has_class(&self) -> Option<bool> {
        match self.state {
            ChildState::Ingress { has_class, .. } => Some(has_class),
            _ => None,
        }
    }
}

/// Returns "Kind name" and the UID of the object's controller.
#[must_use]
pub fn controller(meta: &ObjectMeta) -> Option<(String, &str)> {
    let owner = meta
        .owner_references
        .as_ref()?
        .iter()
        .find(|owner| owner.controller == Some(true))?;
    Some((format!("{} {}", owner.kind, owner.name), &owner.uid))
}

/// Names the controller of an object that is not ours. An AppDeploy is then another one, perhaps of the same
/// name: one that was deleted, and whose children the garbage collector is about to take.
#[must_use]
pub fn foreign_owner(meta: &ObjectMeta) -> Option<String> {
    let (owner, _) = controller(meta)?;
    let is_app = owner.starts_with("AppDeploy ");
    Some(if is_app { another(&owner) } else { owner })
}

fn another(owner: &str) -> String {
    format!("another {owner}")
}

fn managers(meta: &ObjectMeta) -> Managers {
    let mut managers = Managers::default();
    for (index, entry) in meta.managed_fields.iter().flatten().enumerate() {
        let ours = entry.manager.as_deref() == Some(crd::FIELD_MANAGER);
        match (
            entry.subresource.as_deref().unwrap_or_default(),
            entry.operation.as_deref(),
        ) {
            ("", Some("Update")) if ours => managers.created_entry = Some(index),
            ("", Some("Apply")) if ours => managers.applied = true,
            ("scale", _) if !ours => managers.scaled_by.clone_from(&entry.manager),
            _ => {}
        }
    }
    managers
}

fn rollout(meta: &ObjectMeta, data: &Value, revision_spec: Option<String>) -> Rollout {
    let status: DeploymentStatus = data
        .get("status")
        .and_then(|status| serde_json::from_value(status.clone()).ok())
        .unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().flatten().find(|c| c.type_ == type_);
    Rollout {
        observed: status.observed_generation >= meta.generation,
        wanted: data
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(1),
        replicas: status.replicas.unwrap_or(0),
        updated: status.updated_replicas.unwrap_or(0),
        ready: status.ready_replicas.unwrap_or(0),
        available: status.available_replicas.unwrap_or(0),
        refused: condition("ReplicaFailure")
            .filter(|c| c.status == "True")
            .and_then(|c| c.message.clone()),
        revision: meta
            .annotations
            .as_ref()
            .and_then(|all| all.get(REVISION)?.parse().ok()),
        paused: data.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or(false),
        overdue: condition("Progressing").is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded")),
        additions: Additions::read(data, revision_spec.as_deref()),
        revision_spec,
    }
}

fn places(data: &Value) -> Box<[Place]> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let rules = data.pointer("/spec/rules").map(list).unwrap_or_default();
    let of = |rule: Value| {
        let paths = rule.pointer("/http/paths").map(list).unwrap_or_default();
        let place = move |path: Value| Some(Place::new(rule["host"].as_str()?, path["path"].as_str().unwrap_or("/")));
        paths.into_iter().filter_map(place).collect::<Vec<_>>()
    };
    rules.into_iter().flat_map(of).collect()
}

fn text(data: &Value, pointer: &str) -> Option<String> {
    let text = data.pointer(pointer)?.as_str()?;
    // "None" is the cluster IP of a headless Service: no address.
    (!text.is_empty() && text != "None").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_is_complete_when_nothing_old_is_left() {
        let done = Rollout {
            observed: true,
            wanted: 2,
            replicas: 2,
            updated: 2,
            ready: 2,
            available: 2,
            ..Rollout::default()
        };
        assert!(done.is_complete());
        for not_done in [
            Rollout {
                observed: false,
                ..done.clone()
            },
            Rollout {
                replicas: 3,
                ..done.clone()
            },
            Rollout {
                updated: 1,
                ..done.clone()
            },
            Rollout {
                available: 1,
                ..done.clone()
            },
        ] {
            assert!(!not_done.is_complete(), "{not_done:?}");
        }
    }

    #[test]
    fn a_class_applies_if_it_exists_or_is_the_default() {
        let classes = |has_default| IngressClasses::Known {
            names: ["traefik".to_owned()].into(),
            has_default,
        };
        assert!(classes(false).apply_to(Some("traefik")) && classes(true).apply_to(None));
        assert!(!classes(true).apply_to(Some("nginx")) && !classes(false).apply_to(None));
        assert!(!IngressClasses::Unreadable.apply_to(Some("traefik")));
    }

    #[test]
    fn the_managers_of_a_child_are_read() {
        let meta: ObjectMeta = serde_json::from_value(json!({"managedFields": [
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status"},
            {"manager": "appdeploy", "operation": "Update"},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale"},
        ]}))
        .unwrap();
        let expected = Managers {
            created_entry: Some(1),
            applied: false,
            scaled_by: Some("kube-controller-manager".into()),
        };
        assert_eq!(managers(&meta), expected);
    }
}
