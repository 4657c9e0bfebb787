//! The status of an AppDeploy. It is written on every outcome of a reconcile.

mod cause;
mod deletion;

use std::time::Duration;

use crd::status::condition;
use crd::{Address, AppDeploy, AppDeployStatus, Cause, RevisionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;

use crate::children::{DroppedFields, INGRESS, Rollout, SERVICE, awaits_address};
use crate::conditions::Conditions;
use crate::diagnose::{self, Diagnosis, Subject};
use crate::pod::EventQuery;
use crate::reason::Reason;
use crate::{Failure, IngressClasses, Observed, Valid};
pub use cause::diagnose;
use deletion::diagnose_deletion;

/// The maximum number of revisions in a status.
const MAX_REVISIONS: usize = 20;

/// Settings of the operator that the status depends on.
#[derive(Clone, Copy, Debug)]
pub struct StatusOptions {
    /// Whether an app is not ready before its Ingress has an address, if a controller for the Ingress exists. Off for
    /// controllers that publish no addresses.
    pub needs_address: bool,
}

/// Returns the status of an app.
///
/// `app` is the stored object. Of its status, only the recorded revisions, what is noted of ConfigMaps, and the transition
/// times of conditions are kept.
/// Calls with different `now` return the same status until [`changes_in`] has passed.
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
        .and_then(|valid| diagnose_deletion(subject, valid, observed));
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
        conditions: conditions(app, &found, exposed(valid, observed, &found), dropped(observed), now),
        revisions: before.map(|status| status.revisions.clone()).unwrap_or_default(),
        config_maps: before.map(|status| status.config_maps.clone()).unwrap_or_default(),
        config_hash: before.and_then(|status| status.config_hash.clone()),
    };
    // A new revision without other changes does not cause a write.
    if before == Some(&next) {
        return next;
    }
    AppDeployStatus {
        revisions: revisions(&next.revisions, rollout, now),
        ..next
    }
}

/// Records the newest revision: when its rollout began, and whether all its pods have been ready.
fn revisions(before: &[RevisionStatus], rollout: Option<&Rollout>, now: Timestamp) -> Vec<RevisionStatus> {
    let mut all = before.to_vec();
    let Some((rollout, number)) = rollout
        .filter(|rollout| rollout.observed)
        .and_then(|rollout| Some((rollout, rollout.revision?)))
    else {
        return all;
    };
    if all.last().is_some_and(|last| last.number > number) {
        // A recreated Deployment counts from 1 again.
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
    dropped: Option<String>,
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
    if let Some(message) = dropped {
        conditions.push(make.one(condition::FIELDS_DROPPED, true, "NotStored", &message));
    }
    make.with_other_conditions(conditions)
}

/// Returns the message about fields of children that the API server has not stored.
fn dropped(observed: &Observed) -> Option<String> {
    let children = observed.dropped.iter().map(DroppedFields::message);
    let message = children.collect::<Vec<_>>().join("; ");
    (!message.is_empty()).then_some(message)
}

/// Returns after how long [`status`] changes although no object does: a restarted container has run for long enough, or a
/// container has failed its health check for long enough. `None` if it does not change.
#[must_use]
pub fn changes_in(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let now = now.as_second();
    let at = observed.pods.iter().filter_map(|pod| pod.changes_at(now)).min()?;
    Some(Duration::from_secs(at.abs_diff(now)))
}

/// Returns which Events would explain why the app does not start or is not healthy, for [`crate::pod::PodState::event`].
/// `None` if the status does not need them.
#[must_use]
pub fn event_query(status: &AppDeployStatus, observed: &Observed, now: Timestamp) -> Option<EventQuery> {
    let is_ready = |c: &Condition| c.type_ == condition::READY && c.status == "True";
    if status.conditions.iter().any(is_ready) {
        return None;
    }
    diagnose::event_query(status.cause.as_ref(), &observed.pods, now.as_second())
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

/// Whether the app has no Ingress because another object has its host or the name of one of its children.
fn lacks_its_ingress(found: &Diagnosis, observed: &Observed) -> bool {
    let has_ingress = observed.first(&INGRESS).is_some();
    found.reason == Reason::HostConflict || found.reason == Reason::NameConflict && !has_ingress
}

/// Returns whether the app can be reached from outside, with reason and message. `None` if it is not public.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn revisions_record_their_start_and_whether_they_became_ready() {
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
        // A recreated Deployment counts from 1. The start of a revision that is older than the record is not known.
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
}
