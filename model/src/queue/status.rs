//! The status of an AppQueue. It is written on every outcome of a reconcile.

use crd::{AppQueue, AppQueueSpec, AppQueueStatus, Cause};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{CallError, Conflict, CredentialsError, DeadLetterState, Outcome, State, config_map_name};
use crate::conditions::Conditions;
use crate::diagnose::{self, Diagnosis, diagnosis};
use crate::reason::Reason;
use crate::{Failure, NextCommand, command};

/// The object that a diagnosis is about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    name: &'a str,
    namespace: &'a str,
    is_deleting: bool,
    spec: &'a AppQueueSpec,
}

impl Subject<'_> {
    /// Returns a command of the plugin.
    fn plugin(self, verb: &'static str) -> NextCommand {
        NextCommand::from("kubectl appdeploy queue")
            .and(verb)
            .and(command!("{} -n {}", self.name, self.namespace))
    }

    /// Returns the command that creates its dead letter queue, which has the same service and type.
    fn create_dead_letter(self, name: &str) -> NextCommand {
        let sqs = &self.spec.sqs;
        let mut create = command!(
            "kubectl appdeploy queue create {} -n {} --region {}",
            name,
            self.namespace,
            sqs.region
        );
        if let Some(endpoint) = &sqs.endpoint {
            create = create.and(command!("--endpoint {}", endpoint));
        }
        if sqs.is_fifo() {
            create = create.and("--type FIFO");
        }
        match &self.spec.credentials {
            Some(credentials) => create.and(command!("--credentials {}", credentials.secret_ref.name)),
            None => create,
        }
    }

    fn edit(self) -> NextCommand {
        command!("kubectl edit appqueue {} -n {}", self.name, self.namespace)
    }
}

/// Returns the status of an AppQueue. `outcome` is `None` if the reconcile did not come to an end, because of `failure`. A
/// failure, such as a ConfigMap that can't be written, is reported instead of the outcome.
///
/// URL, ARN and depth keep their stored values while the queue is not known. The depth also keeps it while its number of
/// digits is the same.
#[must_use]
pub fn status(
    queue: &AppQueue,
    outcome: Option<&Outcome>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> AppQueueStatus {
    let name = queue.name_any();
    let subject = Subject {
        name: &name,
        namespace: queue.metadata.namespace.as_deref().unwrap_or_default(),
        is_deleting: queue.metadata.deletion_timestamp.is_some(),
        spec: &queue.spec,
    };
    let found = match (failure, outcome) {
        (Some(failure), _) => diagnose_failure(subject, failure),
        (None, Some(outcome)) => diagnose_state(subject, &outcome.state),
        (None, None) => diagnosis(Reason::Progressing, "the queue is being created", None),
    };
    let stored = queue.status.clone().unwrap_or_default();
    let view = outcome.and_then(Outcome::view);
    let depth = view.and_then(|view| view.depth);
    let make = Conditions {
        before: &stored.conditions,
        generation: queue.metadata.generation,
        now,
    };
    AppQueueStatus {
        observed_generation: queue.metadata.generation,
        url: view.map(|view| view.url.clone()).or(stored.url),
        arn: view.and_then(|view| view.arn.clone()).or(stored.arn),
        approximate_depth: match (stored.approximate_depth, depth) {
            (Some(stored), Some(depth)) if digits(stored) == digits(depth) => Some(stored),
            (stored, depth) => depth.or(stored),
        },
        cause: (!found.reason.is_ready() && !found.reason.is_progress()).then(|| Cause {
            reason: found.reason.as_str().to_owned(),
            message: found.message.clone(),
            next: found.next.as_ref().map(ToString::to_string),
        }),
        conditions: make.with_other_conditions(make.of(&found)),
    }
}

/// Returns the status of an AppQueue whose reconcile panicked or timed out.
#[must_use]
pub fn unfinished(queue: &AppQueue, failure: &Failure, now: Timestamp) -> AppQueueStatus {
    status(queue, None, Some(failure), now)
}

/// Returns the number of digits of a depth, and 0 for an empty queue.
fn digits(depth: i64) -> u32 {
    u32::try_from(depth)
        .ok()
        .and_then(u32::checked_ilog10)
        .map_or(0, |log| log + 1)
}

fn diagnose_failure(subject: Subject<'_>, failure: &Failure) -> Diagnosis {
    let (reason, next) = match failure {
        Failure::Invalid(_) => (Reason::InvalidSpec, subject.edit()),
        Failure::Unreadable(_) => (Reason::Unreadable, subject.edit()),
        Failure::NameConflict { .. } => {
            let name = config_map_name(subject.name);
            let read = command!("kubectl get configmap {} -n {} -o yaml", name, subject.namespace);
            (Reason::NameConflict, read)
        }
        Failure::HostConflict { .. } | Failure::Rejected { .. } => (Reason::Rejected, subject.edit()),
        _ => return diagnose::diagnose_operator_failure(subject.namespace, failure),
    };
    diagnosis(reason, &failure.to_string(), Some(next))
}

fn diagnose_state(subject: Subject<'_>, state: &State) -> Diagnosis {
    match state {
        State::Ready(_) => diagnosis(Reason::Available, "the queue exists and is as desired", None),
        State::Propagating if subject.is_deleting => diagnosis(
            Reason::Deleting,
            "it is being deleted; the queue was just created and is not visible yet",
            None,
        ),
        State::Propagating => diagnosis(
            Reason::Progressing,
            "the queue was created and is not visible yet",
            None,
        ),
        State::Deleting => diagnosis(Reason::Deleting, "it is being deleted", None),
        State::DeadLetter { state, .. } => diagnose_dead_letter(subject, state),
        State::Conflict(conflict) => diagnose_conflict(subject, conflict),
        State::Failed(error) => diagnose_error(subject, error),
    }
}

fn diagnose_dead_letter(subject: Subject<'_>, state: &DeadLetterState) -> Diagnosis {
    let (reason, message, next) = match state {
        DeadLetterState::Ready => (Reason::Progressing, "the queue is being created".to_owned(), None),
        DeadLetterState::NotReady { name } => (
            Reason::DeadLetterNotReady,
            format!("the dead letter queue {name} is not ready"),
            Some(command!(
                "kubectl appdeploy queue status {} -n {}",
                name,
                subject.namespace
            )),
        ),
        DeadLetterState::Missing { name } => (
            Reason::DeadLetterMissing,
            format!("the dead letter queue {name} does not exist"),
            Some(subject.create_dead_letter(name)),
        ),
        DeadLetterState::Unsuitable { name, why } => (
            Reason::DeadLetterMissing,
            format!("the dead letter queue {name} can't be used: {why}"),
            Some(subject.edit()),
        ),
    };
    diagnosis(reason, &message, next)
}

fn diagnose_conflict(subject: Subject<'_>, conflict: &Conflict) -> Diagnosis {
    let (message, next) = match conflict {
        Conflict::NotManaged => (
            "a queue with this name exists and was not created by this AppQueue; it is not changed".to_owned(),
            subject.plugin("adopt"),
        ),
        Conflict::Owned { uid } => (
            format!("the queue belongs to another AppQueue, with the UID {uid}; it is not changed"),
            "kubectl get appqueues --all-namespaces -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid".into(),
        ),
    };
    diagnosis(Reason::QueueConflict, &message, Some(next))
}

fn diagnose_error(subject: Subject<'_>, error: &CallError) -> Diagnosis {
    let (reason, next) = match error {
        CallError::NoCredentials(error) => diagnose_credentials(subject, error),
        CallError::Denied(_) => (Reason::CredentialsRefused, Some(subject.plugin("describe"))),
        CallError::DeletedRecently => (Reason::QueueDeletedRecently, None),
        CallError::Throttled { .. } => (Reason::QueueThrottled, None),
        CallError::Refused(_) => (Reason::QueueRefused, Some(subject.edit())),
        CallError::NoSuchQueue | CallError::AttributesDiffer => (Reason::Progressing, None),
        CallError::Unavailable(_) | CallError::Lost(_) => (Reason::EndpointUnavailable, Some(diagnose::operator_log())),
    };
    if !subject.is_deleting {
        let message = match error {
            CallError::DeletedRecently => format!("{error}; it is created when the service accepts the name again"),
            error => error.to_string(),
        };
        return diagnosis(reason, &message, next);
    }
    // The command that ends the deletion in any case is more useful than the one that may end the failure.
    let orphan = subject.plugin("delete").and("--orphan");
    let message = format!("the queue can't be deleted: {error}; --orphan ends the deletion and keeps the queue");
    diagnosis(reason, &message, Some(orphan))
}

fn diagnose_credentials(subject: Subject<'_>, error: &CredentialsError) -> (Reason, Option<NextCommand>) {
    let namespace = subject.namespace;
    match error {
        CredentialsError::NotConfigured | CredentialsError::ForeignName(_) => {
            (Reason::CredentialsMissing, Some(subject.edit()))
        }
        CredentialsError::SecretMissing(secret) => {
            let create = command!(
                "kubectl create secret generic {} -n {} --from-literal=AWS_ACCESS_KEY_ID=VALUE --from-literal=AWS_SECRET_ACCESS_KEY=VALUE",
                secret,
                namespace
            );
            (Reason::CredentialsMissing, Some(create))
        }
        CredentialsError::KeyMissing { secret, .. } => (
            Reason::CredentialsMissing,
            Some(command!("kubectl edit secret {} -n {}", secret, namespace)),
        ),
        CredentialsError::SecretForbidden(_) => (
            Reason::CredentialsForbidden,
            Some(subject.plugin("create").and("--grant-only")),
        ),
    }
}

#[cfg(test)]
mod tests;
