//! The status of an application, written on every outcome.

use std::time::Duration;

use crd::status::{MAX_MESSAGE, condition};
use crd::{Address, AppDeploy, AppDeployStatus, Cause, RevisionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;

use crate::Failure;
use crate::children::{INGRESS, SERVICE, awaits_address};
use crate::diagnose::{Diagnosis, Reason, Subject, diagnose, of_deletion, question};
use crate::observed::{IngressClasses, Observed, Rollout};
use crate::pod::Question;
use crate::valid::Valid;

/// The most revisions that a status records.
const MAX_REVISIONS: usize = 20;

/// How strict the status is, as the operator was told.
#[derive(Clone, Copy, Debug)]
pub struct StatusOptions {
    /// Wait for the address of an Ingress where a controller for it exists. Off for controllers that publish
    /// none.
    pub needs_address: bool,
}

/// Says how an application is.
///
/// `app` is the application as it is stored, with the status that it has; of that, only the times at which
/// conditions last changed are kept. Two calls that differ in nothing but `now` give the same status, until
/// [`changes_in`] has passed.
#[must_use]
pub fn status(
    app: &AppDeploy,
    valid: Option<&Valid<'_>>,
    observed: &Observed,
    failures: &[Failure],
    options: StatusOptions,
    now: Timestamp,
) -> AppDeployStatus {
    let name = app.name_any();
    let subject = Subject {
        kind: crd::Kind::AppDeploy,
        name: &name,
        namespace: app.metadata.namespace.as_deref().unwrap_or_default(),
        pod: Some(&app.spec.pod),
        deleting: app.metadata.deletion_timestamp.is_some(),
        now: now.as_second(),
        needs_address: options.needs_address,
    };
    let is_clear = !subject.deleting && failures.is_empty();
    let deletion = valid
        .filter(|_| is_clear)
        .and_then(|valid| of_deletion(subject, valid, observed));
    let observed = &observed.ours(app.metadata.uid.as_deref().unwrap_or_default());
    let found = deletion.unwrap_or_else(|| diagnose(subject, valid, observed, failures));
    let rollout = observed.rollout();
    let is_hostless = lacks_its_ingress(&found, observed);
    let before = app.status.as_ref();
    let count = |of: fn(&Rollout) -> i32| Some(rollout.map_or(0, of));
    let next = AppDeployStatus {
        observed_generation: app.metadata.generation,
        restarted_at: app.annotations().get(crd::annotation::RESTARTED_AT).cloned(),
        replicas: count(|rollout| rollout.replicas),
        ready_replicas: count(|rollout| rollout.ready),
        updated_replicas: count(|rollout| rollout.updated),
        selector: Some(format!("{}={name}", crd::label::APP)),
        url: valid.filter(|_| !is_hostless).and_then(url),
        addresses: valid.and_then(|valid| address(valid, observed)).into_iter().collect(),
        cause: (!found.reason.is_ready() && !found.reason.is_progress()).then(|| Cause {
            reason: found.reason.as_str().to_owned(),
            message: found.message.clone(),
            next: found.next.as_ref().map(ToString::to_string),
        }),
        conditions: conditions(app, &found, exposed(valid, observed, &found), now),
        revisions: before.map(|status| status.revisions.clone()).unwrap_or_default(),
    };
    // On its own this is no reason for a write.
    if before == Some(&next) {
        return next;
    }
    AppDeployStatus {
        revisions: revisions(&next.revisions, rollout, now),
        ..next
    }
}

/// Records the newest revision: when it was first seen, and whether all its pods have been ready.
fn revisions(before: &[RevisionStatus], rollout: Option<&Rollout>, now: Timestamp) -> Vec<RevisionStatus> {
    let mut all = before.to_vec();
    let Some((rollout, number)) = rollout
        .filter(|rollout| rollout.observed)
        .and_then(|rollout| Some((rollout, rollout.revision?)))
    else {
        return all;
    };
    if all.last().is_some_and(|last| last.number > number) {
        // Another Deployment of the same name counts from 1 again.
        all.clear();
    }
    if all.last().is_none_or(|last| last.number < number) {
        let is_seen_from_its_start = number == 1 || !all.is_empty();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        all.push(RevisionStatus {
            number,
            start_time: is_seen_from_its_start.then_some(Time(now)),
            became_ready: false,
        });
        let surplus = all.len().saturating_sub(MAX_REVISIONS);
        all.drain(..surplus);
    }
    if let Some(last) = all.last_mut() {
        last.became_ready |= rollout.is_complete() && rollout.wanted > 0;
    }
    all
}

fn conditions(
    app: &AppDeploy,
    found: &Diagnosis,
    exposed: Option<(bool, &'static str, String)>,
    now: Timestamp,
) -> Vec<Condition> {
    let make = Conditions {
        before: app.status.as_ref().map_or(&[], |status| &status.conditions),
        generation: app.metadata.generation,
        now,
    };
    let mut conditions = make.of(found);
    if let (Some((is, reason, message)), false) = (exposed, found.reason == Reason::Deleting) {
        conditions.push(make.one(condition::EXPOSED, is, reason, &message));
    }
    make.with_foreign_conditions(conditions)
}

/// Returns how long it takes until the clock alone makes [`status`] say something else: a container that had
/// crashed has run for long enough, or one has failed its health check for too long. `None` for most, always
/// for an application that is well.
#[must_use]
pub fn changes_in(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let now = now.as_second();
    let at = observed.pods.iter().filter_map(|pod| pod.changes_at(now)).min()?;
    Some(Duration::from_secs(at.abs_diff(now)))
}

/// Returns what to ask for, so that [`status`] can say why the application is not healthy or does not start; nothing where
/// that is not what it says.
#[must_use]
pub fn asks(status: &AppDeployStatus, observed: &Observed, now: Timestamp) -> Option<Question> {
    let is_ready = |c: &Condition| c.type_ == condition::READY && c.status == "True";
    if status.conditions.iter().any(is_ready) {
        return None;
    }
    question(status.cause.as_ref(), &observed.pods, now.as_second())
}

fn url(valid: &Valid<'_>) -> Option<String> {
    let route = valid.route.as_ref()?;
    Some(match &route.ingress {
        Some(ingress) => ingress.url(),
        None => format!("http://{}.{}.svc:{}/", valid.name, valid.namespace, route.port),
    })
}

fn address(valid: &Valid<'_>, observed: &Observed) -> Option<Address> {
    let kind = if valid.route.as_ref()?.ingress.is_some() {
        &INGRESS
    } else {
        &SERVICE
    };
    observed.first(kind)?.address().map(Address::of)
}

/// Whether there is no Ingress because the host or the name of a child is another owner's.
fn lacks_its_ingress(found: &Diagnosis, observed: &Observed) -> bool {
    let has_ingress = observed.first(&INGRESS).is_some();
    found.reason == Reason::HostConflict || found.reason == Reason::NameConflict && !has_ingress
}

/// Whether the application can be reached from outside: nothing for one that is not meant to be.
fn exposed(valid: Option<&Valid<'_>>, observed: &Observed, found: &Diagnosis) -> Option<(bool, &'static str, String)> {
    let route = valid?.route.as_ref()?;
    let ingress = route.ingress.as_ref()?;
    if lacks_its_ingress(found, observed) {
        return Some((false, found.reason.as_str(), found.message.clone()));
    }
    if let Some(address) = observed.first(&INGRESS).and_then(|child| child.address()) {
        return Some((
            true,
            "AddressPublished",
            format!("{} answers at {address}", ingress.host),
        ));
    }
    if awaits_address(route, observed) {
        if found.reason == Reason::NoIngressClass {
            return Some((false, found.reason.as_str(), found.message.clone()));
        }
        return Some((
            false,
            "AddressPending",
            "the ingress controller has not published an address yet".into(),
        ));
    }
    let message = match (&observed.ingress_classes, &ingress.class) {
        (IngressClasses::Unreadable, _) => "the operator may not read IngressClasses".to_owned(),
        (_, Some(class)) => format!("the cluster has no IngressClass {class}"),
        (_, None) => "the cluster has no default IngressClass, so nothing serves the Ingress".to_owned(),
    };
    Some((false, "NoIngressClass", message))
}

/// Makes conditions, each with the time of its last change.
pub(crate) struct Conditions<'a> {
    /// The conditions as they are stored.
    pub before: &'a [Condition],
    /// The generation that they are about.
    pub generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

impl Conditions<'_> {
    /// Makes those that every kind has.
    pub fn of(&self, found: &Diagnosis) -> Vec<Condition> {
        let Diagnosis {
            reason,
            message,
            stalled,
            ..
        } = found;
        let stalled = *stalled;
        let reconciling = !stalled && !reason.is_ready();
        let ready = match reason {
            reason if reason.is_ready() => "True",
            reason if reason.is_unknown() => "Unknown",
            _ => "False",
        };
        let mut conditions = vec![self.with_status(condition::READY, ready, reason.as_str(), message)];
        if reconciling {
            conditions.push(self.one(condition::RECONCILING, true, reason.as_str(), message));
        }
        if stalled {
            conditions.push(self.one(condition::STALLED, true, reason.as_str(), message));
        }
        conditions
    }

    /// Returns these conditions of ours together with those that other writers have stored, in the order in which they are
    /// stored: a writer that only changes the order causes no write.
    pub fn with_foreign_conditions(&self, mut ours: Vec<Condition>) -> Vec<Condition> {
        let mut all = Vec::new();
        for stored in self.before {
            if let Some(at) = ours.iter().position(|condition| condition.type_ == stored.type_) {
                all.push(ours.remove(at));
            } else if !condition::OURS.contains(&stored.type_.as_str()) {
                all.push(stored.clone());
            }
        }
        all.extend(ours);
        all
    }

    /// Makes one that is true or false.
    pub fn one(&self, type_: &str, is: bool, reason: &str, message: &str) -> Condition {
        self.with_status(type_, if is { "True" } else { "False" }, reason, message)
    }

    fn with_status(&self, type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        let since = match self.before.iter().find(|c| c.type_ == type_) {
            Some(before) if before.status == status => before.last_transition_time.clone(),
            // Whole seconds, as they are stored: a fraction would make the status differ from itself.
            _ => Time(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)),
        };
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.chars().take(MAX_MESSAGE).collect(),
            last_transition_time: since,
            observed_generation: self.generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(type_: &str, message: &str) -> Condition {
        let condition = json!({"type": type_, "status": "True", "reason": "Because", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        serde_json::from_value(condition).unwrap()
    }

    fn rollout(revision: i64, available: i32) -> Rollout {
        Rollout {
            observed: true,
            wanted: 2,
            replicas: 2,
            updated: 2,
            ready: available,
            available,
            revision: Some(revision),
            ..Rollout::default()
        }
    }

    #[test]
    fn revisions_record_when_they_began_and_whether_they_became_ready() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let steps = [(1, 0), (1, 2), (2, 0), (2, 1), (3, 2), (3, 0)];
        let mut all = Vec::new();
        for (second, (number, available)) in (0..).zip(steps) {
            all = revisions(&all, Some(&rollout(number, available)), at(second));
        }
        let seen = |all: &[RevisionStatus]| -> Vec<_> {
            let times = |one: &RevisionStatus| one.start_time.as_ref().map(|time| time.0.as_second());
            all.iter()
                .map(|one| (one.number, times(one), one.became_ready))
                .collect()
        };
        assert_eq!(
            seen(&all),
            [(1, Some(0), true), (2, Some(2), false), (3, Some(4), true)]
        );
        // Nothing is concluded before the controller has seen the spec, nor without a Deployment.
        let unseen = Rollout {
            observed: false,
            ..rollout(4, 2)
        };
        assert_eq!(revisions(&all, Some(&unseen), at(9)), all);
        assert_eq!(revisions(&all, None, at(9)), all);
        // A Deployment that was made again counts from 1; the start of one that is older than the record is not known.
        assert_eq!(
            seen(&revisions(&all, Some(&rollout(1, 0)), at(9))),
            [(1, Some(9), false)]
        );
        assert_eq!(seen(&revisions(&[], Some(&rollout(7, 2)), at(9))), [(7, None, true)]);
        let many = (1..=30).fold(Vec::new(), |all, number| {
            revisions(&all, Some(&rollout(number, 2)), at(9))
        });
        assert_eq!((many.len(), many[0].number), (20, 11));
    }

    #[test]
    fn ready_is_unknown_where_the_state_is_not_known() {
        let make = Conditions {
            before: &[],
            generation: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let ready = |reason| {
            let found = Diagnosis {
                reason,
                message: String::new(),
                next: None,
                stalled: false,
            };
            make.of(&found).remove(0).status
        };
        for (reason, status) in [
            (Reason::Available, "True"),
            (Reason::Progressing, "False"),
            (Reason::CrashLoop, "False"),
            (Reason::WatchFailed, "Unknown"),
            (Reason::ApiUnavailable, "Unknown"),
            (Reason::ReconcileTimeout, "Unknown"),
            (Reason::InternalError, "Unknown"),
        ] {
            assert_eq!(ready(reason), status, "{reason:?}");
        }
    }

    #[test]
    fn message_is_not_longer_than_the_schema_accepts() {
        let make = Conditions {
            before: &[],
            generation: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let longest = "ä".repeat(MAX_MESSAGE);
        assert_eq!(make.one("Ready", true, "Because", &longest).message, longest);
        assert_eq!(
            make.one("Ready", true, "Because", &(longest.clone() + "…")).message,
            longest
        );
    }

    #[test]
    fn conditions_of_others_keep_their_place() {
        let before = [
            condition("example.com/Scanned", "clean"),
            condition("Stalled", "old"),
            condition("Ready", "old"),
            condition("example.com/Audited", "yes"),
        ];
        let make = Conditions {
            before: &before,
            generation: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let ours = vec![condition("Ready", "new"), condition("Exposed", "new")];
        let all = make.with_foreign_conditions(ours);
        let told: Vec<_> = all.iter().map(|c| (c.type_.as_str(), c.message.as_str())).collect();
        let expected = [
            ("example.com/Scanned", "clean"),
            ("Ready", "new"),
            ("example.com/Audited", "yes"),
            ("Exposed", "new"),
        ];
        assert_eq!(told, expected, "Stalled is ours, and is over");
    }
}
