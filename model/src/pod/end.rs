//! What a container died of.

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, Probe};

use super::last_words::last_words;
use super::probe::{Check, Failed};
use super::{ContainerSpec, Output, STEADY, Trouble, waiting};
use crate::diagnose::Reason;

/// Returns what a container died of. Every end is a trouble: an application is meant to run on.
pub(super) fn trouble(died: &ContainerStateTerminated, spec: ContainerSpec<'_>) -> Trouble {
    let message = died.message.as_deref().unwrap_or_default();
    let container = spec.container;
    match died.reason.as_deref() {
        Some("OOMKilled") => return Trouble::new(Reason::OutOfMemory, memory_limit(container).unwrap_or_default()),
        Some("StartError" | "ContainerCannotRun") => return waiting::start_trouble(message, container),
        _ => {}
    }
    if let Some(probe) = failed_probe(died, container) {
        return Trouble::unhealthy(Failed {
            check: Check::of(probe),
            answer: None,
            readable: spec.readable(),
        });
    }
    Trouble {
        // The kubelet puts the end of the log there (terminationMessagePolicy FallbackToLogsOnError).
        output: last_words(message).map(|text| Output {
            text,
            readable: spec.readable(),
        }),
        ..Trouble::new(Reason::CrashLoop, exit(died.exit_code))
    }
}

/// Whether it is the end of this container.
pub(super) fn is_of(died: &ContainerStateTerminated, container: Option<&str>) -> bool {
    container.is_some_and(|container| died.container_id.as_deref() == Some(container))
}

/// Returns how often a container has ended in a row, from how often it was restarted. Of one that has run for long enough
/// the kubelet forgets what was before, and so does this.
pub(super) fn in_a_row(died: &ContainerStateTerminated, restarts: i32) -> i32 {
    let is_first = lived(died).is_some_and(|seconds| seconds >= STEADY);
    if is_first { restarts.min(1) } else { restarts }
}

/// Returns how long a container has run, in seconds, where that is known. One that could not be started has not.
fn lived(died: &ContainerStateTerminated) -> Option<i64> {
    let (begin, end) = died.started_at.as_ref().zip(died.finished_at.as_ref())?;
    (begin.0.as_second() > 0).then(|| end.0.as_second() - begin.0.as_second())
}

pub(super) fn memory_limit(spec: Option<&Container>) -> Option<&str> {
    let limits = spec?.resources.as_ref()?.limits.as_ref()?;
    limits.get("memory").map(|amount| amount.0.as_str())
}

/// Names an exit code, as shells have them: above 128 it is that of a signal.
fn exit(code: i32) -> String {
    let means = match code {
        0 => return "exit code 0, as if its work were done".to_owned(),
        126 => "a command can't be run",
        127 => "a command was not found",
        132 => "SIGILL: made for another processor",
        134 => "SIGABRT",
        137 => "SIGKILL",
        139 => "SIGSEGV",
        143 => "SIGTERM",
        _ => return format!("exit code {code}"),
    };
    format!("exit code {code} ({means})")
}

/// Returns the probe whose failure an end looks like. It looks like the kubelet's, after the health check had failed for as long as it may: an
/// application that is told to end does so with 0, or dies of SIGTERM or SIGKILL.
pub(super) fn failed_probe<'a>(died: &ContainerStateTerminated, spec: Option<&'a Container>) -> Option<&'a Probe> {
    let lived = lived(died)?;
    let probe = spec.and_then(|spec| spec.startup_probe.as_ref().or(spec.liveness_probe.as_ref()));
    probe.filter(|probe| {
        // What any pod may say: as 32 bits the product would not always fit.
        let [period, threshold] =
            [probe.period_seconds.unwrap_or(10), probe.failure_threshold.unwrap_or(3)].map(i64::from);
        matches!(died.exit_code, 0 | 137 | 143) && lived >= period * (threshold - 1)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(container: &Container) -> ContainerSpec<'_> {
        ContainerSpec {
            pod: None,
            container: Some(container),
        }
    }

    fn told(died: Value) -> (Reason, String) {
        let limited = json!({"name": "app", "resources": {"limits": {"memory": "64Mi"}}});
        let limited: Container = serde_json::from_value(limited).unwrap();
        let trouble = trouble(&serde_json::from_value(died).unwrap(), container(&limited));
        (trouble.reason, trouble.detail_for(None).into_owned())
    }

    #[test]
    fn a_crash_is_told_with_its_last_words() {
        let died = json!({"exitCode": 1, "reason": "Error", "message": "starting\n\u{1b}[31mno database at db:5432\u{1b}[0m\n"});
        let words = "exit code 1; its last words: \"no database at db:5432\"";
        assert_eq!(told(died), (Reason::CrashLoop, words.into()));
        assert_eq!(
            told(json!({"exitCode": 127})).1,
            "exit code 127 (a command was not found)"
        );
        assert_eq!(told(json!({"exitCode": 0})).1, "exit code 0, as if its work were done");
    }

    #[test]
    fn last_words_of_a_container_with_added_fields_are_hidden() {
        let died = json!({"exitCode": 1, "reason": "Error", "message": "the key is 1234"});
        let mounts = json!({"name": "app", "volumeMounts": [{"name": "key", "mountPath": "/key"}]});
        let mounts: Container = serde_json::from_value(mounts).unwrap();
        let trouble = trouble(&serde_json::from_value(died).unwrap(), container(&mounts));
        let spec = crd::PodFields::default();
        assert_eq!(trouble.detail_for(Some(&spec)), "exit code 1");
        assert_eq!(trouble.detail, "exit code 1");
        assert_eq!(
            trouble.disclosed().detail,
            "exit code 1; its last words: \"the key is 1234\""
        );
    }

    /// A pod with the label of an app is anybody's.
    #[test]
    fn a_probe_may_have_any_numbers() {
        let probe = json!({"periodSeconds": i32::MAX, "failureThreshold": i32::MAX, "tcpSocket": {"port": 80}});
        let spec: Container = serde_json::from_value(json!({"name": "app", "livenessProbe": probe})).unwrap();
        let died = json!({"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"});
        let Trouble { reason, .. } = trouble(&serde_json::from_value(died).unwrap(), container(&spec));
        assert_eq!(reason, Reason::CrashLoop);
    }

    #[test]
    fn the_limit_that_was_too_small_is_named() {
        let died = json!({"exitCode": 137, "reason": "OOMKilled", "message": "allocating"});
        assert_eq!(told(died), (Reason::OutOfMemory, "64Mi".into()));
    }
}
