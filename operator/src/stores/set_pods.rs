//! The cached pods of PodSets.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::pod::PodState;
use model::podset::{PodRef, SetPod, StatusInput, StepInput};

use super::Store;
use crate::cache::{Equivalent, Item};
use crate::key::Key;
use crate::object_state::progress::Memory;

/// The reduced form of a pod.
#[derive(Clone, Debug)]
pub struct Member {
    /// What decides about it.
    pub pod: SetPod,
    /// Its state, from its status.
    pub state: PodState,
}

impl Equivalent for Member {
    /// The version of a pod is a precondition of a write, and decides nothing.
    fn is_equivalent(&self, other: &Self) -> bool {
        let pod = |member: &Self| SetPod {
            version: String::new(),
            ..member.pod.clone()
        };
        self.state == other.state && pod(self) == pod(other)
    }
}

impl Member {
    /// Whether no event will report its deletion: it is being deleted, and has lost the label by which the watch selects.
    #[must_use]
    pub const fn ends_unseen(&self) -> bool {
        self.pod.deleting && self.pod.label.is_none()
    }

    /// Returns the PodSet that may own a pod that a watch no longer reports. A pod that was not being deleted may still exist,
    /// without the label; then its set releases it.
    #[must_use]
    pub fn lost_by(&self, key: &Key) -> Option<(Key, PodRef)> {
        let SetPod { name, uid, .. } = &self.pod;
        let set = controller(&key.namespace, &self.pod).filter(|_| !self.pod.deleting)?;
        let pod = PodRef {
            name: name.clone(),
            uid: uid.clone(),
        };
        Some((set, pod))
    }
}

/// The pods that carry the label of a PodSet, or refer to one.
#[derive(Debug, Default)]
pub struct SetPods {
    /// The cached pods.
    pub kind: Arc<Store<Arc<Member>>>,
}

impl SetPods {
    /// Returns the cached pods of a PodSet.
    #[must_use]
    pub fn of(&self, set: &Key) -> Known {
        let members = self.kind.cache.members(set);
        Known {
            pods: members.iter().map(|member| member.pod.clone()).collect(),
            states: members.iter().map(|member| member.state.clone()).collect(),
        }
    }
}

/// The cached pods of a PodSet at one time.
#[derive(Clone, Debug)]
pub struct Known {
    /// What decides about them.
    pub pods: Vec<SetPod>,
    /// Their states, in the same order.
    pub states: Vec<PodState>,
}

impl Known {
    /// Returns what a decision is made by.
    #[must_use]
    pub const fn seen<'a>(&'a self, memory: &'a Memory, now: i64) -> StepInput<'a> {
        StepInput {
            pods: self.pods.as_slice(),
            taken: &memory.taken,
            pace: memory.pace,
            early_ends: memory.early_ends,
            now,
        }
    }

    /// Returns what a status is made from.
    #[must_use]
    pub fn knowledge<'a>(&'a self, memory: &'a Memory, now: i64, progressed_at: i64) -> StatusInput<'a> {
        StatusInput {
            step: self.seen(memory, now),
            states: self.states.as_slice(),
            progressed_at,
            dropped: memory.dropped.as_deref(),
        }
    }
}

/// Reduces a pod. Its changes queue the PodSet that its label names, and the PodSet that controls it.
#[must_use]
pub fn set_pod(pod: &Pod) -> Item<Arc<Member>> {
    let key = Key::of(&pod.metadata);
    let state = PodState::read(pod);
    let pod_version = pod.metadata.resource_version.clone().unwrap_or_default();
    let pod = SetPod::read(pod);
    let labelled = pod.label.as_ref().map(|set| Key::new(&key.namespace, set));
    Item {
        owners: labelled.into_iter().chain(controller(&key.namespace, &pod)).collect(),
        key,
        version: pod_version,
        value: Arc::new(Member { pod, state }),
    }
}

fn controller(namespace: &str, pod: &SetPod) -> Option<Key> {
    let (kind, name) = pod.controller.as_ref()?.name.split_once(' ')?;
    (kind == crd::Kind::PodSet.as_str()).then(|| Key::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn member(version: &str, labels: Value) -> Arc<Member> {
        let pod = json!({"metadata": {"name": "web-0", "namespace": "shop", "uid": "p1", "resourceVersion": version,
            "labels": labels}});
        set_pod(&serde_json::from_value(pod).unwrap()).value
    }

    #[test]
    fn versions_of_a_pod_are_equivalent_if_they_differ_in_nothing_that_decides() {
        let label = || json!({"appdeploy.dev/podset": "web"});
        let later = member("8", json!({"appdeploy.dev/podset": "web", "example.com/seen": "yes"}));
        assert!(member("7", label()).is_equivalent(&later));
        assert!(!member("7", label()).is_equivalent(&member("8", json!({}))));
    }
}
