//! Slots: the numbers in the names of pods.
//!
//! A pod is named `<set>-<slot>`, with the lowest free slot. A repeated create, after a lost response or by a second
//! operator, fails because the name exists, so no second pod is created.

use std::collections::BTreeMap;

use super::{SetPod, ValidPodSet};
use crate::Failure;

/// The pod that has the name of a slot, and is not an active pod of the set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NameHolder {
    /// A pod that is being deleted, or that the garbage collector will delete. The slot is filled after that.
    Terminating,
    /// A pod that the set has released. It may live for long, so the next free slot is used instead.
    Released,
    /// A pod that was never part of the set. The slot stays empty, and the status reports the conflict.
    ThirdParty {
        /// "Kind name" of its controller.
        owner: Option<String>,
    },
}

impl NameHolder {
    /// Classifies a pod that has the name of a slot and is not an active pod of the set.
    #[must_use]
    pub fn by(pod: &SetPod, set: &ValidPodSet) -> Self {
        let same_name = format!("PodSet {}", set.name);
        let controller = pod.controller.as_ref();
        if pod.released_from.as_deref() == Some(&*set.uid) {
            Self::Released
        } else if pod.deleting || controller.is_some_and(|c| c.name == same_name) {
            Self::Terminating
        } else {
            Self::ThirdParty {
                owner: controller.map(|controller| controller.name.clone()),
            }
        }
    }
}

/// The slots for missing pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Slots to fill now.
    pub free: Vec<u16>,
    /// Names of slots that can be filled after a deletion.
    pub terminating: Vec<String>,
    /// Why slots stay empty.
    pub conflicts: Vec<Failure>,
}

/// Chooses a slot for each missing pod. `pods` are the watched pods; `taken` are other names that creates have found taken.
/// The slot of a pod whose deletion is overdue is not used: its node may be lost forever.
pub fn choose(
    set: &ValidPodSet,
    pods: &[SetPod],
    taken: &BTreeMap<u16, NameHolder>,
    missing: usize,
    now: i64,
) -> Slots {
    let known: BTreeMap<u16, &SetPod> = pods
        .iter()
        .filter_map(|pod| Some((set.slot_of(&pod.name)?, pod)))
        .collect();
    let mut slots = Slots::default();
    let mut left = missing;
    for slot in 0..=u16::MAX {
        if left == 0 {
            break;
        }
        let name = set.pod_name(slot);
        let holder = match known.get(&slot) {
            Some(pod) if pod.belongs_to(set) && pod.is_active() => continue,
            Some(pod) if pod.is_overdue(now) => continue,
            Some(pod) if pod.belongs_to(set) => Some(NameHolder::Terminating),
            Some(pod) => Some(NameHolder::by(pod, set)),
            None => taken.get(&slot).cloned(),
        };
        if holder == Some(NameHolder::Released) {
            continue;
        }
        left -= 1;
        match holder {
            None => slots.free.push(slot),
            Some(NameHolder::ThirdParty { owner }) => slots.conflicts.push(Failure::NameConflict {
                kind: "Pod",
                name,
                owner,
            }),
            Some(_) => slots.terminating.push(name),
        }
    }
    slots
}
