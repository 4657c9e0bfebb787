//! Why a container ended.

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, Probe};

use super::output::Output;
use super::probe::{Check, FailedCheck};
use super::problem::PodProblem;
use super::start::memory_limit;
use super::text::last_line;
use super::{ContainerSpec, waiting};
use crate::reason::Reason;

/// How long a container must have run for the kubelet to reset its backoff, in seconds: twice the longest wait.
const BACKOFF_RESET: i64 = 600;

/// Returns why a container ended. Every end is a problem, because an application should keep running.
pub(super) fn problem(ended: &ContainerStateTerminated, spec: ContainerSpec<'_>) -> PodProblem {
    let message = ended.message.as_deref().unwrap_or_default();
    let container = spec.container;
    match ended.reason.as_deref() {
        Some("OOMKilled") => return PodProblem::new(Reason::OutOfMemory, memory_limit(container).unwrap_or_default()),
        Some("StartError" | "ContainerCannotRun") => return waiting::start_problem(message, container),
        _ => {}
    }
    if let Some(probe) = failed_probe(ended, container) {
        return PodProblem::unhealthy(FailedCheck {
            check: Check::of(probe),
            event: None,
            readable: spec.readable(),
        });
    }
    PodProblem {
        // The kubelet stores the end of the log there (terminationMessagePolicy FallbackToLogsOnError).
        output: last_line(message).map(|text| Output {
            text,
            readable: spec.readable(),
        }),
        ..PodProblem::new(Reason::CrashLoop, exit(ended.exit_code))
    }
}

/// Whether it is this container that ended.
pub(super) fn is_of(ended: &ContainerStateTerminated, container: Option<&str>) -> bool {
    container.is_some_and(|container| ended.container_id.as_deref() == Some(container))
}

/// Returns how often a container has ended in a row, from the number of its restarts. Restarts before a run of
/// [`BACKOFF_RESET`] do not count, as for the kubelet.
pub(super) fn in_a_row(ended: &ContainerStateTerminated, restarts: i32) -> i32 {
    let is_first = run_time(ended).is_some_and(|seconds| seconds >= BACKOFF_RESET);
    if is_first { restarts.min(1) } else { restarts }
}

/// Returns how long a container has run, in seconds. `None` if that is not known, or if it could not be started.
fn run_time(ended: &ContainerStateTerminated) -> Option<i64> {
    let (begin, end) = ended.started_at.as_ref().zip(ended.finished_at.as_ref())?;
    (begin.0.as_second() > 0).then(|| end.0.as_second() - begin.0.as_second())
}

/// Describes an exit code by the convention of shells: above 128 it stands for a signal.
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

/// Returns the probe that has probably caused an end: the container ran for as long as the probe may fail, and its exit
/// code is that of a container that the kubelet stops, which is 0, SIGTERM or SIGKILL.
pub(super) fn failed_probe<'a>(ended: &ContainerStateTerminated, spec: Option<&'a Container>) -> Option<&'a Probe> {
    let seconds = run_time(ended)?;
    let probe = spec.and_then(|spec| spec.startup_probe.as_ref().or(spec.liveness_probe.as_ref()));
    probe.filter(|probe| {
        // A pod may have any numbers, and their product may not fit into 32 bits.
        let [period, threshold] =
            [probe.period_seconds.unwrap_or(10), probe.failure_threshold.unwrap_or(3)].map(i64::from);
        matches!(ended.exit_code, 0 | 137 | 143) && seconds >= period * (threshold - 1)
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

    fn read(ended: Value) -> (Reason, String) {
        let limited = json!({"name": "app", "resources": {"limits": {"memory": "64Mi"}}});
        let limited: Container = serde_json::from_value(limited).unwrap();
        let problem = problem(&serde_json::from_value(ended).unwrap(), container(&limited));
        (problem.reason, problem.detail_for(None).into_owned())
    }

    #[test]
    fn crash_is_reported_with_the_last_line_of_its_log() {
        let ended = json!({"exitCode": 1, "reason": "Error", "message": "starting\n\u{1b}[31mno database at db:5432\u{1b}[0m\n"});
        let words = "exit code 1; its last words: \"no database at db:5432\"";
        assert_eq!(read(ended), (Reason::CrashLoop, words.into()));
        assert_eq!(
            read(json!({"exitCode": 127})).1,
            "exit code 127 (a command was not found)"
        );
        assert_eq!(read(json!({"exitCode": 0})).1, "exit code 0, as if its work were done");
    }

    #[test]
    fn output_of_a_container_with_added_fields_is_hidden() {
        let ended = json!({"exitCode": 1, "reason": "Error", "message": "the key is 1234"});
        let mounts = json!({"name": "app", "volumeMounts": [{"name": "key", "mountPath": "/key"}]});
        let mounts: Container = serde_json::from_value(mounts).unwrap();
        let problem = problem(&serde_json::from_value(ended).unwrap(), container(&mounts));
        let spec = crd::PodFields::default();
        assert_eq!(problem.detail_for(Some(&spec)), "exit code 1");
        assert_eq!(problem.detail, "exit code 1");
        assert_eq!(
            problem.with_output().detail,
            "exit code 1; its last words: \"the key is 1234\""
        );
    }

    /// Any user may create a pod with the label of an app.
    #[test]
    fn probe_with_the_largest_numbers_does_not_overflow() {
        let probe = json!({"periodSeconds": i32::MAX, "failureThreshold": i32::MAX, "tcpSocket": {"port": 80}});
        let spec: Container = serde_json::from_value(json!({"name": "app", "livenessProbe": probe})).unwrap();
        let ended = json!({"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"});
        let PodProblem { reason, .. } = problem(&serde_json::from_value(ended).unwrap(), container(&spec));
        assert_eq!(reason, Reason::CrashLoop);
    }

    #[test]
    fn exceeded_memory_limit_is_reported() {
        let ended = json!({"exitCode": 137, "reason": "OOMKilled", "message": "allocating"});
        assert_eq!(read(ended), (Reason::OutOfMemory, "64Mi".into()));
    }
}
