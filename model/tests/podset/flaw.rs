//! Seeded bugs, to show that the checker finds them.

use model::podset::{Creation, Deletion, DeletionReason, SetPod, Step, ValidPodSet};

use crate::pods::{SET, Uid};

/// A seeded bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Pods have generated names, as those of a ReplicaSet.
    GeneratedNames,
    /// A delete has no UID as a precondition.
    NoPrecondition,
    /// A change of an image has no resourceVersion as a precondition.
    NoVersion,
    /// The operator's own writes are not cached before the watch shows them.
    NoOwnWrites,
    /// Before an adoption, the set is not read again.
    NoUncachedRead,
    /// The owner of a pod is identified by name instead of UID.
    OwnerByName,
    /// The pod to replace is identified by name instead of UID.
    ChosenByName,
    /// The pod to replace is deleted before its successor is available.
    DeletedFirst,
}

/// Changes the input of the decision.
pub fn change_input(flaws: &[Flaw], set: &ValidPodSet, pods: &mut [SetPod]) {
    if flaws.contains(&Flaw::OwnerByName) {
        let name = format!("PodSet {SET}");
        let owners = pods.iter_mut().filter_map(|pod| pod.controller.as_mut());
        for owner in owners.filter(|owner| owner.name == name) {
            owner.uid.clone_from(&set.uid);
        }
    }
}

/// Changes the result of the decision.
pub fn change_step(flaws: &[Flaw], pods: &[SetPod], step: Step) -> Step {
    let Step::Create(creations) = step else {
        return step;
    };
    let Some(successor) = creations.iter().find(|creation| creation.replaces.is_some()) else {
        return Step::Create(creations);
    };
    if flaws.contains(&Flaw::DeletedFirst) {
        let chosen = pods.iter().find(|pod| successor.replaces.as_ref() == Some(&pod.uid));
        let deletions = chosen.map(|pod| Deletion {
            pod: model::podset::PodRef {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            },
            reason: DeletionReason::Replaced,
        });
        return Step::Delete(deletions.into_iter().collect());
    }
    Step::Create(creations)
}

/// Returns the pod that a creation replaces.
pub fn replaced(creation: &Creation) -> Option<Uid> {
    creation.replaces.as_deref().map(Uid::read)
}
