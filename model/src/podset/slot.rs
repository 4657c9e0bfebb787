//! Slots: the names that pods get, and who has them.
//!
//! A pod is called `<set>-<slot>`, lowest free slot first. A create that is repeated, by an operator that did not
//! hear the answer or by a second one, meets the first one's name and makes no second pod.

use std::collections::BTreeMap;

use super::{SetPod, Wanted};
use crate::Failure;

/// Who has the name of a slot that we would fill.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Taken {
    /// A pod that ends, or that the garbage collector is about to take. The slot waits for its name.
    Ending,
    /// A pod that we have let go. It may live for long, so the next free slot is taken instead.
    Released,
    /// A pod that was never ours. The slot stays empty, and the status says why.
    Foreign {
        /// "Kind name" of its controller.
        owner: Option<String>,
    },
}

impl Taken {
    /// Says what a pod is that has a name of ours and is not ours.
    #[must_use]
    pub fn by(pod: &SetPod, set: &Wanted) -> Self {
        let predecessor = format!("PodSet {}", set.name);
        let controller = pod.controller.as_ref();
        if pod.released_from.as_deref() == Some(&*set.uid) {
            Self::Released
        } else if pod.deleting || controller.is_some_and(|c| c.name == predecessor) {
            Self::Ending
        } else {
            Self::Foreign {
                owner: controller.map(|controller| controller.name.clone()),
            }
        }
    }
}

/// What becomes of the pods that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Slots to fill.
    pub free: Vec<u16>,
    /// Names that are waited for.
    pub ending: Vec<String>,
    /// Slots that stay empty.
    pub conflicts: Vec<Failure>,
}

/// Chooses a slot for each pod that is missing. `pods` is all that is known by label or reference; `taken` is what
/// creates have found out besides. A pod that should be gone by now gives up its slot: its node may never come back.
pub fn choose(set: &Wanted, pods: &[SetPod], taken: &BTreeMap<u16, Taken>, missing: usize, now: i64) -> Slots {
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
            Some(pod) if pod.belongs_to(set) => Some(Taken::Ending),
            Some(pod) => Some(Taken::by(pod, set)),
            None => taken.get(&slot).cloned(),
        };
        if holder == Some(Taken::Released) {
            continue;
        }
        left -= 1;
        match holder {
            None => slots.free.push(slot),
            Some(Taken::Foreign { owner }) => slots.conflicts.push(Failure::NameConflict {
                kind: "Pod",
                name,
                owner,
            }),
            Some(_) => slots.ending.push(name),
        }
    }
    slots
}
