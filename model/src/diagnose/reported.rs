//! The pods of an app that its status is about.

use std::collections::BTreeMap;

use crd::Cause;

use crate::pod::{EventQuery, PodProblem, PodState};

/// Returns the pod whose problem the status reports. A problem that needs a change of the spec comes first, because another
/// one may pass; among equals the first by reason, so that the message does not flap.
pub(crate) fn reported_problem(pods: &[PodState], now: i64) -> Option<(&PodState, PodProblem)> {
    let problems = current_pods(pods).filter_map(|pod| Some((pod, pod.problem_at(now)?)));
    problems.min_by_key(|(_, problem)| (!problem.is_stalled(), problem.reason.as_str()))
}

/// Returns which Events would explain `cause`: those of the pod that is the cause, or, without a cause, of the first pod that
/// does not start.
pub(crate) fn event_query(cause: Option<&Cause>, pods: &[PodState], now: i64) -> Option<EventQuery> {
    match (reported_problem(pods, now), cause) {
        (Some((pod, problem)), Some(cause)) if cause.reason == problem.reason.as_str() => pod.event_query_at(now),
        (None, None) => current_pods(pods).find_map(|pod| pod.event_query_at(now)),
        _ => None,
    }
}

/// Returns the pods of the newest template, without those that have finished and were replaced.
fn current_pods(pods: &[PodState]) -> impl Iterator<Item = &PodState> {
    let newest = newest_template(pods);
    pods.iter()
        .filter(move |pod| !pod.deleting)
        .filter(move |pod| match newest {
            Some(template) => !pod.finished && pod.template == *template,
            None => true,
        })
}

/// Returns the template whose first running pod was created last. A pod of an older template may be younger than that one,
/// because its node was drained.
pub(crate) fn newest_template(pods: &[PodState]) -> Option<&Option<String>> {
    let active = |pod: &&PodState| !pod.deleting && !pod.finished;
    let mut first: BTreeMap<&Option<String>, i64> = BTreeMap::new();
    for pod in pods.iter().filter(active) {
        let created = first.entry(&pod.template).or_insert(pod.created);
        *created = pod.created.min(*created);
    }
    first
        .into_iter()
        .max_by_key(|(_, created)| *created)
        .map(|(template, _)| template)
}
