//! Whether the apps, pod sets and queues of a cluster are managed. An app that is not ready is not a fault of the installation.

use model::{NextCommand, command};
use std::collections::BTreeSet;

use super::facts::{Facts, Installed};
use super::finding::Finding;
use crate::cluster::kind_info::{self, KindInfo};
use crate::installation::check::code::Code;
use crate::installation::operator::{self, Operator};
use crate::output::formats::{enumerate, some};
use crate::resource::custom_resource::CustomResource;
use crd::status::condition;

/// Returns the findings.
pub fn findings(facts: &Facts, installed: &Installed) -> Vec<Finding> {
    let all = match &installed.resources {
        Ok(all) => all,
        Err(error) => return vec![Finding::unseen(Code::Watched, "apps, pod sets and queues", error)],
    };
    let mut findings = vec![watched(facts, all)];
    findings.extend((!all.is_empty()).then(|| stalled(all)));
    findings
}

fn watched(facts: &Facts, all: &[CustomResource]) -> Finding {
    if all.is_empty() {
        return Finding::ok(Code::Watched, "no apps, pod sets or queues exist");
    }
    let watched = match &facts.operator {
        Operator::Installed(deployment, _) => operator::watched(deployment),
        Operator::Absent | Operator::Unknown(_) => Vec::new(),
    };
    let is_watched = |one: &&CustomResource| watched.is_empty() || watched.iter().any(|name| name == one.namespace());
    let (inside, outside): (Vec<&CustomResource>, Vec<&CustomResource>) = all.iter().partition(is_watched);
    let overlooked: Vec<&CustomResource> = inside
        .into_iter()
        .filter(|one| one.summary().is_overlooked(facts.now))
        .collect();
    if let Some(first) = overlooked.first() {
        let absence = facts.operator.absence(Some(first.namespace()), facts.now);
        let why = absence.map_or_else(|| "the operator can't be seen".to_owned(), |(why, _)| why);
        let names: Vec<String> = overlooked.iter().map(|one| title(one)).collect();
        return Finding::error(Code::Watched, format!("no operator manages {}", some(&names)))
            .why(why)
            .next(command!(
                "kubectl -n {} logs deployment/{}",
                crd::OPERATOR_NAMESPACE,
                operator::NAME
            ));
    }
    if !outside.is_empty() {
        let namespaces: BTreeSet<&str> = outside.iter().map(|one| one.namespace()).collect();
        let namespaces: Vec<String> = namespaces.into_iter().map(ToOwned::to_owned).collect();
        return Finding::warning(
            Code::Watched,
            format!(
                "no operator manages {} in {}",
                count(outside.iter().copied()),
                some(&namespaces)
            ),
        )
        .why(format!("the operator watches only {}", some(&watched)))
        .next(command!(
            "kubectl appdeploy install --watch-namespace={},{}",
            watched.join(","),
            namespaces.join(",")
        ));
    }
    Finding::ok(Code::Watched, format!("the operator manages {}", count(all)))
}

fn stalled(all: &[CustomResource]) -> Finding {
    let stalled: Vec<&CustomResource> = all
        .iter()
        .filter(|one| one.summary().is_observed() && one.summary().is_true(condition::STALLED))
        .collect();
    if stalled.is_empty() {
        return Finding::ok(Code::Stalled, "no app, pod set or queue is stalled");
    }
    let names: Vec<String> = stalled
        .iter()
        .map(|one| format!("{} ({})", title(one), one.summary().reason()))
        .collect();
    let finding = Finding::warning(
        Code::Stalled,
        format!(
            "{} will not become ready without a change",
            count(stalled.iter().copied())
        ),
    )
    .why(some(&names));
    // One command for each kind that is concerned.
    let kinds = kind_info::ALL.into_iter();
    let kinds = kinds.filter(|kind| stalled.iter().any(|one| one.summary().kind == *kind));
    kinds
        .map(|kind| NextCommand::from(kind.command).and("status -A"))
        .fold(finding, Finding::next)
}

fn title(one: &CustomResource) -> String {
    format!("{}/{}", one.namespace(), one.name())
}

/// Returns how many there are of each kind, in words.
fn count<'a>(all: impl IntoIterator<Item = &'a CustomResource>) -> String {
    let kinds: Vec<&KindInfo> = all.into_iter().map(|one| one.summary().kind).collect();
    let counts = kind_info::ALL.map(|kind| {
        let count = kinds.iter().filter(|one| **one == kind).count();
        (count > 0).then(|| kind.count(count))
    });
    enumerate(&counts.into_iter().flatten().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::check::sample::{self, short};
    use kube::api::DynamicObject;
    use serde_json::{Value, json};

    fn one(kind: impl Into<&'static KindInfo>, namespace: &str, status: &Value) -> CustomResource {
        let object = json!({"metadata": {"name": "shop", "namespace": namespace, "generation": 1, "creationTimestamp": "2026-01-01T11:00:00Z"},
            "spec": {"image": "nginx"}, "status": status});
        CustomResource::read(kind.into(), &serde_json::from_value::<DynamicObject>(object).unwrap())
    }

    fn judged(all: Vec<CustomResource>, watched: &str) -> String {
        let mut facts = sample::well();
        if let Operator::Installed(deployment, _) = &mut facts.operator
            && !watched.is_empty()
        {
            let containers = &mut deployment
                .spec
                .as_mut()
                .unwrap()
                .template
                .spec
                .as_mut()
                .unwrap()
                .containers;
            containers[0].args = Some(vec![format!("--watch-namespace={watched}")]);
        }
        let mut installed = facts.installed.clone().unwrap();
        installed.resources = Ok(all);
        short(&findings(&facts, &installed))
    }

    #[test]
    fn unmanaged_apps_and_stalled_apps_are_separate_findings() {
        let stalled = json!({"observedGeneration": 1, "conditions": [
            {"type": "Ready", "status": "False", "reason": "ImageNotFound", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Stalled", "status": "True", "reason": "ImageNotFound", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let well = json!({"observedGeneration": 1});
        let (app, set) = (crd::Kind::AppDeploy, crd::Kind::PodSet);
        insta::assert_snapshot!(judged(vec![], ""), @"ok AD0601: no apps, pod sets or queues exist");
        insta::assert_snapshot!(judged(vec![one(app, "a", &well), one(set, "a", &well)], ""), @r"
        ok AD0601: the operator manages 1 app and 1 pod set
        ok AD0602: no app, pod set or queue is stalled
        ");
        insta::assert_snapshot!(judged(vec![one(app, "a", &well), one(app, "b", &stalled), one(set, "b", &stalled)], ""), @r"
        ok AD0601: the operator manages 2 apps and 1 pod set
        warning AD0602: 1 app and 1 pod set will not become ready without a change (b/shop (ImageNotFound), b/shop (ImageNotFound)); next: kubectl appdeploy status -A
        ");
        let mixed = vec![
            one(app, "a", &well),
            one(set, "b", &well),
            one(&kind_info::QUEUE, "b", &stalled),
        ];
        insta::assert_snapshot!(judged(mixed, ""), @r"
        ok AD0601: the operator manages 1 app, 1 pod set and 1 queue
        warning AD0602: 1 queue will not become ready without a change (b/shop (ImageNotFound)); next: kubectl appdeploy queue status -A
        ");
        insta::assert_snapshot!(judged(vec![one(app, "a", &json!(null))], ""), @r"
        error AD0601: no operator manages a/shop (the operator runs, but has not seen it); next: kubectl -n appdeploy-system logs deployment/appdeploy-operator
        ok AD0602: no app, pod set or queue is stalled
        ");
        insta::assert_snapshot!(judged(vec![one(app, "a", &well), one(app, "b", &json!(null))], "a,c"), @r"
        warning AD0601: no operator manages 1 app in b (the operator watches only a, c); next: kubectl appdeploy install --watch-namespace=a,c,b
        ok AD0602: no app, pod set or queue is stalled
        ");
    }
}
