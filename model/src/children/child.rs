//! A child as it is cached: the few values that decisions and the status need.

use kube::core::ObjectMeta;
use serde_json::Value;

use super::ChildKind;
use crate::Digest;
use crate::ingress_path::IngressPath;
use crate::uid::Uid;

/// One child, as small as possible: a cluster may have tens of thousands of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Child {
    /// Its UID.
    pub uid: Uid,
    /// Its controller.
    pub controller: Option<Owner>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Box<[String]>,
    /// The hash of the desired object that was last written, from its annotation.
    pub desired_hash: Option<Box<str>>,
    /// The managers of its fields.
    pub managers: Managers,
    /// The digest of its labels, annotations, owner references and the fields in [`ChildKind::digest`].
    pub digest: Digest,
    /// Its state, by kind.
    pub state: ChildState,
}

/// The controller of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The UID in the controller reference.
    pub uid: Uid,
    /// Its kind and name, as in "`HelmRelease` web". `None` stands for an `AppDeploy` with the name of the child, as most are.
    pub name: Option<Box<str>>,
}

/// The cached part of the spec and the status of a child.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ChildState {
    /// Nothing is cached.
    #[default]
    None,
    /// The rollout of a Deployment.
    Rollout(Box<Rollout>),
    /// The cluster IP of a Service, once it has one.
    Address(Option<Box<str>>),
    /// The state of an Ingress.
    Route {
        /// The IP or host name of its load balancer.
        address: Option<Box<str>>,
        /// Whether it names a class.
        has_class: bool,
        /// The paths that it serves.
        paths: Box<[IngressPath]>,
    },
}

/// The rollout of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Whether the Deployment controller has seen the current spec.
    pub observed: bool,
    /// The desired number of pods.
    pub wanted: i32,
    /// The number of pods that exist.
    pub replicas: i32,
    /// The number of pods of the current template.
    pub updated: i32,
    /// The number of ready pods.
    pub ready: i32,
    /// The number of pods that have been ready for `minReadySeconds`.
    pub available: i32,
    /// The message of the condition `ReplicaFailure`: why pods can't be created.
    pub refused: Option<String>,
    /// Whether it made no progress for `progressDeadlineSeconds`.
    pub overdue: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// The number of its newest revision.
    pub revision: Option<i64>,
    /// The hash of the ConfigMaps, from the annotation of its pods.
    pub config_hash: Option<Box<str>>,
    /// The spec from which it was last written, as JSON.
    pub revision_spec: Option<String>,
}

impl Rollout {
    /// Whether all pods run the current template and are available, and no other pods are left, as for
    /// `kubectl rollout status`.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.observed && self.updated == self.wanted && self.replicas == self.wanted && self.available == self.wanted
    }
}

/// The managers of the fields of a child, as far as the next write depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    /// The index in `managedFields` of the entry of the first write (a POST). While it exists, an apply can't remove a field.
    pub created_entry: Option<u32>,
    /// Whether the operator has applied the child before.
    pub applied: bool,
    /// The manager that sets the number of replicas through the scale subresource, such as an autoscaler.
    pub scaled_by: Option<Box<str>>,
}

impl Child {
    /// Reads a live object: its metadata, and its other fields as JSON.
    #[must_use]
    pub fn read(kind: &ChildKind, meta: &ObjectMeta, data: &Value) -> Self {
        let annotation = |key: &str| Some(meta.annotations.as_ref()?.get(key)?.as_str().into());
        Self {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            controller: controller(meta).map(|(owner, uid)| Owner {
                uid: uid.into(),
                name: (app_of(&owner) != meta.name.as_deref()).then(|| owner.into()),
            }),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default().into(),
            desired_hash: annotation(crd::annotation::DESIRED_HASH),
            managers: managers(meta),
            digest: Digest::of_parts(meta, data, kind.digest),
            state: (kind.read)(meta, data),
        }
    }

    /// Whether the controller reference carries this UID. Only then may the object be written or deleted.
    #[must_use]
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|owner| owner.uid == uid.into())
    }

    /// Whether its controller is an `AppDeploy` of this name, whether that exists or was deleted. Then the garbage collector will
    /// delete the child. `name` is that of the child.
    #[must_use]
    pub fn is_of_app(&self, name: &str, app: &str) -> bool {
        self.controller.as_ref().is_some_and(|owner| match &owner.name {
            Some(owner) => app_of(owner) == Some(app),
            None => name == app,
        })
    }

    /// Returns how messages name the controller of a child that an app does not control. An `AppDeploy` is "another AppDeploy": it may
    /// have the name of the app, if it was deleted and the garbage collector has not deleted its children yet. `name` is that of the
    /// child.
    #[must_use]
    pub fn other_owner(&self, name: &str) -> Option<String> {
        let owner = self.controller.as_ref()?;
        let app = owner.name.as_deref().map_or(Some(name), app_of);
        app.map(|app| format!("another AppDeploy {app}"))
            .or_else(|| owner.name.as_deref().map(Into::into))
    }

    /// Returns the paths that an Ingress serves.
    #[must_use]
    pub fn paths(&self) -> &[IngressPath] {
        match &self.state {
            ChildState::Route { paths, .. } => paths,
            _ => &[],
        }
    }

    /// Returns the state of a Deployment.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        match &self.state {
            ChildState::Rollout(rollout) => Some(rollout),
            _ => None,
        }
    }

    /// Returns the address of a Service or an Ingress.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        match &self.state {
            ChildState::Address(address) | ChildState::Route { address, .. } => address.as_deref(),
            _ => None,
        }
    }

    /// Whether an Ingress names its class.
    #[must_use]
    pub const fn has_class(&self) -> Option<bool> {
        match self.state {
            ChildState::Route { has_class, .. } => Some(has_class),
            _ => None,
        }
    }
}

/// Returns "Kind name" and the UID of the controller of an object.
#[must_use]
pub fn controller(meta: &ObjectMeta) -> Option<(String, &str)> {
    let owner = meta
        .owner_references
        .as_ref()?
        .iter()
        .find(|owner| owner.controller == Some(true))?;
    Some((format!("{} {}", owner.kind, owner.name), &owner.uid))
}

/// Returns the name of an app from the kind and the name of a controller.
fn app_of(owner: &str) -> Option<&str> {
    owner.strip_prefix("AppDeploy ")
}

fn managers(meta: &ObjectMeta) -> Managers {
    let mut managers = Managers::default();
    for (index, entry) in (0..).zip(meta.managed_fields.iter().flatten()) {
        let ours = entry.manager.as_deref() == Some(crd::FIELD_MANAGER);
        match (
            entry.subresource.as_deref().unwrap_or_default(),
            entry.operation.as_deref(),
        ) {
            ("", Some("Update")) if ours => managers.created_entry = Some(index),
            ("", Some("Apply")) if ours => managers.applied = true,
            ("scale", _) if !ours => managers.scaled_by = entry.manager.as_deref().map(Into::into),
            _ => {}
        }
    }
    managers
}

/// Returns the address at a JSON pointer, unless it is empty or "None", as for a headless Service.
pub(crate) fn address(data: &Value, pointer: &str) -> Option<Box<str>> {
    let text = data.pointer(pointer)?.as_str()?;
    (!text.is_empty() && text != "None").then(|| text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deployment_is_complete_when_no_old_pods_are_left() {
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
    fn managers_of_a_child_are_read() {
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
