//! The problems of pods as a kubelet and containerd reported them on a real node, 10 s and 50 s after the kubelet had
//! accepted them.
//!
//! `kubelet/pods.json` has the pods and the kubelet's warnings. The names of the pods show the problem: `m64` has
//! a memory limit of 64 bytes, `m1`, `m2` and `m4` of so many MiB; `vol` mounts a Secret that does not exist; `probe` answers
//! its start-up probe with 404; `once` ends with exit code 1; `sidecar` has an init container that fails; `perm` runs a file
//! that is not executable; `wd` has a file as its working directory.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use k8s_openapi::api::core::v1::{Event, Pod};
use model::pod::PodState;
use serde_json::Value;

fn problem_of(pod: &Pod, events: &[Event], after: i64) -> String {
    let now = pod.status.as_ref().unwrap().start_time.as_ref().unwrap().0.as_second() + after;
    let mut state = PodState::read(pod);
    if let Some(query) = state.event_query_at(now) {
        let is_known = |event: &&Event| {
            let is_before = event.first_timestamp.as_ref().unwrap().0.as_second() <= now;
            is_before && event.involved_object.uid.as_deref() == Some(&*query.uid)
        };
        let events: Vec<Event> = events.iter().filter(is_known).cloned().collect();
        state.event = query.read(&events);
    }
    match state.problem_at(now) {
        Some(problem) => {
            let stalled = if problem.is_stalled() { " (stalled)" } else { "" };
            let container = problem.container.map(|name| format!(" of {name}")).unwrap_or_default();
            format!("{}{stalled}{container}: {}", problem.reason.as_str(), problem.detail)
        }
        None => "nothing".to_owned(),
    }
}

#[test]
fn problems_of_pods_on_a_real_node() {
    let recorded: Value = serde_json::from_str(include_str!("kubelet/pods.json")).unwrap();
    let events: Vec<Event> = serde_json::from_value(recorded["events"].clone()).unwrap();
    let mut lines = Vec::new();
    for look in recorded["looks"].as_array().unwrap() {
        let after = look["after"].as_i64().unwrap();
        let pods: Vec<Pod> = serde_json::from_value(look["pods"].clone()).unwrap();
        for pod in pods {
            let name = pod.metadata.name.clone().unwrap();
            lines.push(format!("{after} s, {name}: {}", problem_of(&pod, &events, after)));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}
