//! Checks the operator: its replicas, leader, version, rights and objects.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{RoleRef, Subject};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use model::command;

use super::facts::{Facts, Installed, Part};
use super::finding::{Finding, Severity};
use crate::error::{Error, Result};
use crate::installation::check::code::Code;
use crate::installation::manifests::{self, Kind};
use crate::installation::operator::{self, Operator};
use crate::installation::rights;
use crate::installation::rollout::{Progress, RolloutState};
use crate::installation::version;
use crate::output::age::span;
use crate::output::formats::some;

/// Multiples of its duration after which an expired Lease is not explained by clock skew any more.
const EXPIRED_AFTER: i64 = 4;

/// Returns the findings.
pub fn findings(facts: &Facts, installed: &Installed) -> Vec<Finding> {
    let deployment = match &facts.operator {
        Operator::Installed(deployment, _) => deployment,
        Operator::Absent => {
            let finding = Finding::error(Code::Running, "no operator is installed in this cluster");
            return vec![finding.next("kubectl appdeploy install")];
        }
        Operator::Unknown(error) => return vec![Finding::unseen(Code::Running, "the operator", error)],
    };
    let mut findings = vec![
        running(deployment, &installed.pods, facts.now),
        leader(deployment, installed, facts.now),
        release(deployment),
    ];
    if facts.is_by_olm() {
        findings.push(Finding::info(
            Code::Complete,
            "OLM manages the installation: rights, webhooks and all other objects",
        ));
    } else {
        findings.extend([granted(facts), complete(facts)]);
    }
    findings
}

fn running(deployment: &Deployment, pods: &Result<Vec<Pod>>, now: Timestamp) -> Finding {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
    let available = available.unwrap_or(0);
    if wanted == 0 {
        let switched_off = Deployment {
            status: None,
            ..deployment.clone()
        };
        let absence = Operator::Installed(Box::new(switched_off), None).absence(None, now);
        let (why, next) = absence.unwrap_or_default();
        return Finding::error(Code::Running, why).next(next);
    }
    let seen = Progress {
        deployment: Some(deployment.clone()),
        pods: pods.as_ref().map_or_else(|_| Vec::new(), Clone::clone),
    };
    let counts = format!("{available} of {wanted} replicas of the operator are available");
    if seen.state() == RolloutState::Ready {
        return Finding::ok(Code::Running, counts);
    }
    let severity = if available > 0 {
        Severity::Warning
    } else {
        Severity::Error
    };
    let explained = if pods.is_ok() {
        seen.explain(Error::failed(""))
    } else {
        Error::failed("").next(command!("kubectl -n {} get pods", crd::OPERATOR_NAMESPACE))
    };
    Finding {
        why: explained.whys().to_vec(),
        next: explained.nexts().to_vec(),
        ..Finding::new(Code::Running, severity, counts)
    }
}

fn leader(deployment: &Deployment, installed: &Installed, now: Timestamp) -> Finding {
    if !operator::is_elected(deployment) {
        let finding = Finding::info(
            Code::Leader,
            "leader election is disabled: the operator must run with one replica",
        );
        let is_alone = deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(1);
        return if is_alone {
            finding
        } else {
            Finding {
                severity: Severity::Warning,
                ..finding
            }
            .why("its Deployment has several replicas, and all of them would write")
            .next("kubectl appdeploy install")
        };
    }
    let lease = match &installed.lease {
        Ok(Some(lease)) => lease,
        Ok(None) => return without_leader("the Lease does not exist"),
        Err(error) => return Finding::unseen(Code::Leader, "the leader", error),
    };
    let Some((holder, age, duration)) = held(lease, now) else {
        return without_leader("the Lease has no holder");
    };
    // An operator is called as its pod is, and differently at each start.
    let pod = holder.rsplit_once('_').map_or(holder, |(pod, _)| pod);
    if age > EXPIRED_AFTER * duration {
        return without_leader(&format!("the Lease of {pod} expired {} ago", span(age - duration)));
    }
    if let Ok(pods) = &installed.pods
        && !pods.iter().any(|one| one.name_any() == pod)
    {
        return Finding::warning(Code::Leader, format!("{pod} leads, but its pod was deleted"))
            .why(format!(
                "another pod takes over within {} of the last renewal",
                span(duration)
            ))
            .next("kubectl appdeploy check --wait");
    }
    Finding::ok(Code::Leader, format!("{pod} leads"))
}

fn without_leader(why: &str) -> Finding {
    Finding::error(Code::Leader, "no operator leads: apps are not reconciled")
        .why(why)
        .next(command!(
            "kubectl -n {} logs deployment/{} --tail=20",
            crd::OPERATOR_NAMESPACE,
            operator::NAME
        ))
}

/// Returns the holder of a Lease, its age and its duration in seconds.
fn held(lease: &Lease, now: Timestamp) -> Option<(&str, i64, i64)> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    let age = now.as_second() - renewed.as_second();
    Some((holder, age, i64::from(spec.lease_duration_seconds.unwrap_or(15))))
}

fn release(deployment: &Deployment) -> Finding {
    let image = operator::image(deployment).unwrap_or("<unknown>");
    let tag = operator::tag(image);
    match version::skew(tag) {
        Some(warning) if version::is_newer(tag) => {
            Finding::warning(Code::Release, warning).next(command!("use the plugin of {}", tag))
        }
        Some(warning) => Finding::warning(Code::Release, warning).next("kubectl appdeploy install"),
        None if tag == version::PLUGIN => Finding::ok(
            Code::Release,
            format!("operator and plugin have the same version, {tag}"),
        ),
        None => Finding::info(
            Code::Release,
            format!("the tag of the operator's image {image} is not a release"),
        ),
    }
}

/// Whether the operator has the rights of this version. Only an administrator may review the access of others, so its roles
/// and bindings are compared.
fn granted(facts: &Facts) -> Finding {
    let is_operators =
        |part: &&Part| part.wanted.labels().get(manifests::NAME_LABEL).map(String::as_str) == Some(operator::NAME);
    let mut lacking = Vec::new();
    let roles = [Kind::cluster_role(), Kind::role()];
    let bindings = [Kind::cluster_role_binding(), Kind::role_binding()];
    for part in facts.parts.iter().filter(is_operators) {
        let is_role = roles.contains(&part.kind);
        if !is_role && !bindings.contains(&part.kind) {
            continue;
        }
        let found = match &part.found {
            Err(error) => return Finding::unseen(Code::Rights, "the operator's rights", error),
            Ok(None) => {
                lacking.push(format!("{} does not exist", part.title()));
                continue;
            }
            Ok(Some(found)) => found,
        };
        if is_role {
            let namespace = part.wanted.namespace().unwrap_or_default();
            let has = rights::of_rules(&rights::rules(&found.data), "");
            let wanted = rights::of_rules(&rights::rules(&part.wanted.data), &namespace);
            let missing = wanted.iter().filter(|wanted| !rights::contain(&has, wanted));
            lacking.extend(missing.map(ToString::to_string));
        } else if !is_bound(found, &part.wanted) {
            lacking.push(format!("{} binds another role or subject", part.title()));
        }
    }
    if lacking.is_empty() {
        return Finding::ok(Code::Rights, "the operator has its rights");
    }
    Finding::error(Code::Rights, "the operator lacks rights")
        .why(some(&lacking))
        .next("kubectl appdeploy install")
}

/// Whether a binding grants the role to the operator's ServiceAccount.
fn is_bound(found: &DynamicObject, wanted: &DynamicObject) -> bool {
    let role = |object: &DynamicObject| serde_json::from_value::<RoleRef>(object.data["roleRef"].clone()).ok();
    let subjects = |object: &DynamicObject| -> Vec<Subject> {
        serde_json::from_value(object.data["subjects"].clone()).unwrap_or_default()
    };
    let has = subjects(found);
    let is_same = |one: &Subject, other: &Subject| {
        (&one.kind, &one.name, &one.namespace) == (&other.kind, &other.name, &other.namespace)
    };
    role(found) == role(wanted)
        && subjects(wanted)
            .iter()
            .all(|wanted| has.iter().any(|has| is_same(has, wanted)))
}

/// Whether the remaining objects of an installation exist. Objects with their own check are excluded.
fn complete(facts: &Facts) -> Finding {
    let mut elsewhere = vec![Kind::crd(), Kind::deployment()];
    elsewhere.extend(Kind::webhooks());
    let is_operators_right = |part: &Part| {
        let rights = [
            Kind::cluster_role(),
            Kind::role(),
            Kind::cluster_role_binding(),
            Kind::role_binding(),
        ];
        rights.contains(&part.kind) && part.wanted.labels().contains_key(manifests::NAME_LABEL)
    };
    let rest = facts
        .parts
        .iter()
        .filter(|part| !elsewhere.contains(&part.kind) && !is_operators_right(part));
    let (mut missing, mut is_broken) = (Vec::new(), false);
    for part in rest {
        match &part.found {
            Err(error) => return Finding::unseen(Code::Complete, "the rest of the installation", error),
            Ok(None) => {
                // Without these nothing works; without the others it is less safe.
                is_broken |= [Kind::service_account(), Kind::service()].contains(&part.kind);
                missing.push(part.title());
            }
            Ok(Some(found)) if found.metadata.deletion_timestamp.is_some() => {
                is_broken = true;
                missing.push(format!("{} is being deleted", part.title()));
            }
            Ok(Some(_)) => {}
        }
    }
    if missing.is_empty() {
        return Finding::ok(Code::Complete, "all other objects of the installation exist");
    }
    let severity = if is_broken { Severity::Error } else { Severity::Warning };
    Finding::new(Code::Complete, severity, "something of the installation is missing")
        .why(some(&missing))
        .next("kubectl appdeploy install")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::check::sample::{self, short};
    use serde_json::json;

    fn judged(change: impl Fn(&mut Facts)) -> String {
        let mut facts = sample::well();
        change(&mut facts);
        let installed = facts.installed.clone().unwrap();
        short(&findings(&facts, &installed))
    }

    fn only(code: Code, change: impl Fn(&mut Facts)) -> String {
        let all = judged(change);
        let lines = all.lines().filter(|line| line.contains(code.as_str()));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn deployment(facts: &mut Facts) -> &mut Deployment {
        match &mut facts.operator {
            Operator::Installed(deployment, _) => deployment,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn working_operator_has_five_lines() {
        insta::assert_snapshot!(judged(|_| {}), @r"
        ok AD0401: 2 of 2 replicas of the operator are available
        ok AD0402: appdeploy-operator-1 leads
        ok AD0403: operator and plugin have the same version, v0.1.0
        ok AD0404: the operator has its rights
        ok AD0405: all other objects of the installation exist
        ");
        insta::assert_snapshot!(judged(|facts| facts.operator = Operator::Absent), @"error AD0401: no operator is installed in this cluster; next: kubectl appdeploy install");
        insta::assert_snapshot!(judged(|facts| {
            deployment(facts).labels_mut().insert("olm.owner".to_owned(), "x".to_owned());
        }), @r"
        ok AD0401: 2 of 2 replicas of the operator are available
        ok AD0402: appdeploy-operator-1 leads
        ok AD0403: operator and plugin have the same version, v0.1.0
        info AD0405: OLM manages the installation: rights, webhooks and all other objects
        ");
    }

    #[test]
    fn reason_for_a_stopped_operator_is_printed() {
        let status = |facts: &mut Facts, replicas: i32, available: i32| {
            let deployment = deployment(facts);
            deployment.spec.as_mut().unwrap().replicas = Some(replicas);
            deployment.status.as_mut().unwrap().available_replicas = Some(available);
        };
        insta::assert_snapshot!(only(Code::Running, |facts| status(facts, 0, 0)), @"error AD0401: the operator is switched off: its Deployment is scaled to 0; next: kubectl -n appdeploy-system scale deployment appdeploy-operator --replicas=1");
        insta::assert_snapshot!(only(Code::Running, |facts| status(facts, 2, 1)), @"warning AD0401: 1 of 2 replicas of the operator are available (pod appdeploy-operator-2 runs and is not ready); next: kubectl -n appdeploy-system logs appdeploy-operator-2 --tail=20");
        insta::assert_snapshot!(only(Code::Running, |facts| {
            status(facts, 2, 0);
            facts.installed.as_mut().unwrap().pods = Err(Error::failed("Error from server (Forbidden): no"));
        }), @"error AD0401: 0 of 2 replicas of the operator are available; next: kubectl -n appdeploy-system get pods");
    }

    #[test]
    fn leader_has_renewed_its_lease_and_has_a_pod() {
        let lease = |facts: &mut Facts, lease: serde_json::Value| {
            facts.installed.as_mut().unwrap().lease = Ok(serde_json::from_value(json!({"spec": lease})).unwrap());
        };
        let old = json!({"holderIdentity": "appdeploy-operator-1_0a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T11:55:45.000000Z"});
        let late = json!({"holderIdentity": "gone_0a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T11:59:40.000000Z"});
        insta::assert_snapshot!(only(Code::Leader, |facts| lease(facts, old.clone())), @"error AD0402: no operator leads: apps are not reconciled (the Lease of appdeploy-operator-1 expired 4m ago); next: kubectl -n appdeploy-system logs deployment/appdeploy-operator --tail=20");
        insta::assert_snapshot!(only(Code::Leader, |facts| lease(facts, late.clone())), @"warning AD0402: gone leads, but its pod was deleted (another pod takes over within 15s of the last renewal); next: kubectl appdeploy check --wait");
        insta::assert_snapshot!(only(Code::Leader, |facts| lease(facts, json!({"holderIdentity": ""}))), @"error AD0402: no operator leads: apps are not reconciled (the Lease has no holder); next: kubectl -n appdeploy-system logs deployment/appdeploy-operator --tail=20");
        insta::assert_snapshot!(only(Code::Leader, |facts| facts.installed.as_mut().unwrap().lease = Ok(None)), @"error AD0402: no operator leads: apps are not reconciled (the Lease does not exist); next: kubectl -n appdeploy-system logs deployment/appdeploy-operator --tail=20");
        insta::assert_snapshot!(only(Code::Leader, |facts| {
            let containers = &mut deployment(facts).spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers;
            containers[0].env = None;
        }), @"warning AD0402: leader election is disabled: the operator must run with one replica (its Deployment has several replicas, and all of them would write); next: kubectl appdeploy install");
    }

    #[test]
    fn other_release_is_reported_with_what_to_use() {
        let image = |image: &str| {
            only(Code::Release, |facts| {
                let containers = &mut deployment(facts)
                    .spec
                    .as_mut()
                    .unwrap()
                    .template
                    .spec
                    .as_mut()
                    .unwrap()
                    .containers;
                containers[0].image = Some(image.to_owned());
            })
        };
        insta::assert_snapshot!([image("op:v9.9.9"), image("op:v0.0.1"), image("op:dev")].join("\n"), @r"
        warning AD0403: the operator is v9.9.9, this plugin is v0.1.0: use the same version of both; next: use the plugin of v9.9.9
        warning AD0403: the operator is v0.0.1, this plugin is v0.1.0: use the same version of both; next: kubectl appdeploy install
        info AD0403: the tag of the operator's image op:dev is not a release
        ");
    }

    #[test]
    fn missing_right_is_named() {
        let part = |facts: &mut Facts, kind: &Kind, change: &dyn Fn(&mut Part)| {
            let wanted = facts
                .parts
                .iter_mut()
                .find(|part| part.kind == *kind && part.wanted.name_any() == operator::NAME);
            change(wanted.unwrap());
        };
        insta::assert_snapshot!(only(Code::Rights, |facts| part(facts, &Kind::cluster_role(), &|part| {
            let rules = &mut part.found.as_mut().unwrap().as_mut().unwrap().data["rules"];
            rules.as_array_mut().unwrap().retain(|rule| rule["resources"] != json!(["deployments"]));
        })), @"error AD0404: the operator lacks rights (create deployments.apps, get deployments.apps, list deployments.apps, patch deployments.apps, watch deployments.apps); next: kubectl appdeploy install");
        insta::assert_snapshot!(only(Code::Rights, |facts| part(facts, &Kind::cluster_role_binding(), &|part| {
            part.found.as_mut().unwrap().as_mut().unwrap().data["subjects"] = json!([]);
        })), @"error AD0404: the operator lacks rights (clusterrolebinding.rbac.authorization.k8s.io/appdeploy-operator binds another role or subject); next: kubectl appdeploy install");
        insta::assert_snapshot!(only(Code::Rights, |facts| part(facts, &Kind::cluster_role(), &|part| part.found = Ok(None))), @"error AD0404: the operator lacks rights (clusterrole.rbac.authorization.k8s.io/appdeploy-operator does not exist); next: kubectl appdeploy install");
        insta::assert_snapshot!(only(Code::Complete, |facts| part(facts, &Kind::network_policy(), &|part| part.found = Ok(None))), @"warning AD0405: something of the installation is missing (networkpolicy.networking.k8s.io/appdeploy-operator); next: kubectl appdeploy install");
        insta::assert_snapshot!(only(Code::Complete, |facts| part(facts, &Kind::service_account(), &|part| part.found = Ok(None))), @"error AD0405: something of the installation is missing (serviceaccount/appdeploy-operator); next: kubectl appdeploy install");
        insta::assert_snapshot!(only(Code::Complete, |facts| part(facts, &Kind::service_account(), &|part| {
            part.found = Err(Error::failed("Error from server (Forbidden): no"));
        })), @"warning AD0405: the rest of the installation: n/a (forbidden)");
    }
}
