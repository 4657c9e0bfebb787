//! The pods of PodSets, as far as they are known.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use model::pod::PodState;
use model::podset::{Knowledge, PodRef, Seen, SetPod};

use super::Store;
use crate::cache::Item;
use crate::key::Key;
use crate::reconcile::podset::Memory;

/// What is kept of a pod.
#[derive(Clone, Debug)]
pub struct Member {
    /// What decides about it.
    pub pod: SetPod,
    /// What it says about itself.
    pub state: PodState,
}

impl Member {
    /// Whether nobody will tell when it is gone: it ends, and has lost the label by which the watch selects.
    #[must_use]
    pub const fn ends_unseen(&self) -> bool {
        self.pod.deleting && self.pod.label.is_none()
    }
}

/// The pods that carry the label of a PodSet, or refer to one.
#[derive(Debug, Default)]
pub struct SetPods {
    /// What is known of them.
    pub kind: Arc<Store<Arc<Member>>>,
    /// Those that a watch no longer shows, by the PodSet that they referred to.
    lost: Mutex<HashMap<Key, BTreeMap<String, PodRef>>>,
}

impl SetPods {
    /// Takes in that a pod has vanished from the watch. One that was not about to end may still be there, and only
    /// have lost the label; then it is to be let go.
    pub fn lose(&self, key: &Key, member: &Member) {
        let SetPod { name, uid, .. } = &member.pod;
        let Some(set) = controller(&key.namespace, &member.pod).filter(|_| !member.pod.deleting) else {
            return;
        };
        let pod = PodRef {
            name: name.clone(),
            uid: uid.clone(),
        };
        self.lost().entry(set).or_default().insert(uid.clone(), pod);
    }

    /// Returns the pods of a PodSet that may have lost the label.
    #[must_use]
    pub fn lost_by(&self, set: &Key) -> Vec<PodRef> {
        self.lost()
            .get(set)
            .into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// Takes in that a pod was looked at.
    pub fn found(&self, set: &Key, pod: &PodRef) {
        let mut lost = self.lost();
        if let Some(pods) = lost.get_mut(set) {
            pods.remove(&pod.uid);
            if pods.is_empty() {
                lost.remove(set);
            }
        }
    }

    /// Takes in that a PodSet is gone: what it has lost is of no use to another one of its name.
    pub fn forget_lost(&self, set: &Key) {
        self.lost().remove(set);
    }

    /// Returns what is known of a PodSet's pods.
    #[must_use]
    pub fn of(&self, set: &Key) -> Known {
        let members = self.kind.cache.members(set);
        Known {
            pods: members.iter().map(|member| member.pod.clone()).collect(),
            states: members.iter().map(|member| member.state.clone()).collect(),
        }
    }

    // Nothing that can panic runs under the lock.
    fn lost(&self) -> MutexGuard<'_, HashMap<Key, BTreeMap<String, PodRef>>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a PodSet's pods at a time.
#[derive(Clone, Debug)]
pub struct Known {
    /// What decides about them.
    pub pods: Vec<SetPod>,
    /// What they say about themselves, in the same order.
    pub states: Vec<PodState>,
}

impl Known {
    /// Returns what a decision is made by.
    #[must_use]
    pub const fn seen<'a>(&'a self, memory: &'a Memory, now: i64) -> Seen<'a> {
        Seen {
            pods: self.pods.as_slice(),
            taken: &memory.taken,
            pace: memory.pace,
            early_ends: memory.early_ends,
            now,
        }
    }

    /// Returns what a status is made from.
    #[must_use]
    pub const fn knowledge<'a>(&'a self, memory: &'a Memory, now: i64, progressed_at: i64) -> Knowledge<'a> {
        Knowledge {
            seen: self.seen(memory, now),
            states: self.states.as_slice(),
            progressed_at,
        }
    }
}

/// Reduces a pod to what is kept of it. It concerns the PodSet that its label names, and the one that it refers to.
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
