//! What is broken on purpose, to see that the checks find it.

use model::podset::{Creation, Removal, SetPod, Step, Wanted, Why};

use crate::pods::{SET, Uid};

/// Something that a worse operator would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Pods get names that nobody else has, as those of a ReplicaSet do.
    GeneratedNames,
    /// A delete says the name and not the UID.
    NoPrecondition,
    /// A change of an image does not say which version of the pod it was decided on.
    NoVersion,
    /// What it has written it believes only when the watch says so.
    Deaf,
    /// It adopts for a set that its cache knows, and does not ask whether it is still there.
    NoUncachedRead,
    /// A pod whose controller has the set's name is the set's.
    OwnerByName,
    /// A pod is replaced because of its name, whatever its UID.
    ChosenByName,
    /// The pod that is to be replaced is deleted first.
    ChosenFirst,
}

/// What the decision is told.
pub fn told(flaws: &[Flaw], set: &Wanted, pods: &mut [SetPod]) {
    if flaws.contains(&Flaw::OwnerByName) {
        let name = format!("PodSet {SET}");
        let owners = pods.iter_mut().filter_map(|pod| pod.controller.as_mut());
        for owner in owners.filter(|owner| owner.name == name) {
            owner.uid.clone_from(&set.uid);
        }
    }
}

/// What is made of its step.
pub fn bent(flaws: &[Flaw], pods: &[SetPod], step: Step) -> Step {
    let Step::Create(creations) = step else {
        return step;
    };
    let Some(heir) = creations.iter().find(|creation| creation.replaces.is_some()) else {
        return Step::Create(creations);
    };
    if flaws.contains(&Flaw::ChosenFirst) {
        let chosen = pods.iter().find(|pod| heir.replaces.as_ref() == Some(&pod.uid));
        let removals = chosen.map(|pod| Removal {
            pod: model::podset::PodRef {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            },
            why: Why::Replaced,
        });
        return Step::Delete(removals.into_iter().collect());
    }
    Step::Create(creations)
}

/// Returns the pod that a creation replaces.
pub fn replaced(creation: &Creation) -> Option<Uid> {
    creation.replaces.as_deref().map(Uid::read)
}
