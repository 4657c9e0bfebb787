//! Turns failures and problems of pods into a reason, a sentence and the command to run next.

mod container;
mod pod;
mod pull;
pub(crate) mod refusal;
mod reported;
mod schedule;

use crd::PodFields;

pub use self::container::diagnose_pod;
pub(crate) use self::refusal::detail;
pub(crate) use self::reported::{event_query, newest_template, reported_problem};
use crate::printable::printable;
pub use crate::reason::Reason;
use crate::{Failure, NextCommand, command};

/// The state of an object, for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The reason of the Ready condition.
    pub reason: Reason,
    /// One sentence without full stop.
    pub message: String,
    /// The command to run next, if there is one.
    pub next: Option<NextCommand>,
    /// Whether a user must change something.
    pub stalled: bool,
}

/// The object that a diagnosis is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its kind.
    pub kind: crd::Kind,
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The spec of its pods, if it is known.
    pub pod: Option<&'a PodFields>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// Whether an Ingress must have an address before an app counts as ready.
    pub needs_address: bool,
}

impl<'a> Subject<'a> {
    /// Returns an object of which only the name is known.
    #[must_use]
    pub const fn named(kind: crd::Kind, name: &'a str, namespace: &'a str) -> Self {
        Self {
            kind,
            name,
            namespace,
            pod: None,
            deleting: false,
            now: 0,
            needs_address: true,
        }
    }

    /// Returns the command of the plugin that does something with it.
    pub(crate) fn command(&self, verb: &'static str) -> NextCommand {
        plugin(self.kind)
            .and(verb)
            .and(command!("{} -n {}", self.name, self.namespace))
    }
}

/// Returns a diagnosis. The message can contain third-party text, so its control characters are replaced.
pub(crate) fn diagnosis(reason: Reason, message: &str, next: Option<NextCommand>) -> Diagnosis {
    Diagnosis {
        reason,
        message: printable(message).into_owned(),
        next,
        stalled: reason.is_stalled(),
    }
}

/// Returns the start of a command of the plugin.
fn plugin(kind: crd::Kind) -> NextCommand {
    NextCommand::from(match kind {
        crd::Kind::AppDeploy => "kubectl appdeploy",
        crd::Kind::PodSet => "kubectl appdeploy podset",
    })
}

fn edit(subject: Subject<'_>) -> NextCommand {
    subject.command("edit")
}

/// Returns the command that changes one field. `value` is a placeholder.
fn set(subject: Subject<'_>, field: &'static str, value: &'static str) -> NextCommand {
    plugin(subject.kind)
        .and("set")
        .and(field)
        .and(command!("{}={}", subject.name, value))
        .and(command!("-n {}", subject.namespace))
}

/// Returns the command that changes resources.
fn set_resources(subject: Subject<'_>, flags: NextCommand) -> NextCommand {
    plugin(subject.kind)
        .and("set resources")
        .and(command!("{}", subject.name))
        .and(flags)
        .and(command!("-n {}", subject.namespace))
}

/// Returns the flags that select the pods.
fn pods(subject: Subject<'_>) -> NextCommand {
    command!(
        "-n {} -l {}",
        subject.namespace,
        subject.kind.pod_selector(subject.name)
    )
}

pub(crate) fn describe_pods(subject: Subject<'_>) -> NextCommand {
    NextCommand::from("kubectl describe pods").and(pods(subject))
}

fn logs(subject: Subject<'_>) -> NextCommand {
    subject.command("logs")
}

/// Returns the diagnosis for a failure of a reconcile.
pub(crate) fn diagnose_failure(subject: Subject<'_>, failure: &Failure) -> Diagnosis {
    let namespace = subject.namespace;
    let (reason, next) = match failure {
        Failure::Invalid(_) => (Reason::InvalidSpec, edit(subject)),
        Failure::Unreadable(_) => (Reason::Unreadable, edit(subject)),
        // `adopt` shows what it would adopt, and from which owner. It does not adopt third-party pods.
        Failure::NameConflict { kind: "Pod", name, .. } => (
            Reason::NameConflict,
            command!("kubectl get pod {} -n {} -o yaml", name, namespace),
        ),
        Failure::NameConflict { .. } => (Reason::NameConflict, subject.command("adopt")),
        Failure::Rejected {
            kind: "Pod", message, ..
        } => return refusal::diagnose(subject, message),
        Failure::Rejected { message, .. } if refusal::is_quota(message) => (
            Reason::QuotaExceeded,
            command!("kubectl describe quota -n {}", namespace),
        ),
        Failure::Rejected { .. } => (Reason::Rejected, edit(subject)),
        Failure::HostConflict { .. } => (Reason::HostConflict, set(subject, "host", "HOST")),
        _ => return diagnose_operator_failure(namespace, failure),
    };
    diagnosis(reason, &failure.to_string(), Some(next))
}

/// Returns the diagnosis for a failure that is not about the spec, and so is the same for all kinds.
pub(crate) fn diagnose_operator_failure(namespace: &str, failure: &Failure) -> Diagnosis {
    let (reason, next) = match failure {
        Failure::Forbidden(_) => (Reason::Forbidden, Some("kubectl appdeploy install".into())),
        Failure::WatchFailed { .. } => (Reason::WatchFailed, Some(operator_log())),
        Failure::Leftover { .. } => (Reason::Progressing, None),
        Failure::NamespaceTerminating => (
            Reason::NamespaceTerminating,
            Some(command!("kubectl get namespace {}", namespace)),
        ),
        Failure::Unavailable { .. } if failure.is_of_a_webhook() => (
            Reason::ApiUnavailable,
            Some("kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations".into()),
        ),
        Failure::TimedOut { .. } => (Reason::ReconcileTimeout, Some(operator_log())),
        Failure::Panicked => (Reason::InternalError, Some(operator_log())),
        _ => (Reason::ApiUnavailable, Some(operator_log())),
    };
    diagnosis(reason, &failure.to_string(), next)
}

pub(crate) fn operator_log() -> NextCommand {
    command!(
        "kubectl logs -n {} -l app.kubernetes.io/name=appdeploy-operator --prefix --tail=50",
        crd::OPERATOR_NAMESPACE
    )
}
