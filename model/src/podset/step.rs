//! Decides which pods of a PodSet to create, delete, update, adopt or release next.

mod active;

use std::collections::BTreeMap;

use super::{ImageChange, NameHolder, SetPod, ValidPodSet, ended};
pub(super) use active::Active;

/// The input of [`next_step`].
#[derive(Clone, Copy, Debug)]
pub struct StepInput<'a> {
    /// All pods with the label of the set or a controller reference to it, including the results of the operator's own
    /// writes.
    pub pods: &'a [SetPod],
    /// The slots whose names were taken when a pod was to be created.
    pub taken: &'a BTreeMap<u16, NameHolder>,
    /// How many pods may be created at a time. It starts at one and doubles after each success, so that an error does not
    /// occur once for each pod.
    pub pace: usize,
    /// How often in a row pods have ended soon after their creation, as counted by [`super::early_ends`]. The more often, the
    /// later they are replaced.
    pub early_ends: u32,
    /// The current time, in seconds since 1970.
    pub now: i64,
}

/// Refers to a pod by name and UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Its name.
    pub name: String,
    /// Its UID, the precondition of each write.
    pub uid: String,
}

/// The next writes. The writes of one step are independent of each other and may be sent concurrently.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Release pods that have lost the label.
    Release(Vec<PodRef>),
    /// Adopt pods that have the label and no controller. The set must be read again first, because it may have been deleted.
    Adopt(Vec<PodRef>),
    /// Create pods.
    Create(Vec<Creation>),
    /// Delete pods.
    Delete(Vec<Deletion>),
    /// Change the image of pods.
    Update(Vec<Update>),
    /// Nothing, until a pod or the set changes, or until [`next_change_at`].
    Settled,
}

impl Step {
    /// Returns the first `limit` writes of this step. The others are part of the next step.
    #[must_use]
    pub fn at_most(mut self, limit: usize) -> Self {
        match &mut self {
            Self::Release(pods) | Self::Adopt(pods) => pods.truncate(limit),
            Self::Create(creations) => creations.truncate(limit),
            Self::Delete(deletions) => deletions.truncate(limit),
            Self::Update(updates) => updates.truncate(limit),
            Self::Settled => {}
        }
        self
    }

    /// Returns the pods that this step releases or deletes.
    pub fn removed_pods(&self) -> impl Iterator<Item = &PodRef> {
        let (released, deletions): (&[PodRef], &[Deletion]) = match self {
            Self::Release(pods) => (pods, &[]),
            Self::Delete(deletions) => (&[], deletions),
            Self::Adopt(_) | Self::Create(_) | Self::Update(_) | Self::Settled => (&[], &[]),
        };
        released.iter().chain(deletions.iter().map(|deletion| &deletion.pod))
    }
}

/// A pod to create.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Creation {
    /// Its slot.
    pub slot: u16,
    /// The UID of the pod that it replaces.
    pub replaces: Option<String>,
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deletion {
    /// The pod.
    pub pod: PodRef,
    /// Why it is deleted.
    pub reason: DeletionReason,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeletionReason {
    /// There are more pods than desired.
    Surplus,
    /// It has succeeded or failed, and its name is needed.
    Finished,
    /// It runs an older template.
    Outdated,
    /// The spec asks to replace it, and its successor is available.
    Replaced,
}

/// A pod whose image is to be changed in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Update {
    /// The pod.
    pub pod: PodRef,
    /// Its resourceVersion at the time of the decision, a precondition. A container that has restarted since then would be
    /// mistaken for one with the new image.
    pub version: String,
    /// The record of the change, which shows when the container has restarted.
    pub change: ImageChange,
}

/// Returns the next step. It is a pure function; repeated until [`Step::Settled`], it ends after finitely many steps.
#[must_use]
pub fn next_step(set: &ValidPodSet, input: StepInput<'_>) -> Step {
    first_step(set, input, &Stage::ALL)
}

/// Returns a step that is possible although another one has failed. Only later stages are considered. For example, existing
/// pods get a corrected image although a quota prevents the creation of others.
#[must_use]
pub fn next_step_despite(set: &ValidPodSet, input: StepInput<'_>, failed: &Step) -> Step {
    let later = Stage::ALL.iter().position(|stage| Some(*stage) == Stage::of(failed));
    first_step(set, input, later.map_or(&[], |at| &Stage::ALL[at + 1..]))
}

fn first_step(set: &ValidPodSet, input: StepInput<'_>, stages: &[Stage]) -> Step {
    if set.deleting {
        return Step::Settled;
    }
    let active = Active::of(set, input);
    let mut steps = stages.iter().filter_map(|stage| match stage {
        Stage::Release => lost(set, input),
        Stage::Adopt => found(set, input),
        Stage::Finished => finished(set, input),
        Stage::Surplus => active.surplus(),
        Stage::Missing => active.missing(),
        Stage::Replaced => active.replaced(),
        Stage::Outdated => active.outdated(),
    });
    steps.next().unwrap_or(Step::Settled)
}

/// The stages of a decision. The first one that has something to do determines the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Release,
    Adopt,
    Finished,
    Surplus,
    Missing,
    Replaced,
    Outdated,
}

impl Stage {
    const ALL: [Self; 7] = [
        Self::Release,
        Self::Adopt,
        Self::Finished,
        Self::Surplus,
        Self::Missing,
        Self::Replaced,
        Self::Outdated,
    ];

    /// Returns the stage that decided on a step.
    fn of(step: &Step) -> Option<Self> {
        match step {
            Step::Release(_) => Some(Self::Release),
            Step::Adopt(_) => Some(Self::Adopt),
            Step::Create(_) => Some(Self::Missing),
            Step::Update(_) => Some(Self::Outdated),
            Step::Delete(deletions) => deletions.first().map(|deletion| match deletion.reason {
                DeletionReason::Finished => Self::Finished,
                DeletionReason::Surplus => Self::Surplus,
                DeletionReason::Replaced => Self::Replaced,
                DeletionReason::Outdated => Self::Outdated,
            }),
            Step::Settled => None,
        }
    }
}

/// Returns the next time at which [`next_step`] or the number of available pods may change although no pod does, in seconds
/// since 1970.
#[must_use]
pub fn next_change_at(set: &ValidPodSet, input: StepInput<'_>) -> Option<i64> {
    let ours = || input.pods.iter().filter(|pod| pod.belongs_to(set) && !pod.deleting);
    let available = ours()
        .filter(|pod| pod.is_active())
        .filter_map(|pod| pod.available_at(set, input.now));
    // Third-party pods may have the name of a slot, too.
    let overdue = input.pods.iter().filter_map(SetPod::overdue_at);
    let finished = ours()
        .filter(|pod| !pod.is_active())
        .map(|pod| pod.created + ended::min_life(input.early_ends));
    available
        .chain(finished)
        .chain(overdue)
        .filter(|at| *at > input.now)
        .min()
}

/// Releases pods that are controlled by the set and have lost its label.
fn lost(set: &ValidPodSet, input: StepInput<'_>) -> Option<Step> {
    let pods = refs(input, |pod| {
        pod.is_controlled_by(set) && !pod.is_selected_by(set) && !pod.deleting
    });
    (!pods.is_empty()).then_some(Step::Release(pods))
}

/// Adopts pods that have the label of the set and no controller. Finished pods are adopted only if a set has created them:
/// they have the name of a slot, and are deleted after the adoption.
fn found(set: &ValidPodSet, input: StepInput<'_>) -> Option<Step> {
    let pods = refs(input, |pod| {
        let is_of_a_set = pod.template.is_some() && !pod.deleting;
        pod.controller.is_none() && pod.is_selected_by(set) && (pod.is_active() || is_of_a_set)
    });
    (!pods.is_empty()).then_some(Step::Adopt(pods))
}

fn refs(input: StepInput<'_>, is: impl Fn(&SetPod) -> bool) -> Vec<PodRef> {
    let pods = input.pods.iter().filter(|pod| is(pod));
    pods.map(PodRef::of).collect()
}

/// Deletes pods that have succeeded or failed.
fn finished(set: &ValidPodSet, input: StepInput<'_>) -> Option<Step> {
    let min_life = ended::min_life(input.early_ends);
    let ended = input.pods.iter().filter(|pod| {
        let old = pod.created + min_life <= input.now;
        pod.belongs_to(set) && !pod.deleting && !pod.is_active() && old
    });
    deletion(ended, DeletionReason::Finished)
}

impl PodRef {
    pub(super) fn of(pod: &SetPod) -> Self {
        Self {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }
}

impl Update {
    fn of(pod: &SetPod, set: &ValidPodSet, now: i64) -> Self {
        Self {
            pod: PodRef::of(pod),
            version: pod.version.clone(),
            change: pod.change_to(&set.image, now),
        }
    }
}

fn deletion<'a>(pods: impl IntoIterator<Item = &'a SetPod>, reason: DeletionReason) -> Option<Step> {
    let deletions: Vec<Deletion> = pods
        .into_iter()
        .map(|pod| Deletion {
            pod: PodRef::of(pod),
            reason,
        })
        .collect();
    (!deletions.is_empty()).then_some(Step::Delete(deletions))
}

#[cfg(test)]
mod tests;
