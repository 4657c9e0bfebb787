//! The decision: from what is wanted and what is there to the next thing to do.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::slot::{Slots, choose};
use super::visits::visit;
use super::{ImageChange, SetPod, Taken, Wanted, ended, rank};

/// What is known when a decision is made.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// All pods that carry the set's label or a reference to it, own writes included.
    pub pods: &'a [SetPod],
    /// The names that creates have found taken.
    pub taken: &'a BTreeMap<u16, Taken>,
    /// How many pods may be created at a time. It starts at one and doubles with each success: where creating
    /// one fails, creating a hundred would fail a hundred times.
    pub pace: usize,
    /// How often in a row pods have ended soon after they were created, as [`super::early_ends`] counts them: the
    /// more often, the later they are replaced.
    pub early_ends: u32,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// One pod, and no other of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Its name.
    pub name: String,
    /// Its identity, which every write carries as a precondition.
    pub uid: String,
}

/// What to do next. What stands in one step is independent of each other and may be done at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Let go pods that have lost the label.
    Release(Vec<PodRef>),
    /// Take in pods that have the label and no controller, if the set is still there when asked for anew.
    Adopt(Vec<PodRef>),
    /// Create pods.
    Create(Vec<Creation>),
    /// Delete pods.
    Delete(Vec<Removal>),
    /// Change the image of pods.
    Update(Vec<Update>),
    /// Nothing, until something changes or [`looks_again_at`].
    Settled,
}

impl Step {
    /// Returns the first `limit` parts of this step. What is left out is part of the next step.
    #[must_use]
    pub fn at_most(mut self, limit: usize) -> Self {
        match &mut self {
            Self::Release(pods) | Self::Adopt(pods) => pods.truncate(limit),
            Self::Create(creations) => creations.truncate(limit),
            Self::Delete(removals) => removals.truncate(limit),
            Self::Update(updates) => updates.truncate(limit),
            Self::Settled => {}
        }
        self
    }

    /// Returns the pods that the set has no more when it is done.
    pub fn given_up(&self) -> impl Iterator<Item = &PodRef> {
        let (released, removals): (&[PodRef], &[Removal]) = match self {
            Self::Release(pods) => (pods, &[]),
            Self::Delete(removals) => (&[], removals),
            Self::Adopt(_) | Self::Create(_) | Self::Update(_) | Self::Settled => (&[], &[]),
        };
        released.iter().chain(removals.iter().map(|removal| &removal.pod))
    }
}

/// A pod to create.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Creation {
    /// Its slot.
    pub slot: u16,
    /// The pod whose place it shall take.
    pub replaces: Option<String>,
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Removal {
    /// The pod.
    pub pod: PodRef,
    /// Why it goes.
    pub why: Why,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// There are more than are wanted.
    Surplus,
    /// It has ended for good, and its name is needed.
    Finished,
    /// It runs an older template.
    Outdated,
    /// A person wants another in its place, and the other one is available.
    Replaced,
}

/// A pod whose image to change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Update {
    /// The pod.
    pub pod: PodRef,
    /// The version of it that this was decided on. A container that has restarted since then would be taken for one of
    /// the new image.
    pub version: String,
    /// What to record on it, to see when another container runs.
    pub change: ImageChange,
}

/// Decides what to do next. The same arguments give the same step; doing it and asking again comes to
/// [`Step::Settled`] after finitely many steps.
#[must_use]
pub fn next_step(set: &Wanted, seen: Seen<'_>) -> Step {
    first_step(set, seen, &Stage::ALL)
}

/// Decides what can be done although a step has failed. Only the stages after that of the failed step are considered,
/// so a create that a quota refuses does not keep a corrected image from the existing pods.
#[must_use]
pub fn next_step_despite(set: &Wanted, seen: Seen<'_>, failed: &Step) -> Step {
    let later = Stage::ALL.iter().position(|stage| Some(*stage) == Stage::of(failed));
    first_step(set, seen, later.map_or(&[], |at| &Stage::ALL[at + 1..]))
}

fn first_step(set: &Wanted, seen: Seen<'_>, stages: &[Stage]) -> Step {
    if set.deleting {
        return Step::Settled;
    }
    let active = Active::of(set, seen);
    let mut steps = stages.iter().filter_map(|stage| match stage {
        Stage::Release => lost(set, seen),
        Stage::Adopt => found(set, seen),
        Stage::Finished => finished(set, seen),
        Stage::Surplus => active.surplus(),
        Stage::Missing => active.missing(),
        Stage::Replaced => active.replaced(),
        Stage::Outdated => active.outdated(),
    });
    steps.next().unwrap_or(Step::Settled)
}

/// The stages of a decision, in their order: the first that has something to do decides.
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
            Step::Delete(removals) => removals.first().map(|removal| match removal.why {
                Why::Finished => Self::Finished,
                Why::Surplus => Self::Surplus,
                Why::Replaced => Self::Replaced,
                Why::Outdated => Self::Outdated,
            }),
            Step::Settled => None,
        }
    }
}

/// Returns when, by the clock alone, [`next_step`] or the number of available pods may be another: a time in seconds
/// since 1970, later than `now`.
#[must_use]
pub fn looks_again_at(set: &Wanted, seen: Seen<'_>) -> Option<i64> {
    let ours = || seen.pods.iter().filter(|pod| pod.belongs_to(set) && !pod.deleting);
    let available = ours()
        .filter(|pod| pod.is_active())
        .filter_map(|pod| pod.available_at(set, seen.now));
    // A pod of another owner may hold a slot, too.
    let overdue = seen.pods.iter().filter_map(SetPod::overdue_at);
    let finished = ours()
        .filter(|pod| !pod.is_active())
        .map(|pod| pod.created + ended::min_life(seen.early_ends));
    available
        .chain(finished)
        .chain(overdue)
        .filter(|at| *at > seen.now)
        .min()
}

/// Pods that are controlled by the set and have lost its label.
fn lost(set: &Wanted, seen: Seen<'_>) -> Option<Step> {
    let pods = refs(seen, |pod| {
        pod.is_controlled_by(set) && !pod.is_selected_by(set) && !pod.deleting
    });
    (!pods.is_empty()).then_some(Step::Release(pods))
}

/// Pods that have the label of the set and no controller. Of those that have ended only a set's own, orphaned with their
/// set: they hold a name, and are deleted once they are adopted.
fn found(set: &Wanted, seen: Seen<'_>) -> Option<Step> {
    let pods = refs(seen, |pod| {
        let is_of_a_set = pod.template.is_some() && !pod.deleting;
        pod.controller.is_none() && pod.is_selected_by(set) && (pod.is_active() || is_of_a_set)
    });
    (!pods.is_empty()).then_some(Step::Adopt(pods))
}

fn refs(seen: Seen<'_>, is: impl Fn(&SetPod) -> bool) -> Vec<PodRef> {
    let pods = seen.pods.iter().filter(|pod| is(pod));
    pods.map(PodRef::of).collect()
}

/// Pods that have ended for good and hold a name.
fn finished(set: &Wanted, seen: Seen<'_>) -> Option<Step> {
    let min_life = ended::min_life(seen.early_ends);
    let ended = seen.pods.iter().filter(|pod| {
        let old = pod.created + min_life <= seen.now;
        pod.belongs_to(set) && !pod.deleting && !pod.is_active() && old
    });
    deletion(ended, Why::Finished)
}

fn deletion<'a>(pods: impl IntoIterator<Item = &'a SetPod>, why: Why) -> Option<Step> {
    let removals: Vec<Removal> = pods
        .into_iter()
        .map(|pod| Removal {
            pod: PodRef::of(pod),
            why,
        })
        .collect();
    (!removals.is_empty()).then_some(Step::Delete(removals))
}

/// The pods that count, the first to give up first.
pub(super) struct Active<'a> {
    set: &'a Wanted,
    seen: Seen<'a>,
    pub pods: Vec<&'a SetPod>,
    /// The successors of the pods that are to be replaced, by the UID of the latter.
    successors: HashMap<&'a str, &'a SetPod>,
}

impl<'a> Active<'a> {
    pub fn of(set: &'a Wanted, seen: Seen<'a>) -> Self {
        let mut pods: Vec<_> = seen
            .pods
            .iter()
            .inspect(|_| visit())
            .filter(|pod| pod.belongs_to(set) && pod.is_active())
            .collect();
        rank::sort(&mut pods, set, seen.now);
        let mut active = Self {
            set,
            seen,
            pods,
            successors: HashMap::new(),
        };
        active.successors = active.find_successors();
        active
    }

    fn find_successors(&self) -> HashMap<&'a str, &'a SetPod> {
        let chosen: HashSet<&str> = self.chosen().map(|pod| &*pod.uid).collect();
        let mut successors = HashMap::new();
        if !chosen.is_empty() {
            for pod in self.pods.iter().copied().inspect(|_| visit()) {
                let replaced = pod.replaces.as_deref().filter(|uid| chosen.contains(uid));
                if let Some(uid) = replaced.filter(|_| !self.is_chosen(pod)) {
                    successors.entry(uid).or_insert(pod);
                }
            }
        }
        successors
    }

    /// Returns the pods that a person wants others for.
    fn chosen(&self) -> impl Iterator<Item = &'a SetPod> + '_ {
        let pods = self.pods.iter().copied().inspect(|_| visit());
        pods.filter(|pod| self.is_chosen(pod))
    }

    fn is_chosen(&self, pod: &SetPod) -> bool {
        self.set.replace.contains(&pod.uid)
    }

    /// Returns the pod that takes the place of this one.
    fn successor(&self, of: &SetPod) -> Option<&'a SetPod> {
        self.successors.get(&*of.uid).copied()
    }

    /// Whether a pod takes the place of one that is to be replaced.
    fn is_successor(&self, pod: &SetPod) -> bool {
        let replaced = pod.replaces.as_deref();
        let successor = replaced.and_then(|uid| self.successors.get(uid));
        successor.is_some_and(|successor| successor.uid == pod.uid)
    }

    /// Returns how many pods there shall be: one more from when a chosen pod is to get a successor until it has made
    /// room for it.
    fn target(&self) -> usize {
        let replicas = self.set.replicas;
        let replacing = !self.successors.is_empty();
        // Where there is one too many already, that one goes first: else a person who adds a pod by hand while
        // another is replaced would end with one more for good.
        let beginning = self.chosen().next().is_some() && self.pods.len() <= replicas;
        replicas + usize::from(replicas > 0 && (replacing || beginning))
    }

    /// Returns which pod is being replaced, and by which.
    pub fn replacement(&self) -> Option<(&'a SetPod, Option<&'a SetPod>)> {
        let pairs = || self.chosen().map(|pod| (pod, self.successor(pod)));
        pairs()
            .find(|(_, successor)| successor.is_some())
            .or_else(|| pairs().next())
    }

    /// Returns the pods that were to be deleted and should be gone by now.
    pub fn overdue(&self) -> impl Iterator<Item = &'a SetPod> + '_ {
        let ours = self.seen.pods.iter().filter(|pod| pod.belongs_to(self.set));
        ours.filter(|pod| pod.is_overdue(self.seen.now))
    }

    /// Returns what becomes of the pods that are missing.
    pub fn slots(&self) -> Slots {
        let missing = self.target().saturating_sub(self.pods.len());
        choose(self.set, self.seen.pods, self.seen.taken, missing, self.seen.now)
    }

    fn surplus(&self) -> Option<Step> {
        let count = self.pods.len().checked_sub(self.target()).filter(|count| *count > 0)?;
        // Of those that are equally far, rather one that was chosen to go, and rather not the one that is to follow it.
        // Far is who is available: one that has just become ready is no reason to give up the chosen one.
        let mut order = self.pods.clone();
        if self.chosen().next().is_some() {
            order.sort_by_cached_key(|pod| (self.is_successor(pod), self.is_available(pod), !self.is_chosen(pod)));
        }
        let (surplus, kept) = order.split_at(count);
        let available = kept.iter().filter(|pod| self.is_available(pod)).count();
        // A chosen pod that may serve stays until the others do.
        let stays = |pod: &SetPod| {
            let may_be_missed = available >= self.set.replicas;
            !may_be_missed && self.is_chosen(pod) && pod.may_be_available(self.set, self.seen.now)
        };
        let surplus = surplus.iter().copied().filter(|pod| !stays(pod));
        deletion(surplus, Why::Surplus)
    }

    fn missing(&self) -> Option<Step> {
        let missing = self.target().saturating_sub(self.pods.len());
        let Slots { free, .. } = self.slots();
        // One at a time, so at most one successor.
        let begins = self.successors.is_empty() && self.target() > self.set.replicas;
        let mut heir = self.chosen().next().filter(|_| begins);
        // The place of the successor is the last to be filled: what is missing comes first.
        let fill = missing.saturating_sub(usize::from(heir.is_some()));
        let creations: Vec<Creation> = free
            .into_iter()
            .enumerate()
            .take(self.seen.pace.max(1))
            .map(|(at, slot)| Creation {
                slot,
                replaces: (at >= fill).then(|| heir.take()).flatten().map(|pod| pod.uid.clone()),
            })
            .collect();
        (!creations.is_empty()).then_some(Step::Create(creations))
    }

    fn replaced(&self) -> Option<Step> {
        let is_available = |pod: &SetPod| self.is_available(pod);
        let done = self.chosen().find(|pod| self.successor(pod).is_some_and(is_available));
        deletion(done, Why::Replaced)
    }

    fn is_available(&self, pod: &SetPod) -> bool {
        pod.is_available(self.set, self.seen.now)
    }

    fn outdated(&self) -> Option<Step> {
        if self.set.paused {
            return None;
        }
        let outdated = self.pods.iter().copied().filter(|pod| !pod.is_updated(self.set));
        let (may_serve, idle): (Vec<&SetPod>, Vec<&SetPod>) =
            outdated.partition(|pod| pod.may_be_available(self.set, self.seen.now));
        let turn = if idle.is_empty() {
            self.turn_of(may_serve)
        } else {
            // Those that don't serve anyway cost nothing.
            idle
        };
        let (in_place, anew): (Vec<&SetPod>, Vec<&SetPod>) =
            turn.into_iter().partition(|pod| pod.can_be_updated(self.set));
        if in_place.is_empty() {
            return deletion(anew, Why::Outdated);
        }
        let update = |pod| Update::of(pod, self.set, self.seen.now);
        Some(Step::Update(in_place.into_iter().map(update).collect()))
    }

    /// Returns which of the outdated pods that may serve are to be changed now.
    fn turn_of(&self, outdated: Vec<&'a SetPod>) -> Vec<&'a SetPod> {
        let available = self.pods.iter().filter(|pod| self.is_available(pod)).count();
        let unavailable = self.set.replicas.saturating_sub(available);
        // Where more are unavailable than may be, those in doubt may be the ones that serve.
        let Some(spare) = self.set.max_unavailable.checked_sub(unavailable) else {
            return Vec::new();
        };
        // While pods can't be created, one that may serve is not deleted: none would take its place.
        let creates_fail = self.missing().is_some();
        let stays = |pod: &&SetPod| !creates_fail || pod.can_be_updated(self.set);
        let (serving, in_doubt): (Vec<&SetPod>, Vec<&SetPod>) = outdated
            .into_iter()
            .filter(stays)
            .partition(|pod| self.is_available(pod));
        if in_doubt.is_empty() {
            serving.into_iter().take(spare).collect()
        } else {
            // They count as unavailable already.
            in_doubt
        }
    }
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
    fn of(pod: &SetPod, set: &Wanted, now: i64) -> Self {
        Self {
            pod: PodRef::of(pod),
            version: pod.version.clone(),
            change: pod.change_to(&set.image, now),
        }
    }
}

#[cfg(test)]
mod tests;
