//! Checks an object with the rules of its schema, before anything is sent: the same sentences as the server's.

use crd::queue::MAX_TAGS;
use crd::{AppDeploy, AppQueue, Kind, PodSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::cel::{ErrorKind, ValidationErrors};
use model::resources;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::kind_info::{self, KindInfo};
use crate::error::{Error, Result};
use crate::output::quantity;

/// Validates an app or a pod set from a file, or before it is written.
pub fn object(kind: Kind, object: &Value) -> Result<()> {
    refuse(kind, object["metadata"]["name"].as_str(), problems(kind, object))
}

/// Checks a change of an app or a pod set. Problems that the stored object already has are ignored: it may be older than the rule.
pub fn change(kind: impl Into<&'static KindInfo>, before: &Value, after: &Value) -> Result<()> {
    let kind = kind.into();
    let mut new = problems(kind, after);
    if !new.is_empty() {
        let old = problems(kind, before);
        new.retain(|problem| !old.contains(problem));
    }
    refuse(kind, after["metadata"]["name"].as_str(), new)
}

/// Checks an app.
pub fn app(app: &AppDeploy) -> Result<()> {
    refuse(Kind::AppDeploy, app.metadata.name.as_deref(), problems_of_app(app))
}

/// Checks a pod set.
pub fn pod_set(set: &PodSet) -> Result<()> {
    refuse(Kind::PodSet, set.metadata.name.as_deref(), problems_of_pod_set(set))
}

/// Checks an AppQueue.
pub fn queue(queue: &AppQueue) -> Result<()> {
    refuse(
        &kind_info::QUEUE,
        queue.metadata.name.as_deref(),
        problems_of_queue(queue),
    )
}

/// Returns a sentence for each rule that an object breaks.
pub fn problems(kind: impl Into<&'static KindInfo>, object: &Value) -> Vec<String> {
    let problems = match kind.into().workload {
        Some(Kind::AppDeploy) => read(object).map(|app| problems_of_app(&app)),
        Some(Kind::PodSet) => read(object).map(|set| problems_of_pod_set(&set)),
        None => read(object).map(|queue| problems_of_queue(&queue)),
    };
    problems.unwrap_or_else(|source| vec![source.to_string()])
}

fn read<T: DeserializeOwned>(object: &Value) -> serde_json::Result<T> {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        // It is the operator's, and never sent.
        fields.remove("status");
    }
    serde_json::from_value(object)
}

fn refuse(kind: impl Into<&'static KindInfo>, name: Option<&str>, problems: Vec<String>) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let title = kind_info::title(kind, name.unwrap_or_default());
    let error = Error::usage(format!("{title} is invalid: nothing was changed"));
    Err(problems.into_iter().fold(error, Error::why))
}

fn problems_of_app(app: &AppDeploy) -> Vec<String> {
    let ranges = [port("spec", app.spec.pod.container.port), replicas(app.spec.replicas)];
    let patterns = patterns("spec", &app.spec.pod).into_iter().chain(rollout(app));
    let resources = resources::problems(&app.spec.pod, "spec").into_iter().chain(patterns);
    broken(ranges, resources, app.validate_cel())
}

fn problems_of_pod_set(set: &PodSet) -> Vec<String> {
    let ranges = [
        port("spec.template", set.spec.pod().container.port),
        replicas(set.spec.replicas),
        range("minReadySeconds", set.spec.min_ready_seconds, 3600),
        unavailable(set.spec.max_unavailable.as_ref()),
    ];
    let patterns = patterns("spec.template", set.spec.pod());
    let resources = resources::problems(set.spec.pod(), "spec.template")
        .into_iter()
        .chain(patterns);
    broken(ranges, resources, set.validate_cel())
}

fn problems_of_queue(queue: &AppQueue) -> Vec<String> {
    let sqs = &queue.spec.sqs;
    let within = |field: &str, value: Option<i32>, least: i32, most: i32| {
        let value = value.filter(|value| !(least..=most).contains(value));
        value.map(|_| format!("spec.sqs.{field}: must be a number from {least} to {most}"))
    };
    let count = sqs
        .dead_letter
        .as_ref()
        .map(|dead_letter| dead_letter.max_receive_count);
    let ranges = [
        within("visibilityTimeoutSeconds", sqs.visibility_timeout_seconds, 0, 43_200),
        within("messageRetentionSeconds", sqs.message_retention_seconds, 60, 1_209_600),
        within("delaySeconds", sqs.delay_seconds, 0, 900),
        within("receiveWaitSeconds", sqs.receive_wait_seconds, 0, 20),
        within("maxMessageBytes", sqs.max_message_bytes, 1024, 1_048_576),
        within("deadLetter.maxReceiveCount", count, 1, 1000),
        (sqs.tags.len() > MAX_TAGS).then(|| format!("spec.sqs.tags: at most {MAX_TAGS} tags are possible")),
    ];
    broken(ranges, [], queue.validate_cel())
}

/// Returns the broken rules. `ranges` are limits of the schema, for which the server's messages are harder to read.
/// `resources` are the problems of the field `resources`, in more detail than its rules give.
fn broken(
    ranges: impl IntoIterator<Item = Option<String>>,
    resources: impl IntoIterator<Item = String>,
    rules: std::result::Result<(), ValidationErrors>,
) -> Vec<String> {
    let mut problems: Vec<String> = ranges.into_iter().flatten().chain(resources).collect();
    if let Err(errors) = rules {
        // A rule with a function that this build does not know is the server's to check.
        let known = errors
            .as_slice()
            .iter()
            .filter(|error| error.kind != ErrorKind::UnsupportedReference && !error.field_path.ends_with(".resources"));
        problems.extend(known.map(|error| match error.field_path.as_str() {
            "" if error.rule.contains("metadata.name") => format!("metadata.name: {}", error.message),
            "" => error.message.clone(),
            path => format!("{path}: {}", error.message),
        }));
    }
    problems
}

/// Checks the fields of pods that have a pattern in the schema: the API server would print the pattern.
fn patterns(at: &str, pod: &impl Serialize) -> Vec<String> {
    let pod = serde_json::to_value(pod).unwrap_or_default();
    let mut problems = Vec::new();
    for list in ["requests", "limits"] {
        for (name, amount) in pod["resources"][list].as_object().into_iter().flatten() {
            let amount = amount.as_str().unwrap_or_default();
            if quantity::milli(amount).is_none() {
                problems.push(format!(
                    "{at}.resources.{list}.{name}: {amount:?} is not a quantity like 100m or 64Mi"
                ));
            }
        }
    }
    if let Some(path) = pod["healthCheck"]["path"].as_str()
        && !(path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        problems.push(format!(
            "{at}.healthCheck.path: must start with / and have no spaces, like /healthz"
        ));
    }
    problems
}

/// Checks a port.
fn port(at: &str, port: Option<i32>) -> Option<String> {
    port.filter(|port| !(1..=65535).contains(port))
        .map(|_| format!("{at}.port: a port is a number from 1 to 65535"))
}

/// Checks a number of pods.
fn replicas(replicas: i32) -> Option<String> {
    range("replicas", replicas, 1000)
}

/// Checks `maxUnavailable`, whose rule can otherwise only be checked by the API server.
fn unavailable(most: Option<&IntOrString>) -> Option<String> {
    let is_valid = match most? {
        IntOrString::Int(number) => *number >= 1,
        IntOrString::String(text) => text
            .strip_suffix('%')
            .is_some_and(|share| !share.starts_with(['0', '+']) && share.parse().is_ok_and(|n: u8| n <= 100)),
    };
    (!is_valid).then(|| {
        "spec.maxUnavailable: must be a number from 1, or a percentage from 1% to 100%, like 2 or 25%".to_owned()
    })
}

/// Checks the rollout, whose limits can otherwise only be checked by the API server.
fn rollout(app: &AppDeploy) -> Vec<String> {
    let Some(rollout) = &app.spec.rollout else {
        return Vec::new();
    };
    let limits = [
        ("maxSurge", &rollout.max_surge),
        ("maxUnavailable", &rollout.max_unavailable),
    ];
    let is_valid = |limit: &IntOrString| match limit {
        IntOrString::Int(number) => (0..=1000).contains(number),
        IntOrString::String(text) => text
            .strip_suffix('%')
            .is_some_and(|share| share.parse().is_ok_and(|n: u8| n <= 100 && n.to_string() == share)),
    };
    let wrong = limits
        .into_iter()
        .filter(|(_, limit)| limit.as_ref().is_some_and(|limit| !is_valid(limit)));
    wrong
        .map(|(field, _)| {
            format!(
                "spec.rollout.{field}: must be a number from 0 to 1000, or a percentage from 0% to 100%, like 1 or 25%"
            )
        })
        .collect()
}

/// Checks a number that may be 0.
fn range(field: &str, number: i32, most: i32) -> Option<String> {
    (!(0..=most).contains(&number)).then(|| format!("spec.{field}: must be a number from 0 to {most}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_do_not_match_a_pattern_are_explained() {
        let pod = json!({"image": "nginx", "port": 80, "healthCheck": {"path": "healthz"},
            "resources": {"requests": {"cpu": "100 m", "memory": "64Mi"}}});
        let app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "metadata": {"name": "shop"},
            "spec": pod});
        let set = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet", "metadata": {"name": "shop"},
            "spec": {"template": pod}});
        let wanted = |at: &str| {
            [
                format!("{at}.resources.requests.cpu: \"100 m\" is not a quantity like 100m or 64Mi"),
                format!("{at}.healthCheck.path: must start with / and have no spaces, like /healthz"),
            ]
        };
        assert_eq!(problems(Kind::AppDeploy, &app), wanted("spec"));
        assert_eq!(problems(Kind::PodSet, &set), wanted("spec.template"));
    }
}
