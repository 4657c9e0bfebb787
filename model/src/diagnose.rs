//! Why an application does not work, in one sentence, and the command to run next.

mod deletion;
mod pod;
mod pull;
pub(crate) mod refusal;
mod schedule;

use std::collections::BTreeMap;

use crd::{Cause, PodFields};

pub(crate) use self::deletion::of_deletion;
pub use self::pod::diagnose_pod;
pub(crate) use self::refusal::detail;
use crate::children::{self, Health};
use crate::observed::Observed;
use crate::pod::{PodState, Question, Trouble};
use crate::printable::printable;
pub use crate::reason::Reason;
use crate::valid::Valid;
use crate::{Failure, NextCommand, command};

/// What to say of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// One word.
    pub reason: Reason,
    /// One sentence without full stop.
    pub message: String,
    /// The command to run next, where there is one.
    pub next: Option<NextCommand>,
    /// Whether nothing changes until a person changes something.
    pub stalled: bool,
}

/// Who is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What it is.
    pub kind: crd::Kind,
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// What its pods are to run, where that is known.
    pub pod: Option<&'a PodFields>,
    /// It is being deleted.
    pub deleting: bool,
    /// The time, in seconds since 1970.
    pub now: i64,
    /// Whether an Ingress must have an address before the application counts as ready.
    pub needs_address: bool,
}

impl<'a> Subject<'a> {
    /// Asks about what has this name, and nothing more of it.
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

    /// Returns the command of the plugin with a verb for it.
    pub(crate) fn command(&self, verb: &'static str) -> NextCommand {
        plugin(self.kind)
            .and(verb)
            .and(command!("{} -n {}", self.name, self.namespace))
    }
}

/// Finds the root cause: what failed to be written, then what refuses the pods, then what a pod says, then what
/// is only on its way.
#[must_use]
pub fn diagnose(
    subject: Subject<'_>,
    valid: Option<&Valid<'_>>,
    observed: &Observed,
    failures: &[Failure],
) -> Diagnosis {
    if subject.deleting {
        let message = format!("it is being deleted, with its {}", children::names(observed.kinds));
        return said(Reason::Deleting, &message, None);
    }
    if let Some(failure) = failures.first() {
        return of_failure(subject, failure);
    }
    let Some(valid) = valid else {
        return said(Reason::Progressing, "the Deployment is being created", None);
    };
    let health = Health {
        subject,
        valid,
        observed,
    };
    let unhealthy = observed.kinds.iter().find_map(|kind| (kind.health)(health));
    unhealthy.unwrap_or_else(|| match observed.rollout().map_or(0, |rollout| rollout.wanted) {
        0 => said(Reason::ScaledToZero, "scaled to zero", None),
        1 => said(Reason::Available, "1 pod is ready", None),
        wanted => said(Reason::Available, &format!("{wanted} pods are ready"), None),
    })
}

/// Returns the pod whose trouble is told. What somebody has to change comes before what may pass; among equals the first,
/// for a steady message.
pub(crate) fn spokesman(pods: &[PodState], now: i64) -> Option<(&PodState, Trouble)> {
    let troubles = current(pods).filter_map(|pod| Some((pod, pod.trouble_at(now)?)));
    troubles.min_by_key(|(_, trouble)| (!trouble.is_stalled(), trouble.reason.as_str()))
}

/// Returns the question whose answer would make a better sentence than `cause`: about the pod that is the cause, or, where
/// none is, about the first that does not start.
pub(crate) fn question(cause: Option<&Cause>, pods: &[PodState], now: i64) -> Option<Question> {
    match (spokesman(pods, now), cause) {
        (Some((pod, trouble)), Some(cause)) if cause.reason == trouble.reason.as_str() => pod.question_at(now),
        (None, None) => current(pods).find_map(|pod| pod.question_at(now)),
        _ => None,
    }
}

/// Returns the pods that tell about the spec as it is: of the template whose first pod came last, and not those that have
/// ended and were replaced. A pod of the template before may be younger, because its node was drained.
pub(crate) fn current(pods: &[PodState]) -> impl Iterator<Item = &PodState> {
    let youngest = youngest(pods);
    pods.iter()
        .filter(move |pod| !pod.deleting)
        .filter(move |pod| match youngest {
            Some(template) => !pod.finished && pod.template == *template,
            None => true,
        })
}

/// Returns the template whose first living pod came last.
pub(crate) fn youngest(pods: &[PodState]) -> Option<&Option<String>> {
    let living = |pod: &&PodState| !pod.deleting && !pod.finished;
    let mut first: BTreeMap<&Option<String>, i64> = BTreeMap::new();
    for pod in pods.iter().filter(living) {
        let created = first.entry(&pod.template).or_insert(pod.created);
        *created = pod.created.min(*created);
    }
    first
        .into_iter()
        .max_by_key(|(_, created)| *created)
        .map(|(template, _)| template)
}

/// Returns a diagnosis. The message can quote others: what a terminal would not show is replaced.
pub(crate) fn said(reason: Reason, message: &str, next: Option<NextCommand>) -> Diagnosis {
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

/// Returns a verb of the plugin for the object.
fn verb(subject: Subject<'_>, verb: &'static str) -> NextCommand {
    plugin(subject.kind)
        .and(verb)
        .and(command!("{} -n {}", subject.name, subject.namespace))
}

fn edit(subject: Subject<'_>) -> NextCommand {
    verb(subject, "edit")
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

/// Selects the pods in a command.
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
    verb(subject, "logs")
}

pub(crate) fn of_failure(subject: Subject<'_>, failure: &Failure) -> Diagnosis {
    let namespace = subject.namespace;
    let (reason, next) = match failure {
        Failure::Invalid(_) | Failure::Unreadable(_) => {
            let reason = if matches!(failure, Failure::Invalid(_)) {
                Reason::InvalidSpec
            } else {
                Reason::Unreadable
            };
            (reason, Some(edit(subject)))
        }
        // `adopt` shows first what it would take over, and from which owner; a third-party pod is not for it.
        Failure::NameConflict { kind: "Pod", name, .. } => (
            Reason::NameConflict,
            Some(command!("kubectl get pod {} -n {} -o yaml", name, namespace)),
        ),
        Failure::NameConflict { .. } => (Reason::NameConflict, Some(subject.command("adopt"))),
        Failure::Rejected {
            kind: "Pod", message, ..
        } => return refusal::diagnose(subject, message),
        Failure::Rejected { message, .. } if refusal::is_quota(message) => (
            Reason::QuotaExceeded,
            Some(command!("kubectl describe quota -n {}", namespace)),
        ),
        Failure::Rejected { .. } => (Reason::Rejected, Some(edit(subject))),
        Failure::HostConflict { .. } => (Reason::HostConflict, Some(set(subject, "host", "HOST"))),
        Failure::Forbidden(_) => (Reason::Forbidden, Some("kubectl appdeploy install".into())),
        Failure::Blind { .. } => (Reason::WatchFailed, Some(operator_log())),
        Failure::Leftover { .. } => (Reason::Progressing, None),
        Failure::NamespaceTerminating => (
            Reason::NamespaceTerminating,
            Some(command!("kubectl get namespace {}", namespace)),
        ),
        Failure::Unavailable { .. } if failure.is_of_a_webhook() => (
            Reason::ApiUnavailable,
            Some("kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations".into()),
        ),
        Failure::Unavailable { .. } => (Reason::ApiUnavailable, Some(operator_log())),
        Failure::TimedOut { .. } => (Reason::ReconcileTimeout, Some(operator_log())),
        Failure::Panicked => (Reason::InternalError, Some(operator_log())),
    };
    said(reason, &failure.to_string(), next)
}

fn operator_log() -> NextCommand {
    command!(
        "kubectl logs -n {} -l app.kubernetes.io/name=appdeploy-operator --prefix --tail=50",
        crd::OPERATOR_NAMESPACE
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::children::DEPLOYMENT;
    use crate::observed::{ChildState, Rollout};
    use crate::pod::Shaky;
    use crate::{Child, ChildId, validate};

    fn pod(template: &str, created: i64, trouble: Option<(Reason, &str)>) -> PodState {
        PodState {
            created,
            template: Some(template.to_owned()),
            trouble: trouble.map(|(reason, detail)| Trouble::new(reason, detail)),
            ..PodState::default()
        }
    }

    fn rollout() -> Rollout {
        Rollout {
            observed: true,
            wanted: 2,
            replicas: 2,
            updated: 2,
            ..Rollout::default()
        }
    }

    fn reason(rollout: Rollout, pods: Vec<PodState>) -> (Reason, String) {
        let found = found(json!({"image": "nginx"}), rollout, pods);
        (found.reason, found.message)
    }

    fn found(spec: serde_json::Value, rollout: Rollout, pods: Vec<PodState>) -> Diagnosis {
        let app = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec});
        let app: crd::AppDeploy = serde_json::from_value(app).unwrap();
        let child = Child {
            state: ChildState::Rollout(Box::new(rollout)),
            ..Child::default()
        };
        let observed = Observed {
            children: vec![(ChildId::new(&DEPLOYMENT, "web"), child)],
            pods,
            ..Observed::default()
        };
        let valid = validate(&app).unwrap();
        diagnose(
            Subject::named(crd::Kind::AppDeploy, "web", "default"),
            Some(&valid),
            &observed,
            &[],
        )
    }

    const NOT_FOUND: Option<(Reason, &str)> = Some((Reason::ImageNotFound, "nginx:nope"));

    #[test]
    fn a_fault_that_was_just_mended_is_not_told() {
        let mended = Rollout {
            observed: false,
            refused: Some("quota".into()),
            overdue: true,
            ..rollout()
        };
        assert_eq!(reason(mended, vec![pod("old", 1, NOT_FOUND)]).0, Reason::Progressing);
    }

    #[test]
    fn the_broken_pods_of_an_older_template_are_not_the_cause() {
        let pods = vec![pod("old", 1, NOT_FOUND), pod("new", 2, None)];
        assert_eq!(reason(rollout(), pods).0, Reason::Progressing);
        let pods = vec![pod("old", 1, None), pod("new", 2, NOT_FOUND)];
        assert_eq!(
            reason(rollout(), pods),
            (Reason::ImageNotFound, "image nginx:nope was not found".into())
        );
    }

    #[test]
    fn a_pod_of_the_older_template_that_is_made_anew_takes_nobodys_word() {
        let pods = vec![pod("old", 1, None), pod("new", 2, NOT_FOUND), pod("old", 3, None)];
        assert_eq!(reason(rollout(), pods).0, Reason::ImageNotFound);
    }

    #[test]
    fn an_evicted_pod_is_the_cause_only_until_it_was_replaced() {
        let evicted = PodState {
            finished: true,
            ..pod("a", 1, Some((Reason::Evicted, "disk")))
        };
        assert_eq!(reason(rollout(), vec![evicted.clone()]).0, Reason::Evicted);
        assert_eq!(
            reason(rollout(), vec![evicted, pod("a", 2, None)]).0,
            Reason::Progressing
        );
    }

    #[test]
    fn what_somebody_has_to_change_comes_before_what_may_pass() {
        let pods = vec![
            pod("a", 1, Some((Reason::CrashLoop, "exit code 1"))),
            pod("a", 1, NOT_FOUND),
        ];
        assert_eq!(reason(rollout(), pods).0, Reason::ImageNotFound);
    }

    #[test]
    fn a_pod_that_crashes_is_not_ready_for_the_moments_that_it_runs() {
        let complete = Rollout {
            available: 2,
            ready: 2,
            ..rollout()
        };
        let trouble = Trouble::new(Reason::CrashLoop, "exit code 3");
        let shaky = |until| PodState {
            shaky: Some(Shaky {
                until,
                trouble: trouble.clone(),
            }),
            ..pod("a", 1, None)
        };
        assert_eq!(reason(complete.clone(), vec![shaky(1)]).0, Reason::CrashLoop);
        assert_eq!(reason(complete, vec![shaky(0)]).0, Reason::Available);
    }

    #[test]
    fn pods_that_are_ready_are_not_taken_for_new_ones() {
        let said = |updated, replicas, ready, available| {
            let rollout = Rollout {
                replicas,
                updated,
                ready,
                available,
                ..rollout()
            };
            reason(rollout, vec![]).1
        };
        assert_eq!(said(1, 3, 2, 2), "1 of 2 pods run the new spec");
        assert_eq!(
            said(2, 3, 2, 2),
            "2 of 2 pods run the new spec, and 1 old pod serves until they are ready"
        );
        assert_eq!(
            said(2, 4, 3, 2),
            "2 of 2 pods run the new spec, and 2 old pods serve until they are ready"
        );
        assert_eq!(said(2, 2, 2, 1), "2 of 2 pods are ready, 1 for long enough");
        assert_eq!(said(2, 3, 1, 1), "1 of 2 pods are ready");
    }

    #[test]
    fn a_paused_rollout_is_told_with_how_far_it_is() {
        let paused = Rollout {
            paused: true,
            updated: 1,
            ready: 2,
            ..rollout()
        };
        let told = "the rollout is paused: 1 of 2 pods run the new spec";
        assert_eq!(reason(paused.clone(), vec![]), (Reason::Paused, told.into()));
        // Who has paused it has to resume it.
        let next = |spec| found(spec, paused.clone(), vec![]).next.unwrap().to_string();
        assert_eq!(
            [
                next(json!({"image": "nginx"})),
                next(json!({"image": "nginx", "paused": true}))
            ],
            [
                "kubectl rollout resume deployment web -n default",
                "kubectl appdeploy resume web -n default"
            ]
        );
    }
}
