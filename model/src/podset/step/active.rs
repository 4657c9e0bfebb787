//! The active pods of a PodSet, in the order in which they are deleted.

use std::collections::{HashMap, HashSet};

use super::super::slot::{Slots, choose};
use super::super::visits::visit;
use super::super::{SetPod, ValidPodSet, rank};
use super::{Creation, DeletionReason, Step, StepInput, Update, deletion};

/// The active pods of a PodSet, the first to delete first.
pub struct Active<'a> {
    set: &'a ValidPodSet,
    input: StepInput<'a>,
    pub pods: Vec<&'a SetPod>,
    /// The successors of the pods that are being replaced, by the UID of the replaced pod.
    successors: HashMap<&'a str, &'a SetPod>,
}

impl<'a> Active<'a> {
    pub fn of(set: &'a ValidPodSet, input: StepInput<'a>) -> Self {
        let mut pods: Vec<_> = input
            .pods
            .iter()
            .inspect(|_| visit())
            .filter(|pod| pod.belongs_to(set) && pod.is_active())
            .collect();
        rank::sort(&mut pods, set, input.now);
        let mut active = Self {
            set,
            input,
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

    /// Returns the pods that the spec asks to replace.
    fn chosen(&self) -> impl Iterator<Item = &'a SetPod> + '_ {
        let pods = self.pods.iter().copied().inspect(|_| visit());
        pods.filter(|pod| self.is_chosen(pod))
    }

    fn is_chosen(&self, pod: &SetPod) -> bool {
        self.set.replace.contains(&pod.uid)
    }

    /// Returns the pod that replaces this one.
    fn successor(&self, of: &SetPod) -> Option<&'a SetPod> {
        self.successors.get(&*of.uid).copied()
    }

    /// Whether a pod replaces one that is chosen.
    fn is_successor(&self, pod: &SetPod) -> bool {
        let replaced = pod.replaces.as_deref();
        let successor = replaced.and_then(|uid| self.successors.get(uid));
        successor.is_some_and(|successor| successor.uid == pod.uid)
    }

    /// Returns the target number of pods: one more than the replicas from the creation of a successor to the deletion of the
    /// pod that it replaces.
    fn target(&self) -> usize {
        let replicas = self.set.replicas;
        let replacing = !self.successors.is_empty();
        // A surplus pod is deleted first. Otherwise a pod that a user adds while another one is replaced would stay.
        let beginning = self.chosen().next().is_some() && self.pods.len() <= replicas;
        replicas + usize::from(replicas > 0 && (replacing || beginning))
    }

    /// Returns the pod that is being replaced, and its successor.
    pub fn replacement(&self) -> Option<(&'a SetPod, Option<&'a SetPod>)> {
        let pairs = || self.chosen().map(|pod| (pod, self.successor(pod)));
        pairs()
            .find(|(_, successor)| successor.is_some())
            .or_else(|| pairs().next())
    }

    /// Returns the pods whose deletion is overdue.
    pub fn overdue(&self) -> impl Iterator<Item = &'a SetPod> + '_ {
        let ours = self.input.pods.iter().filter(|pod| pod.belongs_to(self.set));
        ours.filter(|pod| pod.is_overdue(self.input.now))
    }

    /// Returns slots for the missing pods.
    pub fn slots(&self) -> Slots {
        let missing = self.target().saturating_sub(self.pods.len());
        choose(self.set, self.input.pods, self.input.taken, missing, self.input.now)
    }

    pub fn surplus(&self) -> Option<Step> {
        let count = self.pods.len().checked_sub(self.target()).filter(|count| *count > 0)?;
        // Among pods that are equally available, chosen pods are deleted first and successors last. Readiness alone does
        // not count: a pod that has just become ready must not displace a chosen one.
        let mut order = self.pods.clone();
        if self.chosen().next().is_some() {
            order.sort_by_cached_key(|pod| (self.is_successor(pod), self.is_available(pod), !self.is_chosen(pod)));
        }
        let (surplus, kept) = order.split_at(count);
        let available = kept.iter().filter(|pod| self.is_available(pod)).count();
        // A chosen pod that may serve is kept until enough other pods are available.
        let stays = |pod: &SetPod| {
            let is_dispensable = available >= self.set.replicas;
            !is_dispensable && self.is_chosen(pod) && pod.may_be_available(self.set, self.input.now)
        };
        let surplus = surplus.iter().copied().filter(|pod| !stays(pod));
        deletion(surplus, DeletionReason::Surplus)
    }

    pub fn missing(&self) -> Option<Step> {
        let missing = self.target().saturating_sub(self.pods.len());
        let Slots { free, .. } = self.slots();
        // Pods are replaced one after the other, so there is at most one successor.
        let begins = self.successors.is_empty() && self.target() > self.set.replicas;
        let mut chosen = self.chosen().next().filter(|_| begins);
        // Missing pods are created before the successor.
        let fill = missing.saturating_sub(usize::from(chosen.is_some()));
        let creations: Vec<Creation> = free
            .into_iter()
            .enumerate()
            .take(self.input.pace.max(1))
            .map(|(at, slot)| Creation {
                slot,
                replaces: (at >= fill).then(|| chosen.take()).flatten().map(|pod| pod.uid.clone()),
            })
            .collect();
        (!creations.is_empty()).then_some(Step::Create(creations))
    }

    pub fn replaced(&self) -> Option<Step> {
        let is_available = |pod: &SetPod| self.is_available(pod);
        let done = self.chosen().find(|pod| self.successor(pod).is_some_and(is_available));
        deletion(done, DeletionReason::Replaced)
    }

    fn is_available(&self, pod: &SetPod) -> bool {
        pod.is_available(self.set, self.input.now)
    }

    pub fn outdated(&self) -> Option<Step> {
        if self.set.paused {
            return None;
        }
        let outdated = self.pods.iter().copied().filter(|pod| !pod.is_updated(self.set));
        let (may_serve, idle): (Vec<&SetPod>, Vec<&SetPod>) =
            outdated.partition(|pod| pod.may_be_available(self.set, self.input.now));
        let turn = if idle.is_empty() {
            self.turn_of(may_serve)
        } else {
            // Pods that do not serve are changed first, all of them.
            idle
        };
        let (in_place, others): (Vec<&SetPod>, Vec<&SetPod>) =
            turn.into_iter().partition(|pod| pod.can_be_updated(self.set));
        if in_place.is_empty() {
            return deletion(others, DeletionReason::Outdated);
        }
        let update = |pod| Update::of(pod, self.set, self.input.now);
        Some(Step::Update(in_place.into_iter().map(update).collect()))
    }

    /// Returns which of the outdated pods that may serve are changed next.
    fn turn_of(&self, outdated: Vec<&'a SetPod>) -> Vec<&'a SetPod> {
        let available = self.pods.iter().filter(|pod| self.is_available(pod)).count();
        let unavailable = self.set.replicas.saturating_sub(available);
        // More pods are unavailable than allowed. Pods in doubt may be those that serve.
        let Some(spare) = self.set.max_unavailable.checked_sub(unavailable) else {
            return Vec::new();
        };
        // While pods can't be created, a pod that may serve is not deleted, because no other would replace it.
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
