//! The status of a PodSet, written on every outcome.

use std::collections::HashMap;
use std::time::Duration;

use crd::status::condition;
use crd::{Cause, PodSet, PodSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::slot::Slots;
use super::step::{Active, looks_again_at};
use super::visits::visit;
use super::{Seen, SetPod, Wanted};
use crate::diagnose::{Diagnosis, Reason, Subject, describe_pods, detail, diagnose_pod, of_failure, said};
use crate::pod::{PodState, Question, Trouble};
use crate::status::Conditions;
use crate::{Failure, command};

/// What is known of a PodSet's pods.
#[derive(Clone, Copy, Debug)]
pub struct Knowledge<'a> {
    /// What decides about them.
    pub seen: Seen<'a>,
    /// What they say about themselves.
    pub states: &'a [PodState],
    /// Since when [`marks`] have been what they are, in seconds since 1970.
    pub progressed_at: i64,
}

/// What changes when a set makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    generation: Option<i64>,
    counts: [i32; 4],
}

/// How long a set may make no progress, in seconds: as long as a Deployment by default.
const PROGRESS_DEADLINE: i64 = 600;

/// The most pods that a status names: more would be written again with every pod that comes or goes.
const MAX_POD_NAMES: usize = 100;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To create a pod.
    Create,
    /// To delete a pod.
    Delete,
    /// Anything else.
    Other,
}

/// Something that was tried and failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodError {
    /// What was tried.
    pub verb: Verb,
    /// Why it failed.
    pub failure: Failure,
}

impl From<Failure> for PodError {
    fn from(failure: Failure) -> Self {
        Self {
            verb: Verb::Other,
            failure,
        }
    }
}

/// Says how a PodSet is.
///
/// Of the status that `set` has, only the times at which conditions last changed are kept. Two calls that differ in
/// nothing but `now` give the same status, until [`changes_in`] has passed.
#[must_use]
pub fn status(
    set: &PodSet,
    wanted: Option<&Wanted>,
    known: Knowledge<'_>,
    hindrances: &[PodError],
    now: Timestamp,
) -> PodSetStatus {
    let name = set.name_any();
    let subject = Subject {
        kind: crd::Kind::PodSet,
        name: &name,
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        pod: Some(set.spec.pod()),
        deleting: set.metadata.deletion_timestamp.is_some(),
        now: known.seen.now,
        needs_address: false,
    };
    let outlook = wanted.map(|wanted| Outlook::of(wanted, known));
    let is_late = outlook.as_ref().is_some_and(|outlook| outlook.is_late(set));
    let mut found = diagnose(subject, outlook.as_ref(), hindrances, is_late);
    let overdue = outlook.as_ref().and_then(|outlook| of_overdue(subject, outlook));
    if let Some(overdue) = &overdue
        && found.reason == Reason::Available
    {
        found.message = format!("{}; {}", found.message, overdue.message);
        found.next.clone_from(&overdue.next);
    }
    let is_cause = |found: &&Diagnosis| !found.reason.is_ready() && !found.reason.is_progress();
    let seen = outlook.as_ref();
    PodSetStatus {
        observed_generation: set.metadata.generation,
        restarted_at: set.annotations().get(crd::annotation::RESTARTED_AT).cloned(),
        replicas: Some(number(seen.map(|outlook| outlook.active.pods.len()))),
        ready_replicas: Some(number(seen.map(Outlook::ready))),
        available_replicas: Some(number(seen.map(Outlook::available))),
        updated_replicas: Some(number(seen.map(Outlook::updated))),
        terminating_replicas: Some(number(seen.map(Outlook::terminating))),
        pod_names: outlook.as_ref().map(Outlook::names).unwrap_or_default(),
        selector: Some(crd::Kind::PodSet.pod_selector(&name)),
        cause: Some(&found).filter(is_cause).or(overdue.as_ref()).map(|found| Cause {
            reason: found.reason.as_str().to_owned(),
            message: found.message.clone(),
            next: found.next.as_ref().map(ToString::to_string),
        }),
        conditions: conditions(set, &found, hindrances, now),
    }
}

/// Returns what changes when a set makes progress, to tell since when it has made none.
#[must_use]
pub fn marks(set: &PodSet, wanted: &Wanted, known: Knowledge<'_>) -> Marks {
    Outlook::of(wanted, known).marks(set)
}

/// Returns the names that are needed and are taken by pods of others. Nothing can be done about them but to look again.
#[must_use]
pub fn conflicts(wanted: &Wanted, seen: Seen<'_>) -> Vec<Failure> {
    if wanted.deleting {
        return Vec::new();
    }
    Active::of(wanted, seen).slots().conflicts
}

/// Says what a pod died of that is deleted because it had ended.
#[must_use]
pub fn obituary(set: &PodSet, pod: &str, state: Option<&PodState>) -> String {
    let trouble = state.and_then(|state| state.trouble.as_ref());
    match trouble.map(|trouble| (trouble.reason.as_str(), trouble.detail_for(Some(set.spec.pod())))) {
        Some((reason, detail)) if detail.is_empty() => format!("{pod} has ended ({reason})"),
        Some((reason, detail)) => format!("{pod} has ended ({reason}): {detail}"),
        None => format!("{pod} has ended by itself"),
    }
}

/// Returns how long it takes until the clock alone makes [`super::next_step`] or [`status`] say something else.
#[must_use]
pub fn changes_in(wanted: &Wanted, known: Knowledge<'_>) -> Option<Duration> {
    let now = known.seen.now;
    let states = known.states.iter().filter_map(|state| state.changes_at(now));
    let deadline = Outlook::of(wanted, known).deadline().filter(|at| *at > now);
    let at = states.chain(looks_again_at(wanted, known.seen)).chain(deadline).min()?;
    Some(Duration::from_secs(at.abs_diff(now)))
}

/// Returns what to ask for, so that [`status`] can say why the pods are not healthy; nothing where that is not what it says.
#[must_use]
pub fn asks(status: &PodSetStatus, wanted: Option<&Wanted>, known: Knowledge<'_>) -> Option<Question> {
    let is_ready = |c: &Condition| c.type_ == condition::READY && c.status == "True";
    if status.conditions.iter().any(is_ready) {
        return None;
    }
    let (outlook, now) = (Outlook::of(wanted?, known), known.seen.now);
    match (outlook.trouble(now), &status.cause) {
        (Some((pod, trouble)), Some(cause)) if cause.reason == trouble.reason.as_str() => pod.question_at(now),
        (None, None) => outlook.states().find_map(|(_, state)| state.question_at(now)),
        _ => None,
    }
}

fn conditions(set: &PodSet, found: &Diagnosis, hindrances: &[PodError], now: Timestamp) -> Vec<Condition> {
    let make = Conditions {
        before: set.status.as_ref().map_or(&[], |status| &status.conditions),
        generation: set.metadata.generation,
        now,
    };
    let mut conditions = make.of(found);
    let failed = hindrances.iter().find_map(|hindrance| match hindrance.verb {
        Verb::Create => Some(("FailedCreate", &hindrance.failure)),
        Verb::Delete => Some(("FailedDelete", &hindrance.failure)),
        Verb::Other => None,
    });
    if let Some((reason, failure)) = failed {
        conditions.push(make.one(condition::REPLICA_FAILURE, true, reason, &failure.to_string()));
    }
    make.with_foreign_conditions(conditions)
}

/// The pods in numbers and names.
struct Outlook<'a> {
    wanted: &'a Wanted,
    known: Knowledge<'a>,
    active: Active<'a>,
}

impl<'a> Outlook<'a> {
    fn of(wanted: &'a Wanted, known: Knowledge<'a>) -> Self {
        Self {
            wanted,
            known,
            active: Active::of(wanted, known.seen),
        }
    }

    fn count(&self, is: impl Fn(&SetPod) -> bool) -> usize {
        self.active.pods.iter().filter(|pod| is(pod)).count()
    }

    fn ready(&self) -> usize {
        self.count(|pod| pod.ready_since.is_some())
    }

    fn available(&self) -> usize {
        self.count(|pod| pod.is_available(self.wanted, self.known.seen.now))
    }

    fn updated(&self) -> usize {
        self.count(|pod| pod.is_updated(self.wanted) && !pod.is_updating(self.known.seen.now))
    }

    fn terminating(&self) -> usize {
        let ours = self.known.seen.pods.iter().filter(|pod| pod.belongs_to(self.wanted));
        ours.filter(|pod| pod.deleting).count()
    }

    /// Whether there is nothing left to wait for.
    fn is_settled(&self) -> bool {
        self.is_complete() && self.active.replacement().is_none()
    }

    /// Whether all pods are available and updated, and none is one too many.
    fn is_complete(&self) -> bool {
        let all = |count: usize| count == self.wanted.replicas;
        all(self.active.pods.len()) && all(self.available()) && all(self.updated())
    }

    fn marks(&self, set: &PodSet) -> Marks {
        let counts = [self.active.pods.len(), self.updated(), self.ready(), self.available()];
        Marks {
            generation: set.metadata.generation,
            counts: counts.map(|count| number(Some(count))),
        }
    }

    /// Returns when it must have made progress, in seconds since 1970.
    fn deadline(&self) -> Option<i64> {
        let waits = !self.is_settled() && !self.wanted.deleting && !self.wanted.paused;
        waits.then(|| self.known.progressed_at.saturating_add(PROGRESS_DEADLINE))
    }

    /// Whether it has made no progress for too long. An operator that has just started finds that in the status.
    fn is_late(&self, set: &PodSet) -> bool {
        let was_overdue = set.status.as_ref().is_some_and(|status| {
            let reason = Reason::ProgressDeadlineExceeded.as_str();
            let counts = [
                status.replicas,
                status.updated_replicas,
                status.ready_replicas,
                status.available_replicas,
            ];
            let before = Marks {
                generation: status.observed_generation,
                counts: counts.map(Option::unwrap_or_default),
            };
            status.cause.as_ref().is_some_and(|cause| cause.reason == reason) && before == self.marks(set)
        });
        let deadline = self.deadline();
        deadline.is_some_and(|at| was_overdue || at <= self.known.seen.now)
    }

    fn names(&self) -> Vec<String> {
        let mut pods: Vec<&SetPod> = self.active.pods.clone();
        // As a person counts: web-2 before web-10.
        pods.sort_by_key(|pod| (self.wanted.slot_of(&pod.name).unwrap_or(u16::MAX), &pod.name));
        pods.into_iter()
            .take(MAX_POD_NAMES)
            .map(|pod| pod.name.clone())
            .collect()
    }

    /// Returns what the pods say that keeps them from working: those of the current template first.
    fn trouble(&self, now: i64) -> Option<(&PodState, Trouble)> {
        self.states()
            .filter_map(|(updated, state)| Some((updated, state, state.trouble_at(now)?)))
            .min_by_key(|(updated, _, trouble)| (!updated, !trouble.is_stalled(), trouble.reason.as_str()))
            .map(|(_, state, trouble)| (state, trouble))
    }

    /// Returns what its pods say, each with whether it runs the current template.
    fn states(&self) -> impl Iterator<Item = (bool, &'a PodState)> {
        let Self { wanted, known, .. } = *self;
        let pods = known.seen.pods.iter();
        let ours = pods.filter(move |pod| pod.belongs_to(wanted) && !pod.deleting);
        let states = known.states.iter().inspect(|_| visit());
        let states: HashMap<&str, &PodState> = states.map(|state| (&*state.name, state)).collect();
        ours.filter_map(move |pod| {
            let state = *states.get(&*pod.name)?;
            Some((pod.is_updated(wanted), state))
        })
    }

    fn progress(&self, slots: &Slots) -> String {
        let wanted = self.wanted.replicas;
        if let Some((chosen, heir)) = self.active.replacement() {
            return match heir {
                Some(heir) => format!("replacing {}: {} is starting", chosen.name, heir.name),
                None => format!("replacing {}", chosen.name),
            };
        }
        if self.updated() < self.active.pods.len() {
            let in_place = |pod: &SetPod| pod.can_be_updated(self.wanted) || pod.is_updated(self.wanted);
            let (how, what) = if self.active.pods.iter().all(|pod| in_place(pod)) {
                ("updating in place", "image")
            } else {
                ("replacing the pods", "template")
            };
            return format!("{how}: {} of {wanted} pods run the new {what}", self.updated());
        }
        let ready = format!("{} of {wanted} pods are ready", self.ready().min(wanted));
        match slots.ending.first() {
            Some(name) => format!("{ready}; {name} has to end before its successor can have its name"),
            None if self.ready() >= wanted => format!("{ready}, {} for long enough", self.available().min(wanted)),
            None => ready,
        }
    }
}

fn of_hindrance(subject: Subject<'_>, hindrance: &PodError) -> Diagnosis {
    match (hindrance.verb, &hindrance.failure) {
        (Verb::Delete, Failure::Rejected { message, .. }) => said(
            Reason::PodsRefused,
            &format!("pods can't be deleted: {}", detail(message)),
            Some("kubectl get validatingadmissionpolicies,validatingwebhookconfigurations".into()),
        ),
        (_, failure) => of_failure(subject, failure),
    }
}

/// Describes a pod that was deleted and should be gone by now.
fn of_overdue(subject: Subject<'_>, outlook: &Outlook<'_>) -> Option<Diagnosis> {
    let pod = outlook.active.overdue().min_by_key(|pod| &pod.name)?;
    let (name, namespace) = (&pod.name, subject.namespace);
    let (why, next) = match &pod.node {
        _ if pod.is_held => (
            "a finalizer holds it".to_owned(),
            command!("kubectl get pod {} -n {} -o yaml", name, namespace),
        ),
        Some(node) => (
            format!("its node {node} may be down"),
            command!("kubectl describe node {}", node),
        ),
        None => (
            "it was never on a node".to_owned(),
            command!("kubectl describe pod {} -n {}", name, namespace),
        ),
    };
    let message = format!("pod {name} was deleted and still exists: {why}; its slot is not used until it is gone");
    Some(said(Reason::PodNotTerminating, &message, Some(next)))
}

fn diagnose(subject: Subject<'_>, outlook: Option<&Outlook<'_>>, hindrances: &[PodError], is_late: bool) -> Diagnosis {
    if subject.deleting {
        return said(Reason::Deleting, "it is being deleted, with its pods", None);
    }
    if let Some(hindrance) = hindrances.first() {
        return of_hindrance(subject, hindrance);
    }
    let Some(outlook) = outlook else {
        return said(Reason::Progressing, "the pods are being created", None);
    };
    let slots = outlook.active.slots();
    if let Some(conflict) = slots.conflicts.first() {
        return of_failure(subject, conflict);
    }
    if let Some((_, trouble)) = outlook.trouble(subject.now) {
        return diagnose_pod(subject, &trouble);
    }
    let wanted = outlook.wanted.replicas;
    if outlook.wanted.paused && outlook.updated() < outlook.active.pods.len() {
        let told = format!(
            "the update is paused: {} of {wanted} pods run the new spec",
            outlook.updated()
        );
        return said(Reason::Paused, &told, Some(subject.command("resume")));
    }
    if !outlook.is_complete()
        && let Some(overdue) = of_overdue(subject, outlook)
    {
        return overdue;
    }
    if is_late {
        let progress = outlook.progress(&slots);
        return said(
            Reason::ProgressDeadlineExceeded,
            &format!("{progress}, and there was no progress for ten minutes"),
            Some(describe_pods(subject)),
        );
    }
    if !outlook.is_settled() {
        return said(Reason::Progressing, &outlook.progress(&slots), None);
    }
    match wanted {
        0 => said(Reason::ScaledToZero, "scaled to zero", None),
        1 => said(Reason::Available, "1 pod is ready", None),
        wanted => said(Reason::Available, &format!("{wanted} pods are ready"), None),
    }
}

fn number(count: Option<usize>) -> i32 {
    count.map_or(0, |count| i32::try_from(count).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests;
