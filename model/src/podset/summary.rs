//! The pods of a PodSet in numbers and names.

use std::collections::HashMap;

use crd::PodSet;

use super::slot::Slots;
use super::step::Active;
use super::visits::visit;
use super::{SetPod, StatusInput, ValidPodSet};
use crate::pod::{PodProblem, PodState};
use crate::reason::Reason;

/// The numbers that change when a pod set makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressCounts {
    generation: Option<i64>,
    /// The number of pods, and how many of them are updated, ready and available.
    counts: [i32; 4],
}

/// How long a pod set may make no progress, in seconds. The same as the default of a Deployment.
const PROGRESS_DEADLINE: i64 = 600;

/// The maximum number of pod names in a status. A longer list would be written again with each created or deleted pod.
const MAX_POD_NAMES: usize = 100;

/// The pods of a PodSet in numbers and names.
pub(super) struct Summary<'a> {
    pub valid: &'a ValidPodSet,
    input: StatusInput<'a>,
    pub active: Active<'a>,
}

impl<'a> Summary<'a> {
    pub fn of(valid: &'a ValidPodSet, input: StatusInput<'a>) -> Self {
        Self {
            valid,
            input,
            active: Active::of(valid, input.step),
        }
    }

    fn count(&self, is: impl Fn(&SetPod) -> bool) -> usize {
        self.active.pods.iter().filter(|pod| is(pod)).count()
    }

    pub fn ready(&self) -> usize {
        self.count(|pod| pod.ready_since.is_some())
    }

    pub fn available(&self) -> usize {
        self.count(|pod| pod.is_available(self.valid, self.input.step.now))
    }

    pub fn updated(&self) -> usize {
        self.count(|pod| pod.is_updated(self.valid) && !pod.is_updating(self.input.step.now))
    }

    pub fn terminating(&self) -> usize {
        let ours = self.input.step.pods.iter().filter(|pod| pod.belongs_to(self.valid));
        ours.filter(|pod| pod.deleting).count()
    }

    /// Whether all pods are available and updated, and none is to be replaced.
    pub fn is_settled(&self) -> bool {
        self.is_complete() && self.active.replacement().is_none()
    }

    /// Whether the number of pods is right, and all of them are available and updated.
    pub fn is_complete(&self) -> bool {
        let all = |count: usize| count == self.valid.replicas;
        all(self.active.pods.len()) && all(self.available()) && all(self.updated())
    }

    pub fn progress_counts(&self, set: &PodSet) -> ProgressCounts {
        let counts = [self.active.pods.len(), self.updated(), self.ready(), self.available()];
        ProgressCounts {
            generation: set.metadata.generation,
            counts: counts.map(|count| number(Some(count))),
        }
    }

    /// Returns the deadline for progress, in seconds since 1970.
    pub fn deadline(&self) -> Option<i64> {
        let waits = !self.is_settled() && !self.valid.deleting && !self.valid.paused;
        waits.then(|| self.input.progressed_at.saturating_add(PROGRESS_DEADLINE))
    }

    /// Whether the deadline for progress has passed. After a restart of the operator, the stored status shows that.
    pub fn is_late(&self, set: &PodSet) -> bool {
        let was_overdue = set.status.as_ref().is_some_and(|status| {
            let reason = Reason::ProgressDeadlineExceeded.as_str();
            let counts = [
                status.replicas,
                status.updated_replicas,
                status.ready_replicas,
                status.available_replicas,
            ];
            let before = ProgressCounts {
                generation: status.observed_generation,
                counts: counts.map(Option::unwrap_or_default),
            };
            status.cause.as_ref().is_some_and(|cause| cause.reason == reason) && before == self.progress_counts(set)
        });
        let deadline = self.deadline();
        deadline.is_some_and(|at| was_overdue || at <= self.input.step.now)
    }

    pub fn names(&self) -> Vec<String> {
        let mut pods: Vec<&SetPod> = self.active.pods.clone();
        // In numerical order: web-2 before web-10.
        pods.sort_by_key(|pod| (self.valid.slot_of(&pod.name).unwrap_or(u16::MAX), &pod.name));
        pods.into_iter()
            .take(MAX_POD_NAMES)
            .map(|pod| pod.name.clone())
            .collect()
    }

    /// Returns the problem to report, and its pod: pods of the current template first, then problems that need a change.
    pub fn problem(&self, now: i64) -> Option<(&PodState, PodProblem)> {
        self.states()
            .filter_map(|(updated, state)| Some((updated, state, state.problem_at(now)?)))
            .min_by_key(|(updated, _, problem)| (!updated, !problem.is_stalled(), problem.reason.as_str()))
            .map(|(_, state, problem)| (state, problem))
    }

    /// Returns the states of its pods, each with whether the pod runs the current template.
    pub fn states(&self) -> impl Iterator<Item = (bool, &'a PodState)> {
        let Self { valid, input, .. } = *self;
        let pods = input.step.pods.iter();
        let ours = pods.filter(move |pod| pod.belongs_to(valid) && !pod.deleting);
        let states = input.states.iter().inspect(|_| visit());
        let states: HashMap<&str, &PodState> = states.map(|state| (&*state.name, state)).collect();
        ours.filter_map(move |pod| {
            let state = *states.get(&*pod.name)?;
            Some((pod.is_updated(valid), state))
        })
    }

    /// Describes the progress in one sentence.
    pub fn describe(&self, slots: &Slots) -> String {
        let replicas = self.valid.replicas;
        if let Some((chosen, successor)) = self.active.replacement() {
            return match successor {
                Some(successor) => format!("replacing {}: {} is starting", chosen.name, successor.name),
                None => format!("replacing {}", chosen.name),
            };
        }
        if self.updated() < self.active.pods.len() {
            let in_place = |pod: &SetPod| pod.can_be_updated(self.valid) || pod.is_updated(self.valid);
            let (how, what) = if self.active.pods.iter().all(|pod| in_place(pod)) {
                ("updating in place", "image")
            } else {
                ("replacing the pods", "template")
            };
            return format!("{how}: {} of {replicas} pods run the new {what}", self.updated());
        }
        let ready = format!("{} of {replicas} pods are ready", self.ready().min(replicas));
        match slots.terminating.first() {
            Some(name) => format!("{ready}; {name} must end before its successor can have its name"),
            None if self.ready() >= replicas => format!("{ready}, {} for long enough", self.available().min(replicas)),
            None => ready,
        }
    }
}

/// Converts a count; 0 if it is not known.
pub(super) fn number(count: Option<usize>) -> i32 {
    count.map_or(0, |count| i32::try_from(count).unwrap_or(i32::MAX))
}
