//! The status of a PodSet. It is written on every outcome of a reconcile.

use std::time::Duration;

use crd::status::condition;
use crd::{Cause, PodSet, PodSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::step::{Active, next_change_at};
use super::summary::{ProgressCounts, Summary, number};
use super::{StepInput, ValidPodSet};
use crate::conditions::Conditions;
use crate::diagnose::{Diagnosis, Subject, describe_pods, detail, diagnose_failure, diagnose_pod, diagnosis};
use crate::pod::{EventQuery, PodState};
use crate::reason::Reason;
use crate::unstored::describe;
use crate::{Failure, command};

/// The input of [`status()`].
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'a> {
    /// The input of [`super::next_step`].
    pub step: StepInput<'a>,
    /// The states of the pods, by name.
    pub states: &'a [PodState],
    /// When [`progress_counts`] last changed, in seconds since 1970.
    pub progressed_at: i64,
    /// The fields that the API server has not stored when it created the last pod of the current template. `None` if the operator
    /// has created none since it was started.
    pub dropped: Option<&'a [String]>,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The creation of a pod.
    Create,
    /// The deletion of a pod.
    Delete,
    /// Any other request.
    Other,
}

/// A failed request for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodError {
    /// The request.
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

/// Returns the status of a PodSet.
///
/// Of the stored status of `set`, only what is noted of ConfigMaps and of fields that are not stored, and the transition times of
/// conditions are kept. Calls with different `now` return the
/// same status until [`changes_in`] has passed.
#[must_use]
pub fn status(
    set: &PodSet,
    valid: Option<&ValidPodSet>,
    input: StatusInput<'_>,
    errors: &[PodError],
    now: Timestamp,
) -> PodSetStatus {
    let name = set.name_any();
    let subject = Subject {
        kind: crd::Kind::PodSet,
        name: &name,
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        pod: Some(set.spec.pod()),
        deleting: set.metadata.deletion_timestamp.is_some(),
        now: input.step.now,
        needs_address: false,
    };
    let summary = valid.map(|valid| Summary::of(valid, input));
    let is_late = summary.as_ref().is_some_and(|summary| summary.is_late(set));
    let mut found = diagnose(subject, summary.as_ref(), errors, is_late);
    let overdue = summary.as_ref().and_then(|summary| diagnose_overdue(subject, summary));
    if let Some(overdue) = &overdue
        && found.reason == Reason::Available
    {
        found.message = format!("{}; {}", found.message, overdue.message);
        found.next.clone_from(&overdue.next);
    }
    let is_cause = |found: &&Diagnosis| !found.reason.is_ready() && !found.reason.is_progress();
    let known = summary.as_ref();
    PodSetStatus {
        observed_generation: set.metadata.generation,
        restarted_at: set.annotations().get(crd::annotation::RESTARTED_AT).cloned(),
        replicas: Some(number(known.map(|summary| summary.active.pods.len()))),
        ready_replicas: Some(number(known.map(Summary::ready))),
        available_replicas: Some(number(known.map(Summary::available))),
        updated_replicas: Some(number(known.map(Summary::updated))),
        terminating_replicas: Some(number(known.map(Summary::terminating))),
        pod_names: summary.as_ref().map(Summary::names).unwrap_or_default(),
        selector: Some(crd::Kind::PodSet.pod_selector(&name)),
        cause: Some(&found).filter(is_cause).or(overdue.as_ref()).map(|found| Cause {
            reason: found.reason.as_str().to_owned(),
            message: found.message.clone(),
            next: found.next.as_ref().map(ToString::to_string),
        }),
        conditions: conditions(set, &found, errors, dropped(set, input), now),
        config_maps: set
            .status
            .as_ref()
            .map(|status| status.config_maps.clone())
            .unwrap_or_default(),
        config_hash: set.status.as_ref().and_then(|status| status.config_hash.clone()),
    }
}

/// Returns the numbers that change when a pod set makes progress.
#[must_use]
pub fn progress_counts(set: &PodSet, valid: &ValidPodSet, input: StatusInput<'_>) -> ProgressCounts {
    Summary::of(valid, input).progress_counts(set)
}

/// Returns the conflicts with third-party pods that have the name of a slot. Only a later reconcile can resolve them.
#[must_use]
pub fn conflicts(valid: &ValidPodSet, input: StepInput<'_>) -> Vec<Failure> {
    if valid.deleting {
        return Vec::new();
    }
    Active::of(valid, input).slots().conflicts
}

/// Returns why a pod ended, for an Event about its deletion.
#[must_use]
pub fn describe_end(set: &PodSet, pod: &str, state: Option<&PodState>) -> String {
    let problem = state.and_then(|state| state.problem.as_ref());
    match problem.map(|problem| (problem.reason.as_str(), problem.detail_for(Some(set.spec.pod())))) {
        Some((reason, detail)) if detail.is_empty() => format!("{pod} has ended ({reason})"),
        Some((reason, detail)) => format!("{pod} has ended ({reason}): {detail}"),
        None => format!("{pod} has ended by itself"),
    }
}

/// Returns after how long [`super::next_step`] or [`status()`] changes although no object does. `None` if they do not change.
#[must_use]
pub fn changes_in(valid: &ValidPodSet, input: StatusInput<'_>) -> Option<Duration> {
    let now = input.step.now;
    let states = input.states.iter().filter_map(|state| state.changes_at(now));
    let deadline = Summary::of(valid, input).deadline().filter(|at| *at > now);
    let at = states.chain(next_change_at(valid, input.step)).chain(deadline).min()?;
    Some(Duration::from_secs(at.abs_diff(now)))
}

/// Returns which Events would explain why a pod does not start or is not healthy, for [`PodState::event`]. `None` if the
/// status does not need them.
#[must_use]
pub fn event_query(status: &PodSetStatus, valid: Option<&ValidPodSet>, input: StatusInput<'_>) -> Option<EventQuery> {
    let is_ready = |c: &Condition| c.type_ == condition::READY && c.status == "True";
    if status.conditions.iter().any(is_ready) {
        return None;
    }
    let (summary, now) = (Summary::of(valid?, input), input.step.now);
    match (summary.problem(now), &status.cause) {
        (Some((pod, problem)), Some(cause)) if cause.reason == problem.reason.as_str() => pod.event_query_at(now),
        (None, None) => summary.states().find_map(|(_, state)| state.event_query_at(now)),
        _ => None,
    }
}

/// Returns the message about fields of pods that the API server has not stored.
#[must_use]
pub fn describe_dropped(paths: &[String]) -> Option<String> {
    (!paths.is_empty()).then(|| describe(paths, "the pods"))
}

/// Returns the message about fields that the API server has not stored. While it is not known, the stored one is kept.
fn dropped(set: &PodSet, input: StatusInput<'_>) -> Option<String> {
    if let Some(paths) = input.dropped {
        return describe_dropped(paths);
    }
    let stored = set.status.iter().flat_map(|status| &status.conditions);
    let mut stored = stored.filter(|stored| stored.type_ == condition::FIELDS_DROPPED);
    let message = stored.next().map(|stored| stored.message.clone());
    message.filter(|_| !input.step.pods.is_empty())
}

fn conditions(
    set: &PodSet,
    found: &Diagnosis,
    errors: &[PodError],
    dropped: Option<String>,
    now: Timestamp,
) -> Vec<Condition> {
    let make = Conditions {
        before: set.status.as_ref().map_or(&[], |status| &status.conditions),
        generation: set.metadata.generation,
        now,
    };
    let mut conditions = make.of(found);
    let failed = errors.iter().find_map(|error| match error.verb {
        Verb::Create => Some(("FailedCreate", &error.failure)),
        Verb::Delete => Some(("FailedDelete", &error.failure)),
        Verb::Other => None,
    });
    if let Some((reason, failure)) = failed {
        conditions.push(make.one(condition::REPLICA_FAILURE, true, reason, &failure.to_string()));
    }
    if let Some(message) = dropped {
        conditions.push(make.one(condition::FIELDS_DROPPED, true, "NotStored", &message));
    }
    make.with_other_conditions(conditions)
}

fn diagnose_error(subject: Subject<'_>, error: &PodError) -> Diagnosis {
    match (error.verb, &error.failure) {
        (Verb::Delete, Failure::Rejected { message, .. }) => diagnosis(
            Reason::PodsRefused,
            &format!("pods can't be deleted: {}", detail(message)),
            Some("kubectl get validatingadmissionpolicies,validatingwebhookconfigurations".into()),
        ),
        (_, failure) => diagnose_failure(subject, failure),
    }
}

/// Returns the diagnosis for a pod whose deletion is overdue.
fn diagnose_overdue(subject: Subject<'_>, summary: &Summary<'_>) -> Option<Diagnosis> {
    let pod = summary.active.overdue().min_by_key(|pod| &pod.name)?;
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
    let message = format!("pod {name} was deleted and still exists: {why}; its slot is not used while it exists");
    Some(diagnosis(Reason::PodNotTerminating, &message, Some(next)))
}

fn diagnose(subject: Subject<'_>, summary: Option<&Summary<'_>>, errors: &[PodError], is_late: bool) -> Diagnosis {
    if subject.deleting {
        return diagnosis(Reason::Deleting, "it is being deleted, with its pods", None);
    }
    if let Some(error) = errors.first() {
        return diagnose_error(subject, error);
    }
    let Some(summary) = summary else {
        return diagnosis(Reason::Progressing, "the pods are being created", None);
    };
    let slots = summary.active.slots();
    if let Some(conflict) = slots.conflicts.first() {
        return diagnose_failure(subject, conflict);
    }
    if let Some((_, problem)) = summary.problem(subject.now) {
        return diagnose_pod(subject, &problem);
    }
    let replicas = summary.valid.replicas;
    if summary.valid.paused && summary.updated() < summary.active.pods.len() {
        let message = format!(
            "the update is paused: {} of {replicas} pods run the new spec",
            summary.updated()
        );
        return diagnosis(Reason::Paused, &message, Some(subject.command("resume")));
    }
    if !summary.is_complete()
        && let Some(overdue) = diagnose_overdue(subject, summary)
    {
        return overdue;
    }
    if is_late {
        let progress = summary.describe(&slots);
        return diagnosis(
            Reason::ProgressDeadlineExceeded,
            &format!("{progress}, and there was no progress for ten minutes"),
            Some(describe_pods(subject)),
        );
    }
    if !summary.is_settled() {
        return diagnosis(Reason::Progressing, &summary.describe(&slots), None);
    }
    match replicas {
        0 => diagnosis(Reason::ScaledToZero, "scaled to zero", None),
        1 => diagnosis(Reason::Available, "1 pod is ready", None),
        replicas => diagnosis(Reason::Available, &format!("{replicas} pods are ready"), None),
    }
}

#[cfg(test)]
mod tests;
