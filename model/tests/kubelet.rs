//! What is said of pods as a kubelet and containerd reported them on a real node, 10 s and 50 s after it had accepted them.
//!
//! `kubelet/pods.json` has the pods and the kubelet's warnings. The names of the pods say what is wrong with them: `m64` has
//! a memory limit of 64 bytes, `m1`, `m2` and `m4` of so many MiB; `vol` mounts a Secret that does not exist; `probe` answers
//! its start-up probe with 404; `once` ends with exit code 1; `sidecar` has an init container that fails; `perm` runs a file
//! that is not executable; `wd` has a file as its working directory.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

use k8s_openapi::api::core::v1::{Event, Pod};
use model::pod::PodState;
use serde_json::Value;

fn told(pod: &Pod, events: &[Event], after: i64) -> String {
    let now = pod.status.as_ref().unwrap().start_time.as_ref().unwrap().0.as_second() + after;
    let mut state = PodState::read(pod);
    if let Some(question) = state.question_at(now) {
        let is_known = |event: &&Event| {
            let is_before = event.first_timestamp.as_ref().unwrap().0.as_second() <= now;
            is_before && event.involved_object.uid.as_deref() == Some(&*question.uid)
        };
        let events: Vec<Event> = events.iter().filter(is_known).cloned().collect();
        state.answer = question.read(&events);
    }
    match state.trouble_at(now) {
        Some(trouble) => {
            let stalled = if trouble.is_stalled() { " (stalled)" } else { "" };
            format!("{}{stalled}: {}", trouble.reason.as_str(), trouble.detail)
        }
        None => "nothing".to_owned(),
    }
}

#[test]
fn what_a_kubelet_reports_of_pods_that_do_not_start_is_told() {
    let recorded: Value = serde_json::from_str(include_str!("kubelet/pods.json")).unwrap();
    let events: Vec<Event> = serde_json::from_value(recorded["events"].clone()).unwrap();
    let mut lines = Vec::new();
    for look in recorded["looks"].as_array().unwrap() {
        let after = look["after"].as_i64().unwrap();
        let pods: Vec<Pod> = serde_json::from_value(look["pods"].clone()).unwrap();
        for pod in pods {
            let name = pod.metadata.name.clone().unwrap();
            lines.push(format!("{after} s, {name}: {}", told(&pod, &events, after)));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}
